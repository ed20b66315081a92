"""`ImageGenServable`: the resource of an image node."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Final

import msgspec

from calculators.child_process.fair_turns import FairTurns, TooManyWaiting
from calculators.child_process.supervisor import RETRY_AFTER, Supervisor
from calculators.child_process.work_limit import Overrun, WorkLimit
from calculators.image_generation.drawing import Drawing
from calculators.image_generation.image_metrics import ImageMetrics
from calculators.image_generation.image_settings import ImageSettings
from calculators.image_generation.messages import (
    Adapter,
    Begun,
    Cancel,
    Draw,
    Drawn,
    Image,
    Load,
    Progress,
    Ready,
    Refused,
    Shape,
    from_artist_decoder,
)
from calculators.image_generation.model_rules import ModelRules
from calculators.image_generation.node_options import ImageGenOptions
from calculators.image_generation.request import ImageRequest
from calculators.model_cache import CacheEntry
from calculators.model_cache.compiled_models import compiling_with
from calculators.model_cache.loading import loading
from calculators.model_initializer import ModelHost
from calculators.requests.http_payload import RequestError
from graph_runtime import Code, LoadProgress

#: Silence after which a busy process counts as hung. It gives signs of life during a step.
HANG_SECONDS: Final = 60.0
#: Processor seconds for reading the given files, and seconds after which the process is replaced.
_READ_CPU_SECONDS: Final = 30.0
_READ_WALL_SECONDS: Final = 120.0
#: The most seconds after which a client may try again.
_LONGEST_RETRY: Final = 300.0
#: The weight of the last drawing in the mean of their durations.
_NEWEST: Final = 0.5

_log = logging.getLogger("graphrt.image_generation")


class ImageGenServable:
    """A model in a supervised process that draws one request at a time; clients take turns.

    Attributes:
        rules: what requests may ask for; after `start`.
    """

    rules: ModelRules

    def __init__(
        self,
        options: ImageGenOptions,
        host: ModelHost,
        settings: ImageSettings,
    ) -> None:
        self._options = options
        self._name = host.name
        self._settings = settings
        self._entry = host.entry
        self._encode = msgspec.msgpack.Encoder().encode
        self._turns = FairTurns(most_waiting=settings.image_queue_limit)
        self._numbers = 0
        self._current: Drawing | None = None
        #: The steps of the drawing under way, or of the last one; None before its first step.
        self.progress: Progress | None = None
        self._limit: WorkLimit | None = None
        self._overrun: Overrun | None = None
        self._is_at_fault = False
        self._mean_seconds = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._what = f'image process of "{host.name}"'
        self._child = Supervisor(
            name=self._what,
            module="calculators.image_generation.process",
            load=_load(options, host.entry),
            decode=from_artist_decoder.decode,
            ready=Ready,
            on_message=self._take,
            on_down=self._down,
            is_requests_fault=self._judge,
            is_busy=lambda: self._current is not None,
            hang_seconds=HANG_SECONDS,
            stall_seconds=HANG_SECONDS,  # a step of a large model may take that long
        )
        self._metrics = ImageMetrics(host.metrics)

    async def start(self, progress: LoadProgress | None = None) -> None:
        """Load the model; ``progress`` gets the phases.

        Raises:
            ResourceError: it cannot be loaded; nothing is left running.
        """
        async with loading(self._entry, self.close):
            ready: Ready = await self._child.start(progress)
        self.rules = ModelRules(self._options, ready, self._settings.image_seed)
        self._metrics.follow(
            waiting=lambda: len(self._turns),
            running=lambda: self._current is not None,
            progress=self._progress_ratio,
            is_up=lambda: not self.unavailable_reason,
            restarts=lambda: self._child.restarts,
        )
        kinds = ", ".join(kind.replace("_", " ") for kind in ready.kinds)
        _log.info("%s: %s: %s, loaded in %.1f s", self._name, ready.pipeline, kinds, ready.seconds)

    @property
    def pid(self) -> int | None:
        """The process that draws, while there is one."""
        return self._child.pid

    @property
    def unavailable_reason(self) -> str:
        return self._child.unavailable_reason

    async def close(self) -> None:
        self._metrics.end()
        closing = asyncio.create_task(self._child.close())
        await asyncio.sleep(0)  # it is closed, so no drawing begins
        if self._current is not None:
            self._current.end(self._child.unavailable())
        await closing
        if self._entry is not None:
            self._entry.close()

    def begin(self, request: ImageRequest, *, is_raw: bool = False) -> Drawing:
        """Draw a request when it is its client's turn. The caller cancels what nobody wants.

        Args:
            is_raw: images are the bytes of their pixels instead of files in base64.
        """
        self._numbers += 1
        output_format = "raw" if is_raw else request.output_format
        drawing = Drawing(self._numbers, request, output_format)
        task = asyncio.create_task(self._work(drawing))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        drawing.on_cancel(lambda: _cancel(task))
        return drawing

    async def _work(self, drawing: Drawing) -> None:
        waited_from = time.monotonic()
        try:
            async with self._turns.turn():
                # The process cannot drop its work at once: until then it has no other.
                drawing.on_cancel(lambda: self._cancel(drawing))
                self._metrics.queue_seconds.observe(time.monotonic() - waited_from)
                await self._draw(drawing)
        except TooManyWaiting:
            drawing.end(
                RequestError(
                    f"{self._settings.image_queue_limit} requests for images wait already; try "
                    "again later",
                    code=Code.UNAVAILABLE,
                    retry_after=self._retry_after(),
                )
            )
        except asyncio.CancelledError:
            drawing.end()
            raise
        except Exception as error:
            drawing.end(error)

    async def _draw(self, drawing: Drawing) -> None:
        message = _draw_message(drawing, self._options)
        # An image in it may have megabytes.
        body = await asyncio.to_thread(self._encode, message)
        await self._child.until_ready()
        if drawing.is_cancelled:
            drawing.end()
            return
        pid = self._child.pid
        assert pid is not None
        began = time.monotonic()
        self._overrun = None
        self.progress = None
        self._current = drawing
        self._child.expect_answer()
        self._child.send(body)
        del message, body
        self._limit = WorkLimit(
            pid, cpu=_READ_CPU_SECONDS, wall=_READ_WALL_SECONDS, on_overrun=self._stop
        )
        try:
            await drawing.over
        finally:
            self._limit.stop()
            self._current = None
            self._end(drawing, time.monotonic() - began)

    def _end(self, drawing: Drawing, seconds: float) -> None:
        self._metrics.seconds.observe(seconds)
        if drawing.is_cancelled:
            self._metrics.cancelled.add()
            _log.info("%s: a request was cancelled after %.1f s", self._name, seconds)
            return
        if self._mean_seconds:
            self._mean_seconds += _NEWEST * (seconds - self._mean_seconds)
        else:
            self._mean_seconds = seconds
        if drawing.begun is not None:
            request, begun = drawing.request, drawing.begun
            _log.info(
                "%s: %d of %dx%d in %d steps, %.1f s",
                *(self._name, request.images, begun.width, begun.height, request.steps, seconds),
            )

    def _cancel(self, drawing: Drawing) -> None:
        if self._current is drawing:
            self._child.send(self._encode(Cancel(drawing.number)))

    def _retry_after(self) -> float:
        """Return the seconds until there is room for one more, by the last drawings."""
        return min(max(self._mean_seconds, RETRY_AFTER), _LONGEST_RETRY)

    def _progress_ratio(self) -> float:
        progress = self.progress
        if progress is None or self._current is None:
            return 0.0
        return progress.step / max(progress.steps, 1)

    # Called by the supervisor ---------------------------------------------------------------------

    def _take(self, message: Any) -> None:
        drawing = self._current
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
                self._metrics.steps.add(step - done)
                _log.debug("%s: step %d of %d", self._name, step, steps)
            case Image():
                if message.partial < 0:
                    self._metrics.images.add()
                drawing.take(message)
            case Refused():
                code = Code[message.code]
                error = RequestError(message.reason, param=message.param, code=code)
                drawing.end(error)
            case Drawn():
                drawing.end()
            case _:  # a sign of life, which the supervisor has noted
                pass

    def _stop(self, overrun: Overrun) -> None:
        self._overrun = overrun
        self._child.kill("it took too long to read the images of a request")

    def _judge(self) -> bool:
        """Return whether the current request caused the end of the process."""
        self._is_at_fault = self._current is not None and (
            self._overrun is Overrun.CPU or (self._overrun is None and self._child.has_crashed)
        )
        return self._is_at_fault

    def _down(self, reason: str) -> None:
        if self._current is None:
            return
        if self._overrun is Overrun.CPU:
            error = RequestError("the images of the request take too long to read", param="image")
        elif self._is_at_fault:
            error = RequestError(
                f"the {self._what} broke down while it drew this request; it is started again",
                code=Code.INTERNAL,
            )
        else:
            error = RequestError(
                f"the {self._what} stopped while it drew this request; it is started again",
                code=Code.UNAVAILABLE,
                retry_after=RETRY_AFTER,
            )
        self._current.end(error)


def _load(options: ImageGenOptions, entry: CacheEntry | None) -> Load:
    shape = None
    if options.static is not None:
        static = options.static
        shape = Shape(static.images, static.size.width, static.size.height, static.guidance_scale)
    return Load(
        model_path=str(options.directory),
        devices=list(options.devices),
        properties=compiling_with(options.properties, entry),
        shape=shape,
        adapters=[Adapter(str(each.path), each.alpha) for each in options.loras.adapters],
        adapter_mode=options.loras.mode,
    )


def _draw_message(drawing: Drawing, options: ImageGenOptions) -> Draw:
    request = drawing.request
    size = request.size
    return Draw(
        number=drawing.number,
        kind=request.kind,
        prompt=request.prompt,
        parameters=dict(request.parameters),
        width=0 if size is None else size.width,
        height=0 if size is None else size.height,
        max_width=options.largest.width,
        max_height=options.largest.height,
        image=request.image,
        mask=request.mask,
        output_format=drawing.output_format,
        quality=request.quality,
        partial_images=request.partial_images,
        alphas=request.alphas,
    )


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
