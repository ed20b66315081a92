"""`Drawing`: a request under way, as the node sees it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple

from calculators.images.image_generation.messages import Begun, Image
from calculators.images.image_generation.request import ImageRequest


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
        self.begun: Begun | None = None
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

    def take(self, image: Image) -> None:
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
