"""The model's process: ``python -m calculators.speech.speech_to_text.process DESCRIPTOR
PARENT``.
"""

from __future__ import annotations

import logging
import os
import sys
from collections import deque
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from calculators.kit.child_process.answering_process import limit_memory
from calculators.kit.child_process.lean_openvino import load_failure
from calculators.kit.child_process.library_errors import library_reason
from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild
from calculators.kit.child_process.parent_connection import (
    ParentConnection,
    ParentGone,
    die_with_parent,
)
from calculators.speech.audio.sound import Samples as Floats
from calculators.speech.audio.sound import from_pcm16
from calculators.speech.speech_to_text.messages import (
    CancelSpeech,
    Recognize,
    Recognized,
    RecognizerLoad,
    RecognizerReady,
    Samples,
    SpeechFailed,
    SpokenPiece,
    Stopped,
    Yield,
    encode,
    to_model_decoder,
)

if TYPE_CHECKING:
    from calculators.speech.speech_to_text.speech_model import SpeechModel

_LOGGER: Final = "graphrt.child"


class SpeechProcess:
    """Answers one sound after the other, and reads messages between two tokens.

    One thread does everything: the pipeline takes no second one.
    """

    def __init__(self, connection: ParentConnection) -> None:
        self._connection = connection
        #: Messages, each with the number of the link that it came by.
        self._waiting: deque[tuple[int, Any]] = deque()
        #: The samples of each link's next sound.
        self._samples: dict[int, list[Floats]] = {}
        self._model: SpeechModel | None = None
        #: The last sound of each link that was cancelled, and that was to let others have a turn.
        self._cancelled: dict[int, int] = {}
        self._yielding: dict[int, int] = {}
        self._is_stopping = False
        #: Links that have ended.
        self._left: set[int] = set()

    def run(self) -> int:
        """Answer until the server sends `StopChild`; returns the exit code.

        Raises:
            ParentGone: the server is gone.
        """
        while True:
            self._receive(wait=not self._waiting)
            while self._waiting:
                link, message = self._waiting.popleft()
                if isinstance(message, StopChild):
                    return 0
                if isinstance(message, RecognizerLoad):
                    if not self._load(message):
                        return 1
                elif isinstance(message, Samples):
                    self._samples.setdefault(link, []).append(from_pcm16(message.pcm))
                elif isinstance(message, Recognize):
                    self._connection.send_to(link, encode(self._answer(link, message)))

    def _receive(self, *, wait: bool) -> None:
        for frame in self._connection.receive(wait=wait):
            message = to_model_decoder.decode(frame)
            if isinstance(message, CancelSpeech):
                self._cancelled[self._connection.link] = message.number
                continue
            if isinstance(message, Yield):
                self._yielding[self._connection.link] = message.number
                continue
            self._is_stopping = isinstance(message, StopChild)
            self._waiting.append((self._connection.link, message))
        while self._connection.gone:
            link = self._connection.gone.pop()
            self._waiting = deque(each for each in self._waiting if each[0] != link)
            self._samples.pop(link, None)
            self._cancelled.pop(link, None)
            self._yielding.pop(link, None)
            self._left.add(link)

    def _load(self, load: RecognizerLoad) -> bool:
        try:
            # Imported here: the library takes long to load, and may be what is broken.
            from calculators.speech.speech_to_text.speech_model import SpeechModel

            self._model = SpeechModel(load, self._report)
        except Exception as error:
            self._connection.send(encode(LoadFailed(load_failure(load.model_path, error))))
            return False
        limit_memory(load.memory_limit)
        self._connection.send(encode(RecognizerReady()))
        return True

    def _report(self, phase: LoadingPhase) -> None:
        self._connection.send(encode(phase))

    def _answer(self, link: int, question: Recognize) -> Recognized | Stopped | SpeechFailed:
        assert self._model is not None, "it is loaded first"
        parts = self._samples.pop(link, [])
        samples = np.concatenate(parts) if parts else np.zeros(0, np.float32)

        def on_text(text: str) -> bool:
            self._receive(wait=False)
            is_left = link in self._left
            if self._is_stopping or is_left or self._cancelled.get(link) == question.number:
                return False
            if text:
                self._connection.send_to(link, encode(SpokenPiece(text)))
            return True

        def yields() -> bool:
            # Other workers of the server have turns of their own.
            others = any(isinstance(message, Recognize) for _, message in self._waiting)
            return others or self._yielding.get(link) == question.number

        if self._cancelled.get(link) == question.number:
            return Stopped()
        try:
            if question.windows:
                return self._model.recognize_part(samples, question, on_text, yields)
            return self._model.recognize(samples, question, on_text)
        except ParentGone:
            raise
        except Exception as error:
            text = f"a sound failed: {type(error).__name__}: {library_reason(error)}"
            self._connection.send_to(link, encode(Log(logging.ERROR, _LOGGER, text)))
            return SpeechFailed()


def main() -> int:
    descriptor, parent = map(int, sys.argv[1:3])
    connection = ParentConnection(descriptor)
    try:
        die_with_parent(parent)
        return SpeechProcess(connection).run()
    except ParentGone:
        return 0


if __name__ == "__main__":
    # Skips the library's destructors, which are slow.
    os._exit(main())
