"""`DrawingProcess`: a supervised process that draws, one image at a time.

A `Drawing` is a request under way, as its node sees it; `ImageMetrics` are a node's metrics.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, NamedTuple

import msgspec

from calculators.images.image_generation.messages import (
    CancelDrawing,
    Continue,
    Draw,
    DrawingBegun,
    DrawingLoad,
    DrawingProgress,
    DrawingReady,
    DrawingRefused,
    Drawn,
    Paused,
    SentImage,
    from_artist_decoder,
)
from calculators.images.image_generation.request import ImageRequest
from calculators.kit.child_process.supervisor import (
    RETRY_AFTER,
    Overrun,
    SupervisedProcess,
    WorkLimit,
)
from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code, NodeMetrics

#: Bounds of histograms in seconds, up to an hour.
_SECONDS: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 3600.0)


class ImageMetrics:
    """The metrics of one node."""

    def __init__(self, metrics: NodeMetrics) -> None:
        self._metrics = metrics
        self._ends: list[Callable[[], None]] = []
        self.images = metrics.counter("graphrt_images_drawn", "Images that were finished.")
        self.steps = metrics.counter("graphrt_image_steps", "Steps of denoising that were made.")
        self.cancelled = metrics.counter(
            "graphrt_image_requests_cancelled", "Requests that ended because their client went."
        )
        self.queue_seconds = metrics.histogram(
            "graphrt_image_queue_seconds",
            "Time that a request waited for its turn.",
            bounds=_SECONDS,
        )
        self.seconds = metrics.histogram(
            "graphrt_image_drawing_seconds",
            "Time from the turn of a request to its last image.",
            bounds=_SECONDS,
        )

    def follow(
        self,
        *,
        waiting: Callable[[], float],
        running: Callable[[], float],
        progress: Callable[[], float],
        is_up: Callable[[], float],
        restarts: Callable[[], float],
    ) -> None:
        """Publish values that are read when the metrics are; until `end`."""
        metrics = self._metrics
        self._ends = [
            metrics.gauge(
                "graphrt_image_requests_waiting", "Requests that wait for their turn."
            ).follow(waiting),
            metrics.gauge(
                "graphrt_image_requests_running",
                "Requests of which an image is being drawn: 1, and a large one.",
            ).follow(running),
            metrics.gauge(
                "graphrt_image_progress_ratio",
                "Part of the steps of the running request that is done, 0 to 1.",
            ).follow(progress),
            metrics.gauge(
                "graphrt_image_process_up", "Can the process that draws work now? 1 or 0."
            ).follow(is_up),
            metrics.counter(
                "graphrt_image_process_restarts",
                "How often the process that draws had to be started again.",
            ).follow(restarts),
        ]

    def end(self) -> None:
        """Stop publishing what is followed."""
        for end in self._ends:
            end()
        self._ends = []


class DrawnImage(NamedTuple):
    """An image, finished or not.

    Attributes:
        place: among the images of the request.
        partial: its place among the unfinished images of the same place; None: it is finished.
        data: the file in base64, or the bytes of pixels.
    """

    place: int
    partial: int | None
    data: bytes


class Drawing:
    """The images of one request, as they come: iterate over it once.

    Attributes:
        begun: the size and the tokens of the prompt; before the first image.
        pid: the process that has begun it, and keeps what it has read; None before that.
        is_cancelled: it is not wanted any more.
    """

    def __init__(self, number: int, request: ImageRequest, output_format: str) -> None:
        self.number = number
        self.request = request
        self.output_format = output_format
        self.begun: DrawingBegun | None = None
        self.pid: int | None = None
        self.is_cancelled = False
        #: Done when nothing more comes.
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # None is the end.
        self._events: asyncio.Queue[DrawnImage | Exception | None] = asyncio.Queue()
        self._on_cancel: Callable[[], None] | None = None
        #: Places of images that are passed on: a drawing that is begun again makes them once more.
        self._taken: set[tuple[int, int]] = set()

    def __aiter__(self) -> AsyncIterator[DrawnImage]:
        return self._images()

    async def _images(self) -> AsyncIterator[DrawnImage]:
        while (event := await self._events.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` when the drawing is cancelled."""
        self._on_cancel = callback

    def cancel(self) -> None:
        """End the drawing at its next step: it is not wanted any more. Does nothing at its end."""
        if not self.over.done() and not self.is_cancelled:
            self.is_cancelled = True
            if self._on_cancel is not None:
                self._on_cancel()

    def take(self, image: SentImage) -> None:
        """Pass on an image, unless it has been."""
        if (image.index, image.partial) in self._taken:
            return
        self._taken.add((image.index, image.partial))
        partial = None if image.partial < 0 else image.partial
        self._events.put_nowait(DrawnImage(image.index, partial, image.data))

    def end(self, error: Exception | None = None) -> None:
        """End the iteration, with an error if there is one. Later calls do nothing."""
        if not self.over.done():
            self.over.set_result(None)
            self._events.put_nowait(error)


#: Silence after which a busy process counts as hung. It gives signs of life during a step.
HANG_SECONDS: Final = 60.0
#: Processor seconds for reading the given files, and seconds after which the process is replaced.
_READ_CPU_SECONDS: Final = 30.0
_READ_WALL_SECONDS: Final = 120.0

_log = logging.getLogger("graphrt.image_generation")


class DrawingProcess(SupervisedProcess[DrawingReady]):
    """A process with the model. It draws one image at a time; the caller orders the requests.

    Attributes:
        current: the request whose image is being drawn.
        progress: the steps of that request, or of the last one; None before its first step.
    """

    def __init__(self, load: DrawingLoad, what: str, metrics: ImageMetrics) -> None:
        """``what``: the process in words, for messages."""
        self._metrics = metrics
        self._encode = msgspec.msgpack.Encoder().encode
        self.current: Drawing | None = None
        self.progress: DrawingProgress | None = None
        #: Done when the current turn is over; True if the request has more.
        self._turn: asyncio.Future[bool] | None = None
        self._limit: WorkLimit | None = None
        self._overrun: Overrun | None = None
        self._is_at_fault = False
        super().__init__(
            name=what,
            module="calculators.images.image_generation.process",
            load=load,
            decode=from_artist_decoder.decode,
            ready=DrawingReady,
            hang_seconds=HANG_SECONDS,
            stall_seconds=HANG_SECONDS,  # a step of a large model may take that long
        )

    async def draw(self, drawing: Drawing, first: Draw) -> bool:
        """Draw the next image of a request; return whether it has more.

        If the process that began it is gone, it is begun again: its seed gives the same images.

        Args:
            first: the message that begins the request.

        Raises:
            RequestError: no process can work.
        """
        await self.until_ready()
        pid = self.pid
        begins = drawing.pid != pid
        # A picture in it may have megabytes.
        message = first if begins else Continue(drawing.number)
        body = await asyncio.to_thread(self._encode, message)
        await self.until_ready()
        if drawing.is_cancelled:
            drawing.end()
            return False
        if pid is None or self.pid != pid:
            raise self._stopped()
        drawing.pid = pid
        self._overrun = None
        if begins:
            self.progress = None
        self.current = drawing
        self._turn = asyncio.get_running_loop().create_future()
        self.expect_answer()
        self.send(body)
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
        if drawing.pid is not None and drawing.pid == self.pid:
            self.send(self._encode(CancelDrawing(drawing.number)))

    # See `SupervisedProcess` ----------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        return self.current is not None

    def take(self, message: Any) -> None:
        drawing = self.current
        if drawing is None or message.number != drawing.number:
            return
        match message:
            case DrawingBegun():
                drawing.begun = message
                assert self._limit is not None
                self._limit.stop()
            case DrawingProgress(step=step, steps=steps):
                done = 0 if self.progress is None else self.progress.step
                self.progress = message
                self._metrics.steps.add(max(step - done, 0))
                _log.debug("%s: step %d of %d", self.name, step, steps)
            case SentImage():
                if message.partial < 0:
                    self._metrics.images.add()
                drawing.take(message)
            case DrawingRefused():
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
        self.kill("it took too long to read the images of a request")

    def caused_end(self) -> bool:
        self._is_at_fault = self.current is not None and (
            self._overrun is Overrun.CPU or (self._overrun is None and self.has_crashed)
        )
        return self._is_at_fault

    def down(self, reason: str) -> None:
        if self.current is None:
            return
        if self._overrun is Overrun.CPU:
            error = RequestError("the images of the request take too long to read", param="image")
        elif self._is_at_fault:
            error = RequestError(
                f"the {self.name} broke down while it drew this request; it is started again",
                code=Code.INTERNAL,
            )
        else:
            error = self._stopped()
        self._fail(self.current, error)

    def end_work(self) -> None:
        if self.current is not None:
            self._fail(self.current, self.unavailable())

    def _stopped(self) -> RequestError:
        return RequestError(
            f"the {self.name} stopped while it drew this request; it is started again",
            code=Code.UNAVAILABLE,
            retry_after=RETRY_AFTER,
        )
