"""`BodyRoom`: one bound on the memory of all bodies and messages together, over HTTP and gRPC.

The limit of a single body bounds what one client makes the server hold; this bounds what all of
them do. Small bodies do not count, so chats go on whatever other clients send. A body gets room for
its whole size or none: otherwise many half-read bodies would wait for each other. One whose size is
not known gets more as it grows; so that such bodies do not wait for each other, one of them at a
time may exceed the capacity. A body that arrives slowly gives way to others. gRPC delivers whole
messages only: one that waits is in memory already, so the messages that wait have a bound as well.

Compressed bodies and messages, decoded in bounded steps: a small one cannot become a huge one.

Their content counts in the room for bodies while it is made. Large ones take turns, a step each.
"""

from __future__ import annotations

import asyncio
import gc
import math
import zlib
from collections import deque
from typing import Final

from msgspec import Struct

from calculators.kit.child_process.fair_turns import FairTurns
from calculators.kit.memory import return_free_memory
from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code

#: Forty gRPC messages of 60 MiB, twenty at a time, took 2.4 GiB before there was this bound
#: (decision 0087).
#: Bytes of all bodies in hand.
CAPACITY: Final = 128 * 1024 * 1024
#: Bodies of up to this many bytes do not count.
SMALL: Final = 64 * 1024
#: A body of unknown size takes room for as much again as it has, at most so much at a time.
_MOST_GROWTH: Final = 8 * 1024 * 1024
#: Seconds that a body waits for room, and after which a slow one gives way to those that wait.
WAIT_SECONDS: Final = 20.0
SLOW_SECONDS: Final = 5.0
#: Free memory goes back to the system so many seconds after so many bytes of bodies were freed.
_TRIM_BYTES: Final = 16 * 1024 * 1024
_TRIM_SECONDS: Final = 1.0
_TRY_LATER: Final = "fill the memory for them; try again later"


class BodyRoom:
    """Room for ``capacity`` bytes of bodies. A larger body gets in when no other is there."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._used = 0
        self._read_and_waiting = 0
        self._gone = 0
        self._collected = -math.inf
        self._loop: asyncio.AbstractEventLoop | None = None
        #: The bodies that wait, in order, each with the bytes that it waits for: those that are let
        #: in already and grow, and the others, which come after them.
        self._growing: deque[_Waiting] = deque()
        self._waiting: deque[_Waiting] = deque()
        #: The growing body that may exceed the capacity.
        self._excess: BodyHold | None = None

    @property
    def is_wanted(self) -> bool:
        """True if a body waits for room."""
        return bool(self._waiting or self._growing)

    @property
    def used(self) -> int:
        """Bytes that count."""
        return self._used

    async def admit(self, size: int) -> BodyHold:
        """Wait for room for a message that was read whole, and return its share.

        Raises:
            RequestError: RESOURCE_EXHAUSTED, messages of ``capacity`` bytes wait already;
                UNAVAILABLE, there is no room within `WAIT_SECONDS`.
        """
        hold = BodyHold(self, size)
        missing = hold.add(size)
        if not missing:
            return hold
        # gRPC has delivered the message already, so waiting does not keep it out of memory: past
        # the capacity it is refused.
        if self._read_and_waiting and self._read_and_waiting + size > self._capacity:
            raise _no_room("other large messages that wait", Code.RESOURCE_EXHAUSTED)
        self._read_and_waiting += size
        try:
            await hold.wait(missing)
        except BaseException:
            hold.release()
            raise
        finally:
            self._read_and_waiting -= size
        return hold

    def try_take(self, hold: BodyHold, size: int) -> bool:
        """Count ``size`` bytes if there is room."""
        if hold is not self._excess:
            is_next = not self._growing and (hold.counted > 0 or not self._waiting)
            if not is_next or not self._fits(hold, size):
                return False
        self._count(hold, size)
        return True

    async def take(self, hold: BodyHold, size: int) -> None:
        """Count ``size`` bytes, as soon as there is room.

        Raises:
            RequestError: UNAVAILABLE, there is none within `WAIT_SECONDS`.
        """
        loop = asyncio.get_running_loop()
        if loop.time() - self._collected > _TRIM_SECONDS:
            # Bodies of failed requests may be in reference cycles with frames of their errors.
            self._collected = loop.time()
            gc.collect()
        turn = loop.create_future()
        waiting = (hold, size, turn)
        queue = self._growing if hold.counted else self._waiting
        queue.append(waiting)
        self._let_in()
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await turn
        except TimeoutError:
            raise _no_room("other large requests", Code.UNAVAILABLE) from None
        finally:
            if waiting in queue:
                queue.remove(waiting)
                self._let_in()

    def _count(self, hold: BodyHold, size: int) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._used += size
        hold.counted += size
        if self._used > self._capacity and hold.counted > size:
            self._excess = hold

    def give_back(self, hold: BodyHold, size: int) -> None:
        """Stop counting ``size`` bytes. May be called from any thread: finalizers do so."""
        assert self._loop is not None
        if _running_loop() is self._loop:
            self._give_back(hold, size)
        elif not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._give_back, hold, size)

    def _give_back(self, hold: BodyHold, size: int) -> None:
        self._used -= size
        if self._excess is hold:
            self._excess = None
        before, self._gone = self._gone, self._gone + size
        # glibc keeps freed blocks in its arenas; without a trim a burst of large bodies would stay
        # in the process's size.
        if before < _TRIM_BYTES <= self._gone:
            assert self._loop is not None
            self._loop.call_later(_TRIM_SECONDS, self.trim)
        self._let_in()

    def trim(self) -> None:
        """Give free memory back to the system, in a thread."""
        self._gone = 0
        _ = asyncio.get_running_loop().run_in_executor(None, return_free_memory)

    def _fits(self, hold: BodyHold, size: int) -> bool:
        if self._used + size <= self._capacity or not self._used:
            return True
        # One growing body may exceed the capacity. Otherwise two half-read bodies would each wait
        # for the other's room.
        return hold.counted > 0 and (self._excess is None or self._excess is hold)

    def _let_in(self) -> None:
        while queue := self._growing or self._waiting:
            hold, size, turn = queue[0]
            if not turn.done():
                if not self._fits(hold, size):
                    return
                self._count(hold, size)
                turn.set_result(None)
            queue.popleft()


class BodyHold(Struct, eq=False):
    """The share of one body in a `BodyRoom`.

    Attributes:
        room: what it is a share of.
        expected: the body's bytes as its head says; 0: the head does not say. The messages of a
            WebSocket are one body, of which the room has what is not `remove`d.
        began: the loop's time from which the body is expected; later by the time that it waited.
        counted: bytes of it that the room counts.
    """

    room: BodyRoom
    expected: int
    began: float = 0.0
    counted: int = 0
    _size: int = 0
    _is_released: bool = False

    @property
    def is_in_the_way(self) -> bool:
        """True if it occupies room that other bodies wait for."""
        return self.counted > 0 and self.room.is_wanted

    def add(self, size: int) -> int:
        """Note that ``size`` more bytes arrived. Return the bytes to `wait` for; 0: none."""
        self._size += size
        if self._size <= SMALL:
            return 0
        if self._size <= self.counted:
            return 0
        more = max(self._size, self.expected) - self.counted
        if not self.expected:
            more = max(more, min(self._size, _MOST_GROWTH))
        return 0 if self.room.try_take(self, more) else more

    async def wait(self, size: int) -> None:
        """Wait for room for the bytes that `add` returned.

        Raises:
            RequestError: UNAVAILABLE, as `BodyRoom.take`.
        """
        await self.room.take(self, size)

    def end(self) -> None:
        """Give back the room that the body did not need: it has arrived."""
        spare = self.counted - self._size
        if self.counted and spare > 0:
            self.counted = self._size
            self.room.give_back(self, spare)

    def remove(self, size: int) -> None:
        """Note that ``size`` bytes are not needed any more."""
        self._size -= size
        self.expected = 0
        spare = self.counted - (self._size if self._size > SMALL else 0)
        if spare > 0:
            self.counted -= spare
            self.room.give_back(self, spare)

    def release(self) -> None:
        """Give the room back: the body is not needed any more. Releasing again does nothing."""
        if not self._is_released:
            self._is_released = True
            if self.counted:
                self.room.give_back(self, self.counted)


_Waiting = tuple[BodyHold, int, asyncio.Future[None]]


def _no_room(occupants: str, code: Code) -> RequestError:
    text = f"{occupants} {_TRY_LATER}"
    return RequestError(text, code=code, retry_after=1, detail=text)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


#: Formats, as ``wbits`` of zlib. "deflate" is zlib's own (RFC 9110, and gRPC's compression).
GZIP: Final = 31
DEFLATE: Final = 15

_INPUT_STEP: Final = 64 * 1024
_FIRST_STEP: Final = 64 * 1024
# A call of zlib cannot be interrupted, and runs in the event loop's thread.
_OUTPUT_STEP: Final = 1024 * 1024  # takes about 4 ms, then others run


class NotCompressedError(ValueError):
    """Bytes are not compressed in the format that they should have."""


class ContentTooLargeError(ValueError):
    """The content is larger than it may be."""


async def inflated(
    body: bytes, window_bits: int, limit: int, hold: BodyHold, turns: FairTurns
) -> bytes:
    """Return the content of compressed bytes.

    Raises:
        NotCompressedError: they are not of this format, or end too early.
        ContentTooLargeError: the content has more than ``limit`` bytes.
        RequestError: UNAVAILABLE, there is no room for the content in time.
    """
    decoder = zlib.decompressobj(window_bits)
    pieces: list[bytes] = []
    size = 0
    for at in range(0, len(body), _INPUT_STEP):
        rest = body[at : at + _INPUT_STEP]
        while rest:
            try:
                if size < _FIRST_STEP:
                    piece = decoder.decompress(rest, _FIRST_STEP)
                else:
                    # Clients take turns step by step (decision 0091), so one that sends zip bombs
                    # delays others by a step.
                    async with turns.turn(float(len(body))):
                        piece = decoder.decompress(rest, _OUTPUT_STEP)
                        await asyncio.sleep(0)
            except zlib.error:
                raise NotCompressedError from None
            # A second member after the first: gzip allows it, and clients of HTTP do not send it.
            # Reading on would hide trailing garbage.
            if decoder.unused_data:
                raise NotCompressedError
            rest = decoder.unconsumed_tail
            size += len(piece)
            if size > limit:
                raise ContentTooLargeError
            pieces.append(piece)
            if missing := hold.add(len(piece)):
                await hold.wait(missing)
    hold.end()
    if not decoder.eof:
        raise NotCompressedError
    return b"".join(pieces)
