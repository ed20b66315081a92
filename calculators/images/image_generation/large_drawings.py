"""`LargeDrawings`: drawings above the ordinary, which are made in a process of their own.

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
from collections.abc import Callable
from typing import Final

from calculators.images.image_generation.drawing import Drawing
from calculators.images.image_generation.drawing_process import DrawingProcess
from calculators.images.image_generation.kind import Kind
from calculators.images.image_generation.model_rules import ModelRules
from calculators.images.image_generation.request import ImageRequest
from calculators.images.image_generation.sizes import Size
from calculators.images.media.image import EncodedImage
from calculators.images.media.picture_size import pixels_of
from calculators.kit.child_process.fair_turns import FairTurns
from calculators.kit.child_process.process_memory import resident_bytes
from calculators.kit.child_process.supervisor import LoadError
from calculators.kit.control_groups import available_memory

#: An image may have so many times the usual pixels, and cost so many times the usual, and still be
#: ordinary.
MORE: Final = 2
#: Seconds without a large drawing after which the process ends.
IDLE_SECONDS: Final = 20.0
#: Seconds that a drawing may take to end after its client has gone; a step of it may take minutes.
CANCEL_SECONDS: Final = 2.0
#: Memory that must be free, in sizes of the process for ordinary drawings.
_NEEDED: Final = 1.5

_log = logging.getLogger("graphrt.image_generation")


def is_large(request: ImageRequest, rules: ModelRules) -> bool:
    """Return whether an image of a request costs much more than the model's usual one."""
    options = rules.options
    if set(options.devices) != {"CPU"}:
        return False  # the memory of another device would be needed twice
    default = rules.default_size(Kind.TEXT_TO_IMAGE)
    assert default is not None
    usual = _area(options.largest) if options.sizes else _area(default)
    pixels = _pixels(request, options.largest)
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
