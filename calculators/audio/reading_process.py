"""The process that reads sound files: ``python -m calculators.audio.reading_process FD PARENT``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from calculators.audio.reading_messages import (
    Load,
    Read,
    Ready,
    Refused,
    SoundRead,
    to_reader_decoder,
)
from calculators.child_process.answering_process import Report, run


def load(message: Load, report: Report) -> tuple[Ready, Callable[[Any], Any]]:
    """Import the libraries."""
    from calculators.audio.pcm import to_pcm16
    from calculators.audio.reading import SoundFileError, read_blocks

    def read(question: Read) -> SoundRead | Refused:
        blocks = read_blocks(
            bytes(question.content),
            sample_rate=question.sample_rate,
            max_seconds=question.max_seconds,
        )
        try:
            return SoundRead(memoryview(b"".join(map(to_pcm16, blocks))))
        except SoundFileError as error:
            return Refused(str(error))

    return Ready(), read


def refuse(reason: str) -> Refused:
    """Refuse a file whose reading raised; the reason is in the log."""
    return Refused("cannot be read")


if __name__ == "__main__":
    descriptor, parent = map(int, sys.argv[1:])
    os._exit(run(descriptor, parent, to_reader_decoder.decode, Load, load, refuse))
