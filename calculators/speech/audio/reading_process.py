"""The process that reads sound files: ``python -m calculators.speech.audio.reading_process FD
PARENT``.
"""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from time import process_time
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.child_process.answering_process import Report, run
from calculators.kit.child_process.messages import ReaderLoad, ReaderReady
from calculators.speech.audio.reading_messages import (
    Close,
    Forgotten,
    Open,
    Opened,
    Read,
    SoundRead,
    SoundRefused,
    to_reader_decoder,
)

if TYPE_CHECKING:
    from calculators.speech.audio.sound import Samples

#: A slice ends with the block that makes it as long, or took as much processor time.
SLICE_SECONDS: Final = 30.0
_SLICE_COST: Final = 0.15
#: Files that are open, and their bytes; the one that was not read for longest is forgotten first.
MOST_OPEN: Final = 256
MOST_BYTES: Final = 1024**3


class _OpenFile:
    def __init__(self, blocks: Iterator[Samples], sample_rate: int, size: int) -> None:
        self.blocks = blocks
        self.sample_rate = sample_rate
        self.size = size


class _Files:
    """The open files, by the server's names."""

    def __init__(self) -> None:
        #: The one that was read last comes last.
        self._files: OrderedDict[int, _OpenFile] = OrderedDict()
        self._bytes = 0

    def answer(
        self, question: Open | Read | Close
    ) -> Opened | SoundRead | Forgotten | SoundRefused:
        from calculators.speech.audio.reading import SoundFileError

        try:
            if isinstance(question, Open):
                return self._open(question)
            if isinstance(question, Read):
                return self._read(question.key)
        except SoundFileError as error:
            self._forget(question.key)
            return SoundRefused(str(error))
        except BaseException:
            self._forget(question.key)
            raise
        self._forget(question.key)
        return Forgotten()

    def _open(self, question: Open) -> Opened:
        from calculators.speech.audio.reading import open_sound

        content = bytes(question.content)
        file = open_sound(content)
        self._forget(question.key)
        blocks = file.blocks(sample_rate=question.sample_rate, max_seconds=question.max_seconds)
        self._files[question.key] = _OpenFile(blocks, question.sample_rate, len(content))
        self._bytes += len(content)
        while len(self._files) > MOST_OPEN or (self._bytes > MOST_BYTES and len(self._files) > 1):
            self._forget(next(iter(self._files)))
        return Opened(file.seconds, file.cost)

    def _read(self, key: int) -> SoundRead | Forgotten:
        from calculators.speech.audio.sound import to_pcm16

        file = self._files.get(key)
        if file is None:
            return Forgotten()
        self._files.move_to_end(key)
        began = process_time()
        left = SLICE_SECONDS * file.sample_rate
        parts: list[bytes] = []
        is_last = True
        for block in file.blocks:
            parts.append(to_pcm16(block))
            left -= len(block)
            if left <= 0 or process_time() - began > _SLICE_COST:
                is_last = False
                break
        if is_last:
            self._forget(key)
        return SoundRead(memoryview(b"".join(parts)), is_last)

    def _forget(self, key: int) -> None:
        file = self._files.pop(key, None)
        if file is not None:
            self._bytes -= file.size


def load(message: ReaderLoad, report: Report) -> tuple[ReaderReady, Callable[[Any], Any]]:
    """Import the libraries."""
    import calculators.speech.audio.reading  # noqa: F401

    return ReaderReady(), _Files().answer


def refuse(reason: str) -> SoundRefused:
    """Refuse a file whose reading raised; the reason is in the log."""
    return SoundRefused("cannot be read")


if __name__ == "__main__":
    descriptor, parent = map(int, sys.argv[1:])
    os._exit(run(descriptor, parent, to_reader_decoder.decode, ReaderLoad, load, refuse))
