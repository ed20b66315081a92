"""`DrawingProcess`: a supervised process that draws, one image at a time."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import msgspec

from calculators.images.image_generation.drawing import Drawing
from calculators.images.image_generation.image_metrics import ImageMetrics
from calculators.images.image_generation.messages import (
    Begun,
    Cancel,
    Continue,
    Draw,
    Drawn,
    Image,
    Load,
    Paused,
    Progress,
    Ready,
    Refused,
    from_artist_decoder,
)
from calculators.kit.child_process.supervisor import RETRY_AFTER, Overrun, Supervisor, WorkLimit
from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code, LoadProgress

#: Silence after which a busy process counts as hung. It gives signs of life during a step.
HANG_SECONDS: Final = 60.0
#: Processor seconds for reading the given files, and seconds after which the process is replaced.
_READ_CPU_SECONDS: Final = 30.0
_READ_WALL_SECONDS: Final = 120.0

_log = logging.getLogger("graphrt.image_generation")


class DrawingProcess:
    """A process with the model. It draws one image at a time; the caller orders the requests.

    Attributes:
        current: the request whose image is being drawn.
        progress: the steps of that request, or of the last one; None before its first step.
    """

    def __init__(self, load: Load, what: str, metrics: ImageMetrics) -> None:
        """``what``: the process in words, for messages."""
        self._what = what
        self._metrics = metrics
        self._encode = msgspec.msgpack.Encoder().encode
        self.current: Drawing | None = None
        self.progress: Progress | None = None
        #: Done when the current turn is over; True if the request has more.
        self._turn: asyncio.Future[bool] | None = None
        self._limit: WorkLimit | None = None
        self._overrun: Overrun | None = None
        self._is_at_fault = False
        self._child = Supervisor(
            name=what,
            module="calculators.images.image_generation.process",
            load=load,
            decode=from_artist_decoder.decode,
            ready=Ready,
            on_message=self._take,
            on_down=self._down,
            is_requests_fault=self._judge,
            is_busy=lambda: self.current is not None,
            hang_seconds=HANG_SECONDS,
            stall_seconds=HANG_SECONDS,  # a step of a large model may take that long
        )

    async def start(self, progress: LoadProgress | None = None) -> Ready:
        """Load the model; ``progress`` gets the phases.

        Raises:
            LoadError: it cannot be loaded; nothing is left running.
        """
        ready: Ready = await self._child.start(progress)
        return ready

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._child.pid

    @property
    def unavailable_reason(self) -> str:
        return self._child.unavailable_reason

    @property
    def restarts(self) -> int:
        return self._child.restarts

    async def close(self) -> None:
        """End the process. The request under way fails."""
        closing = asyncio.create_task(self._child.close())
        await asyncio.sleep(0)  # it is closed, so no drawing begins
        if self.current is not None:
            self._fail(self.current, self._child.unavailable())
        await closing

    async def draw(self, drawing: Drawing, first: Draw) -> bool:
        """Draw the next image of a request; return whether it has more.

        If the process that began it is gone, it is begun again: its seed gives the same images.

        Args:
            first: the message that begins the request.

        Raises:
            RequestError: no process can work.
        """
        await self._child.until_ready()
        pid = self._child.pid
        begins = drawing.pid != pid
        # A picture in it may have megabytes.
        message = first if begins else Continue(drawing.number)
        body = await asyncio.to_thread(self._encode, message)
        await self._child.until_ready()
        if drawing.is_cancelled:
            drawing.end()
            return False
        if pid is None or self._child.pid != pid:
            raise self._stopped()
        drawing.pid = pid
        self._overrun = None
        if begins:
            self.progress = None
        self.current = drawing
        self._turn = asyncio.get_running_loop().create_future()
        self._child.expect_answer()
        self._child.send(body)
        del message, body
        self._limit = WorkLimit(
            pid, cpu=_READ_CPU_SECONDS, wall=_READ_WALL_SECONDS, on_overrun=self._stop
        )
        if not begins:
            self._limit.stop()
        try:
            return await self._turn
        finally:
            self._limit.stop()
            self.current = self._turn = None

    def cancel(self, drawing: Drawing) -> None:
        """End a drawing that has begun: at its next step, or at once if it has paused."""
        if drawing.pid is not None and drawing.pid == self._child.pid:
            self._child.send(self._encode(Cancel(drawing.number)))

    # Called by the supervisor ---------------------------------------------------------------------

    def _take(self, message: Any) -> None:
        drawing = self.current
        if drawing is None or message.number != drawing.number:
            return
        match message:
            case Begun():
                drawing.begun = message
                assert self._limit is not None
                self._limit.stop()
            case Progress(step=step, steps=steps):
                done = 0 if self.progress is None else self.progress.step
                self.progress = message
                self._metrics.steps.add(max(step - done, 0))
                _log.debug("%s: step %d of %d", self._what, step, steps)
            case Image():
                if message.partial < 0:
                    self._metrics.images.add()
                drawing.take(message)
            case Refused():
                code = Code[message.code]
                self._fail(drawing, RequestError(message.reason, param=message.param, code=code))
            case Paused():
                self._end_turn(has_more=True)
            case Drawn():
                drawing.end()
                self._end_turn(has_more=False)
            case _:  # a sign of life, which the supervisor has noted
                pass

    def _fail(self, drawing: Drawing, error: RequestError) -> None:
        drawing.end(error)
        self._end_turn(has_more=False)

    def _end_turn(self, *, has_more: bool) -> None:
        if self._turn is not None and not self._turn.done():
            self._turn.set_result(has_more)

    def _stop(self, overrun: Overrun) -> None:
        self._overrun = overrun
        self._child.kill("it took too long to read the images of a request")

    def _judge(self) -> bool:
        """Return whether the current request caused the end of the process."""
        self._is_at_fault = self.current is not None and (
            self._overrun is Overrun.CPU or (self._overrun is None and self._child.has_crashed)
        )
        return self._is_at_fault

    def _down(self, reason: str) -> None:
        if self.current is None:
            return
        if self._overrun is Overrun.CPU:
            error = RequestError("the images of the request take too long to read", param="image")
        elif self._is_at_fault:
            error = RequestError(
                f"the {self._what} broke down while it drew this request; it is started again",
                code=Code.INTERNAL,
            )
        else:
            error = self._stopped()
        self._fail(self.current, error)

    def _stopped(self) -> RequestError:
        return RequestError(
            f"the {self._what} stopped while it drew this request; it is started again",
            code=Code.UNAVAILABLE,
            retry_after=RETRY_AFTER,
        )
