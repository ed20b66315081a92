"""`BodyRoom`: how much of all bodies together is in memory, and who waits for room.

Every limit of a single body bounds what one client makes the server hold; this bounds what all do.
Small bodies do not count, so chats go on whatever others send. A body gets room for all of it or
none, else many would wait for each other half read; one that is slow to come gives way to others.
"""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from typing import Final

from calculators.child_process.free_memory import return_free_memory
from servers.fronts.http.errors import HttpError

#: Bodies up to so many bytes do not count.
SMALL: Final = 64 * 1024
#: Seconds that a body waits for room, and after which one that is slow to come gives its own back.
WAIT_SECONDS: Final = 20.0
SLOW_SECONDS: Final = 5.0
#: After so many bytes that went, and so many seconds, free memory goes back to the system.
_TRIM_BYTES: Final = 16 * 1024 * 1024
_TRIM_SECONDS: Final = 1.0
_RETRY_AFTER: Final = {"Retry-After": "1"}


class BodyRoom:
    """Room for ``capacity`` bytes. A body that alone is larger waits for all others to go."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._used = 0
        self._gone = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Who waits, in their order: how many bytes, and of which body.
        self._waiting: deque[tuple[BodyHold, int, asyncio.Future[None]]] = deque()

    @property
    def is_wanted(self) -> bool:
        """Does anybody wait?"""
        return bool(self._waiting)

    @property
    def used(self) -> int:
        """Bytes that count."""
        return self._used

    def hold(self, size: int | None) -> BodyHold:
        """Of a new body of so many bytes; None where nobody says how many."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        return BodyHold(self, size or 0)

    def try_take(self, hold: BodyHold, size: int) -> bool:
        """Count ``size`` bytes if there is room."""
        if self._waiting or not self._fits(size):
            return False
        self.grow(hold, size)
        return True

    async def take(self, hold: BodyHold, size: int) -> None:
        """Count ``size`` bytes, as soon as there is room.

        Raises:
            HttpError: 503, there is none in time.
        """
        if not self._waiting and not self._fits(size):
            # Bodies of failed requests may hang in circles with the frames of their errors.
            gc.collect()
        turn = asyncio.get_running_loop().create_future()
        waiting = (hold, size, turn)
        self._waiting.append(waiting)
        self._let_in()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await turn
        except TimeoutError:
            raise HttpError(
                503,
                "other large requests fill the memory for them; try again later",
                headers=_RETRY_AFTER,
            ) from None
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                self._let_in()

    def grow(self, hold: BodyHold, size: int) -> None:
        """Count more bytes of a body that has been let in."""
        self._used += size
        hold.counted += size

    def give_back(self, size: int) -> None:
        """So many bytes count no more. Any thread: a body may go with the last reference to it."""
        assert self._loop is not None
        if _running_loop() is self._loop:
            self._give_back(size)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._give_back, size)

    def _give_back(self, size: int) -> None:
        self._used -= size
        before, self._gone = self._gone, self._gone + size
        if before < _TRIM_BYTES <= self._gone:
            assert self._loop is not None
            self._loop.call_later(_TRIM_SECONDS, self._trim)
        self._let_in()

    def _trim(self) -> None:
        assert self._loop is not None
        self._gone = 0
        _ = self._loop.run_in_executor(None, return_free_memory)

    def _fits(self, size: int) -> bool:
        return self._used + size <= self._capacity or not self._used

    def _let_in(self) -> None:
        while self._waiting:
            hold, size, turn = self._waiting[0]
            if not turn.done():
                if not self._fits(size):
                    return
                self.grow(hold, size)
                turn.set_result(None)
            self._waiting.popleft()


class BodyHold:
    """What one body has of the room.

    Attributes:
        began: when its first byte could come, on the loop's clock; waiting does not count.
        counted: its bytes that count.
    """

    __slots__ = ("_expected", "_is_released", "_room", "_size", "began", "counted")

    def __init__(self, room: BodyRoom, expected: int) -> None:
        self._room = room
        self._expected = expected
        self._size = 0
        self.began = 0.0
        self._is_released = False
        self.counted = 0

    @property
    def is_in_the_way(self) -> bool:
        """Does it have room that others wait for?"""
        return self.counted > 0 and self._room.is_wanted

    def add(self, size: int) -> int:
        """``size`` more bytes have come. Returns for how many it has to `wait`, if at all."""
        self._size += size
        if self._size <= SMALL:
            return 0
        if self.counted:
            if self._size > self.counted:
                self._room.grow(self, self._size - self.counted)
            return 0
        whole = max(self._size, self._expected)
        return 0 if self._room.try_take(self, whole) else whole

    async def wait(self, size: int) -> None:
        """Until there is room for what `add` said.

        Raises:
            HttpError: 503.
        """
        await self._room.take(self, size)

    def release(self) -> None:
        """The body is gone, or nobody needs it any more. May be called again."""
        if not self._is_released:
            self._is_released = True
            if self.counted:
                self._room.give_back(self.counted)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
