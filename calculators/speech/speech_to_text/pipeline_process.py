"""`PipelineProcess`: a speech model in a supervised process, from the server's side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from calculators.kit.child_process.shared_child import sharers
from calculators.kit.child_process.supervisor import (
    ChildState,
    Overrun,
    SupervisedProcess,
    WorkLimit,
)
from calculators.kit.requests.http_payload import RequestError
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
    from_model_decoder,
)
from graph_runtime import Cancelled

#: The limit of processor seconds for a sound, and what each second of the sound adds to it. A
#: model of 1.5 billion parameters takes about 10 for each second on slow cores.
CPU_SECONDS: Final = 120.0
CPU_SECONDS_PER_SECOND: Final = 60.0
#: Seconds of silence after which a busy process counts as hung: it reports nothing while it
#: encodes a window of 30 s.
HANG_SECONDS: Final = 300.0
_NEVER: Final = 1e9
#: Bytes of samples that are sent at a time, so that the event loop does other work in between.
_PART_BYTES: Final = 1024 * 1024


class Lost(Exception):
    """The process ended, and the sound was not the cause."""


class PipelineProcess(SupervisedProcess[RecognizerReady]):
    """One model in one process: one sound at a time. It is started again whenever it dies."""

    def __init__(self, load: RecognizerLoad, name: str) -> None:
        """``name``: of the process, for messages."""
        self._answer: asyncio.Future[Recognized] | None = None
        self._on_piece: Callable[[str], None] = _drop
        self._overrun: Overrun | None = None
        self._cancelled = -1
        self._is_at_fault = False
        super().__init__(
            name=name,
            module="calculators.speech.speech_to_text.process",
            load=load,
            decode=from_model_decoder.decode,
            ready=RecognizerReady,
            hang_seconds=HANG_SECONDS * sharers(),
            stall_seconds=HANG_SECONDS * sharers(),
            is_shared=True,
        )

    @property
    def is_ready(self) -> bool:
        """True if a sound would be begun at once."""
        return self.state is ChildState.READY and self._answer is None

    def cancel(self, number: int) -> None:
        """Stop the recognition of a sound at its next token, or before it begins."""
        self._cancelled = number
        self.send(encode(CancelSpeech(number)))

    def let_others(self, number: int) -> None:
        """Stop a part of a long sound after a window, because others wait."""
        self.send(encode(Yield(number)))

    async def recognize(
        self,
        question: Recognize,
        pcm: memoryview,
        seconds: float,
        on_piece: Callable[[str], None],
        *,
        yields: bool = False,
    ) -> Recognized:
        """Return the text of a sound, or of a part. Must not be cancelled: see `cancel`.

        Args:
            pcm: its samples, see `Samples`.
            seconds: its duration.
            on_piece: called with new text.
            yields: others wait already; see `let_others`.

        Raises:
            Lost: the process ended, and the sound was not the cause.
            RequestError: the sound takes too long, or fails; the process is down.
            Cancelled: after `cancel`.
        """
        await self.until_ready()
        if self._cancelled == question.number:
            raise Cancelled
        pid = self.pid
        assert pid is not None
        self._overrun = None
        self._on_piece = on_piece
        answer: asyncio.Future[Recognized] = asyncio.get_running_loop().create_future()
        self._answer = answer
        self.expect_answer()
        limit = WorkLimit(
            pid,
            # It may be at the sounds of other workers first.
            cpu=(CPU_SECONDS + CPU_SECONDS_PER_SECOND * seconds) * sharers(),
            wall=_NEVER,  # the supervisor finds out when it hangs
            on_overrun=self._stop,
        )
        try:
            for begin in range(0, len(pcm), _PART_BYTES):
                self.send(encode(Samples(pcm[begin : begin + _PART_BYTES])))
                await asyncio.sleep(0)
            self.send(encode(question))
            if yields:
                self.let_others(question.number)
            return await answer
        finally:
            self._answer = None
            self._on_piece = _drop
            limit.stop()

    # See `SupervisedProcess` ----------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        return self._answer is not None

    def take(self, message: Any) -> None:
        if self._answer is None or self._answer.done():
            return
        if isinstance(message, SpokenPiece):
            self._on_piece(message.text)
        elif isinstance(message, Recognized):
            self._answer.set_result(message)
        elif isinstance(message, Stopped):
            self._answer.set_exception(Cancelled())
        elif isinstance(message, SpeechFailed):
            self._answer.set_exception(
                RequestError("the model could not turn this sound into text", param="file")
            )

    def _stop(self, overrun: Overrun) -> None:
        self._overrun = overrun
        self.kill("it took too long for one sound")

    def caused_end(self) -> bool:
        is_asked = self._answer is not None and not self._answer.done()
        self._is_at_fault = is_asked and (self._overrun is not None or self.has_crashed)
        return self._is_at_fault

    def down(self, reason: str) -> None:
        if self._answer is None or self._answer.done():
            return
        if self._is_at_fault:
            why = "the sound takes too long or too much memory"
            self._answer.set_exception(RequestError(why, param="file"))
        else:
            self._answer.set_exception(Lost(reason))

    def end_work(self) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(self.unavailable())


def _drop(text: str) -> None:
    """Discard the text of an abandoned sound."""
