"""Decoding beside the event loop: large images take turns, and the decoded ones have bounded room.

Four kilobytes can hold 40 million pixels, which take a fifth of a second and, with 16 bits and an
alpha channel, 320 MB. The number of pixels is known from the header, so small images are decoded at
once, in a thread. Of large ones one is decoded at a time, and clients take turns (`FairTurns`). A
frame is counted until it is freed. When frames have more than their room, the next request waits
for it, and is refused if that takes long. Programs that run graphs themselves have no such bound.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import numpy.typing as npt

from calculators.images.image.encoded_image import read_header
from calculators.images.image.image_frame import ImageError, ImageFrame
from calculators.kit.child_process.fair_turns import FairTurns
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import current_record
from graph_runtime import Code

#: Pixels above which images take turns.
LARGE_PIXELS: Final = 4_000_000
#: Bytes of decoded frames in the hands of requests, above which the next one waits.
ROOM_BYTES: Final = 1024**3
#: Seconds that a request waits for room.
ROOM_SECONDS: Final = 30.0
_RETRY_AFTER: Final = 1.0
#: Estimated processor seconds per pixel, for the order of one client's images.
_COST_OF_PIXEL: Final = 1e-8

T = TypeVar("T")


async def decode_in_turn(decode: Callable[[], T], pixels: int) -> T:
    """Return the result of ``decode``, which is called in a thread.

    Args:
        pixels: its images have together.
    """
    if pixels <= LARGE_PIXELS:
        return await asyncio.to_thread(decode)
    async with _decoding().turns.turn(pixels * _COST_OF_PIXEL):
        return await asyncio.to_thread(decode)


async def frame_in_turn(decode: Callable[[], T], pixels: int) -> T:
    """Return what ``decode`` makes in a thread; if it is a frame, it is counted until it is freed.

    Raises:
        RequestError: UNAVAILABLE: frames of other requests have all room for too long.
    """
    if current_record() is None:
        return await decode_in_turn(decode, pixels)
    here = _decoding()
    if pixels <= LARGE_PIXELS and here.room.is_free:
        frame = await asyncio.to_thread(decode)
    else:
        async with here.turns.turn(pixels * _COST_OF_PIXEL):
            await here.room.until_free()
            frame = await asyncio.to_thread(decode)
    if isinstance(frame, ImageFrame):
        here.room.hold(frame.pixels)
    return frame


def pixels_in(content: bytes | memoryview) -> int:
    """Return the pixels of a JPEG or PNG by its header; 0 if it is neither."""
    try:
        header = read_header(content)
    except ImageError:
        return 0
    return header.width * header.height


class _FrameRoom:
    """The bytes of frames that have not been freed. Used on one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._used = 0
        #: Sizes of frames that were freed; in whatever thread that was.
        self._freed: deque[int] = deque()
        self._waiting: asyncio.Event | None = None

    @property
    def is_free(self) -> bool:
        while self._freed:
            self._used -= self._freed.popleft()
        return self._used < ROOM_BYTES

    async def until_free(self) -> None:
        """Wait for room. Only the owner of a turn may."""
        self._waiting = asyncio.Event()
        try:
            async with asyncio.timeout(ROOM_SECONDS):
                while not self.is_free:
                    await self._waiting.wait()
                    self._waiting.clear()
        except TimeoutError:
            raise RequestError(
                "images of other requests have all memory for decoded images; try again later",
                code=Code.UNAVAILABLE,
                retry_after=_RETRY_AFTER,
            ) from None
        finally:
            self._waiting = None

    def hold(self, pixels: npt.NDArray[Any]) -> None:
        """Count the memory of an array until it is freed, and all views of it."""
        owner = pixels if pixels.base is None else pixels.base
        self._used += pixels.nbytes
        weakref.finalize(owner, self._free, pixels.nbytes).atexit = False

    def _free(self, size: int) -> None:
        # The collector may call this at any place: no lock is taken.
        self._freed.append(size)
        if self._waiting is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._waiting is not None:
            self._waiting.set()


class _Decoding:
    """The turns and the room of one event loop."""

    def __init__(self) -> None:
        self.turns = FairTurns()
        self.room = _FrameRoom()


_of_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Decoding] = (
    weakref.WeakKeyDictionary()
)


def _decoding() -> _Decoding:
    loop = asyncio.get_running_loop()
    found = _of_loops.get(loop)
    if found is None:
        found = _of_loops[loop] = _Decoding()
    return found
