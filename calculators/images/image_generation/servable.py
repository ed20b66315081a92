"""`ImageGenServable`: the resource of an image node.

`LargeDrawings`: drawings above the ordinary, which are made in a process of their own.

The library can be ended between two steps, and cannot be asked to wait there: its callback runs in
a thread of its own, pipelines that share weights share the state of a drawing too, and no drawing
can begin in the middle. So the shortest turn with a process is one image. Size and steps of an
ordinary one are bounded by what is usual for the model and its operator. All others are drawn in a
second process, which is started when the first of them comes, and ends when there has been none for
a while, with all memory that OpenVINO keeps for their size. It yields the processor to all others.
Without memory for it, all is drawn in one process.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from calculators.images.image_generation.drawing_process import (
    Drawing,
    DrawingProcess,
    ImageMetrics,
)
from calculators.images.image_generation.image_settings import ImageSettings
from calculators.images.image_generation.messages import (
    Adapter,
    Draw,
    DrawingKind,
    DrawingLoad,
    DrawingProgress,
    Shape,
)
from calculators.images.image_generation.model_rules import ModelRules
from calculators.images.image_generation.node_options import ImageGenOptions, read_image_gen_options
from calculators.images.image_generation.request import ImageRequest
from calculators.images.image_generation.sizes import Size
from calculators.images.media.image import EncodedImage, pixels_of
from calculators.kit.child_process.fair_turns import FairTurns, TooManyWaiting
from calculators.kit.child_process.supervisor import RETRY_AFTER, LoadError
from calculators.kit.machine import available_memory
from calculators.kit.memory import resident_bytes
from calculators.kit.model_cache import CacheEntry, ModelCache, compiling_with, hold_compiled
from calculators.kit.model_initializer import ModelHost, ModelInitializer, loading
from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code, LoadProgress, NodePlan, ResourceSettings

#: An image may have so many times the usual pixels, and cost so many times the usual, and still be
#: ordinary.
MORE: Final = 2
#: Seconds without a large drawing after which the process ends.
IDLE_SECONDS: Final = 20.0
#: Seconds that a drawing may take to end after its client has gone; a step of it may take minutes.
CANCEL_SECONDS: Final = 2.0
#: Memory that must be free, in sizes of the process for ordinary drawings.
_NEEDED: Final = 1.5


def is_large(request: ImageRequest, rules: ModelRules) -> bool:
    """Return whether an image of a request costs much more than the model's usual one."""
    options = rules.options
    if set(options.devices) != {"CPU"}:
        return False  # the memory of another device would be needed twice
    default = rules.default_size(DrawingKind.TEXT_TO_IMAGE)
    assert default is not None
    usual = _area(options.largest) if options.sizes else _area(default)
    pixels = _pixels(request, rules.largest_of_picture)
    return pixels > MORE * usual or pixels * request.steps > MORE * usual * options.default_steps


def _pixels(request: ImageRequest, largest: Size) -> int:
    """Return the pixels of one image; at least as many as will be drawn."""
    if request.size is not None:
        return _area(request.size)
    # The size of the given picture, by its header; a header that is not understood may be any.
    given = pixels_of([EncodedImage("image", request.image)])
    return min(given, _area(largest)) if given else _area(largest)


def _area(size: Size) -> int:
    return size.width * size.height


class LargeDrawings:
    """The process of large drawings, there while there are any.

    Attributes:
        turns: the order of the requests.
        process: None while there is none.
    """

    def __init__(
        self, make: Callable[[], DrawingProcess], ordinary: DrawingProcess, most_waiting: int
    ) -> None:
        """``make`` makes a process that has not been started."""
        self.turns = FairTurns(most_waiting=most_waiting)
        self.process: DrawingProcess | None = None
        self._make = make
        self._ordinary = ordinary
        self._idle: asyncio.TimerHandle | None = None
        self._ends: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def open(self) -> DrawingProcess | None:
        """Return the process, started if there is none; None if there cannot be any now.

        To be called by the owner of a turn, who calls `leave` at the end of it.
        """
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self.process is not None:
            return self.process
        ordinary = self._ordinary.pid
        size = None if ordinary is None else resident_bytes(ordinary)
        free = available_memory()
        if self._is_closed or size is None or (free is not None and free < _NEEDED * size):
            return None
        process = self._make()
        try:
            await process.start()
        except LoadError as error:
            _log.warning("%s", error)
            return None
        except BaseException:
            await process.close()
            raise
        # It was closed while the process started.
        if self._is_closed:
            await process.close()
            return None
        self.process = process
        return process

    def leave(self) -> None:
        """Note that a turn is over: without another one the process ends after a while."""
        if self.process is not None and not len(self.turns):
            self._idle = asyncio.get_running_loop().call_later(
                IDLE_SECONDS, self._end, self.process
            )

    def cancel(self, drawing: Drawing) -> None:
        """End a drawing at its next step, or with the process if that takes long."""
        process = self.process
        if process is not None:
            process.cancel(drawing)
            asyncio.get_running_loop().call_later(CANCEL_SECONDS, self._give_up, process, drawing)

    def _give_up(self, process: DrawingProcess, drawing: Drawing) -> None:
        if process.current is drawing:
            self._end(process)

    def _end(self, process: DrawingProcess) -> None:
        if self.process is process:
            self.process = None
        task = asyncio.get_running_loop().create_task(process.close())
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

    async def close(self) -> None:
        self._is_closed = True
        if self._idle is not None:
            self._idle.cancel()
        if self.process is not None:
            self._end(self.process)
        if self._ends:
            await asyncio.wait(self._ends)


#: Niceness of the process for large images: ordinary requests get the processor first.
_LARGE_NICENESS: Final = 10
#: The most seconds after which a client may try again.
_LONGEST_RETRY: Final = 300.0
#: The weight of the last drawing in the mean of their durations.
_NEWEST: Final = 0.5

_log = logging.getLogger("graphrt.image_generation")


class ImageGenServable:
    """A model in a process that draws one image at a time, and another one for large images.

    Clients take turns; a turn is an image.

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
        self._turns = FairTurns(most_waiting=settings.image_queue_limit)
        self._numbers = 0
        self._mean_seconds = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._metrics = metrics = ImageMetrics(host.metrics)
        load = _load(options, host.entry)
        self._process = DrawingProcess(load, f'image process of "{host.name}"', metrics)
        self._large = LargeDrawings(
            lambda: DrawingProcess(
                msgspec.structs.replace(load, niceness=_LARGE_NICENESS),
                f'process for large images of "{host.name}"',
                metrics,
            ),
            self._process,
            settings.image_queue_limit,
        )

    async def start(self, progress: LoadProgress | None = None) -> None:
        """Load the model; ``progress`` gets the phases.

        Raises:
            ResourceError: it cannot be loaded; nothing is left running.
        """
        async with loading(self._entry, self.close):
            ready = await self._process.start(progress)
        self.rules = ModelRules(self._options, ready, self._settings.image_seed)
        self._metrics.follow(
            waiting=lambda: len(self._turns) + len(self._large.turns),
            running=lambda: sum(each.current is not None for each in self._processes),
            progress=self._progress_ratio,
            is_up=lambda: not self.unavailable_reason,
            restarts=lambda: sum(each.restarts for each in self._processes),
        )
        kinds = ", ".join(kind.replace("_", " ") for kind in ready.kinds)
        _log.info("%s: %s: %s, loaded in %.1f s", self._name, ready.pipeline, kinds, ready.seconds)

    @property
    def _processes(self) -> list[DrawingProcess]:
        """The processes that there are."""
        large = self._large.process
        return [self._process] if large is None else [self._process, large]

    @property
    def pids(self) -> list[int]:
        """The processes that draw, the one for ordinary images first."""
        return [each.pid for each in self._processes if each.pid is not None]

    @property
    def progress(self) -> DrawingProgress | None:
        """The steps of a drawing under way, or of the last one; None before its first step."""
        found = [each for each in self._processes if each.progress is not None]
        found.sort(key=lambda each: each.current is None)
        return found[0].progress if found else None

    @property
    def unavailable_reason(self) -> str:
        return self._process.unavailable_reason

    async def close(self) -> None:
        self._metrics.end()
        await asyncio.gather(self._process.close(), self._large.close())
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
        drawing.on_cancel(partial(_cancel, task))
        return drawing

    async def _work(self, drawing: Drawing) -> None:
        began = time.monotonic()
        try:
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
            for process in self._processes:
                process.cancel(drawing)  # it may have paused
            raise
        except Exception as error:
            drawing.end(error)
        finally:
            drawing.end()
            if drawing.pid is not None:
                self._note_end(drawing, time.monotonic() - began)

    async def _draw(self, drawing: Drawing) -> None:
        """Draw image after image. Between two the turn is given up."""
        task: asyncio.Task[Any] | None = asyncio.current_task()
        assert task is not None
        waits_from = time.monotonic()
        first = _draw_message(drawing, self.rules)
        large = self._large if is_large(drawing.request, self.rules) else None
        has_more = True
        while has_more and not drawing.is_cancelled:
            turns = self._turns if large is None else large.turns
            async with turns.turn(goes_on=drawing.pid is not None):
                process = self._process if large is None else await large.open()
                if process is None:  # there is no memory for a process of its own
                    large = None
                    continue
                if drawing.pid is None:
                    self._metrics.queue_seconds.observe(time.monotonic() - waits_from)
                # The process cannot drop its work at once: until then it has no other.
                drawing.on_cancel(partial((large or process).cancel, drawing))
                try:
                    has_more = await process.draw(drawing, first)
                finally:
                    drawing.on_cancel(partial(_cancel, task))
                    if large is not None:
                        large.leave()

    def _note_end(self, drawing: Drawing, seconds: float) -> None:
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

    def _retry_after(self) -> float:
        """Return the seconds until there is room for one more, by the last drawings."""
        return min(max(self._mean_seconds, RETRY_AFTER), _LONGEST_RETRY)

    def _progress_ratio(self) -> float:
        progress = self.progress
        if progress is None or all(each.current is None for each in self._processes):
            return 0.0
        return progress.step / max(progress.steps, 1)


def _load(options: ImageGenOptions, entry: CacheEntry | None) -> DrawingLoad:
    shape = None
    if options.static is not None:
        static = options.static
        shape = Shape(static.images, static.size.width, static.size.height, static.guidance_scale)
    return DrawingLoad(
        model_path=str(options.directory),
        devices=list(options.devices),
        properties=compiling_with(options.properties, entry),
        shape=shape,
        adapters=[Adapter(str(each.path), each.alpha) for each in options.loras.adapters],
        adapter_mode=options.loras.mode,
    )


def _draw_message(drawing: Drawing, rules: ModelRules) -> Draw:
    """Return the message that begins a request: one image a turn, unless the model is compiled for
    their number."""
    request = drawing.request
    size = request.size
    parameters = dict(request.parameters)
    turns = 1 if rules.options.static is not None else request.images
    parameters["num_images_per_prompt"] = request.images // turns
    return Draw(
        number=drawing.number,
        kind=request.kind,
        prompt=request.prompt,
        parameters=parameters,
        turns=turns,
        width=0 if size is None else size.width,
        height=0 if size is None else size.height,
        max_width=rules.largest_of_picture.width,
        max_height=rules.largest_of_picture.height,
        image=request.image,
        mask=request.mask,
        output_format=drawing.output_format,
        quality=request.quality,
        partial_images=request.partial_images,
        alphas=request.alphas,
    )


def _cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()


RESOURCES_TAG: Final = "IMAGE_GEN_NODE_RESOURCES"


class ImageGenResourceInitializer(ModelInitializer[ImageGenOptions, ImageGenServable]):
    """Loads the model of every node that draws."""

    tag = RESOURCES_TAG
    family = "image_generation"
    calculators = ("ImageGenCalculator", "ImageGenerationCalculator")

    def read(self, node: NodePlan, settings: ResourceSettings) -> ImageGenOptions:
        return read_image_gen_options(node, settings)

    def warnings(self, options: ImageGenOptions) -> Sequence[str]:
        return options.warnings

    def hold(self, options: ImageGenOptions, cache: ModelCache) -> CacheEntry | None:
        if options.loras.adapters:
            return None
        files = [
            file
            for file in sorted(options.directory.glob("*/openvino_*"))
            if file.suffix in (".xml", ".bin")
        ]
        device = " ".join(options.devices)
        return hold_compiled(cache, files, device, options.properties, options.static)

    def resource(
        self, options: ImageGenOptions, host: ModelHost, settings: ResourceSettings
    ) -> ImageGenServable:
        return ImageGenServable(options, host, settings.of(ImageSettings))

    def paths(self, options: ImageGenOptions) -> tuple[Path, ...]:
        return (options.directory, *(adapter.path for adapter in options.loras.adapters))
