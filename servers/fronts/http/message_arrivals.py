"""The messages of a WebSocket's client in the room for bodies.

They count from their first byte until the graph asks for the next one. If there is no room, the
connection is not read. A socket whose message arrives slowly, or is not taken by its graph, gives
way to bodies that wait for its room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from aiohttp.http_websocket import WebSocketReader

from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code
from servers.fronts.body_room import SLOW_SECONDS
from servers.fronts.http.exchange import Exchange

#: Seconds between two looks at messages that are not taken.
_LOOK_SECONDS: Final = 1.0
# Of the head of a frame: the first opcode that is no message's, the mark of a message's last frame,
# and the longest head.
_CLOSE, _LAST, _LONGEST_HEAD = 8, 0x80, 14


class Frames:
    """The frames of one direction (RFC 6455, 5.2), which tell where messages end.

    Attributes:
        arriving: bytes that are there of the message that arrives.
        arrived: the sizes of messages that are whole.
    """

    def __init__(self) -> None:
        self.arriving = 0
        self.arrived: deque[int] = deque()
        #: The beginning of a head.
        self._head = b""
        #: Bytes of the current frame that are still to come; whether it is of a message, and its
        #: last.
        self._left = 0
        self._is_message = False
        self._is_last = False

    def take(self, data: bytes) -> int:
        """Follow the frames. Return how many bytes of messages are in ``data``."""
        found = at = 0
        end = len(data)
        while at < end:
            if self._left:
                taken = min(self._left, end - at)
                self._left -= taken
                at += taken
                if self._is_message:
                    found += taken
                    self.arriving += taken
            else:
                head = self._head + data[at : at + _LONGEST_HEAD - len(self._head)]
                size = _head_size(head)
                if len(head) < size:
                    self._head = head
                    break
                at += size - len(self._head)
                self._head = b""
                self._left = _payload_size(head)
                self._is_message = head[0] & 0xF < _CLOSE
                self._is_last = head[0] >= _LAST
            if not self._left and self._is_message and self._is_last:
                self.arrived.append(self.arriving)
                self.arriving = 0
        return found


class Arrivals:
    """aiohttp's reader of a socket, of which the room for bodies counts the messages."""

    def __init__(self, reader: WebSocketReader, exchange: Exchange) -> None:
        self._reader = reader
        self._exchange = exchange
        self._hold = exchange.hold
        self._loop = asyncio.get_running_loop()
        self._frames = Frames()
        #: Bytes of the message that the graph has.
        self._taken = 0
        #: The time since which no message was taken.
        self._since = 0.0
        self._waiting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def feed_eof(self) -> None:
        self._reader.feed_eof()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take what the client has sent, as aiohttp's connection calls it."""
        if self._is_over:
            return False, b""
        if not self._is_behind:
            self._since = self._loop.time()
        missing = self._hold.add(self._frames.take(data))
        if not self._frames.arriving:
            self._hold.end()
        if missing and self._waiting is None:
            self._waiting = self._loop.create_task(self._wait(missing))
        if self._waiting is not None:
            self._exchange.connection.pause_for_room()
        if (self._hold.counted or missing) and self._timer is None:
            self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)
        return self._reader.feed_data(data)

    def note_taken(self) -> None:
        """Note that the graph has the next message."""
        self._taken = self._frames.arrived.popleft()
        self._since = self._loop.time()

    def forget_taken(self) -> None:
        """Note that the graph is done with its message."""
        if self._taken:
            self._hold.remove(self._taken)
            self._taken = 0

    def end(self) -> None:
        """Drop what arrives from now on."""
        self._is_over = True
        if self._waiting is not None:
            self._waiting.cancel()
            self._exchange.connection.resume_with_room()
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _is_behind(self) -> bool:
        """True if there are messages that the graph does not have."""
        return bool(self._frames.arriving or self._frames.arrived)

    async def _wait(self, missing: int) -> None:
        try:
            await self._hold.wait(missing)
        except RequestError as error:
            self._give_way(error)
            return
        self._waiting = None
        self._exchange.connection.resume_with_room()

    def _look(self) -> None:
        """Give way if nothing was taken for too long; look again while there is something."""
        self._timer = None
        is_slow = self._is_behind and self._loop.time() - self._since > SLOW_SECONDS
        if is_slow and self._hold.is_in_the_way:
            text = "messages arrive or are taken too slowly, and others wait for their room"
            self._give_way(RequestError(text, code=Code.RESOURCE_EXHAUSTED, detail=text))
        elif self._hold.counted or self._waiting is not None:
            self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)

    def _give_way(self, error: RequestError) -> None:
        self._waiting = None
        self._exchange.connection.resume_with_room()
        self.end()
        self._exchange.end(error)


def _head_size(head: bytes) -> int:
    """Return how long a frame's head is, of which this is the beginning."""
    if len(head) < 2:
        return 2
    return 2 + (4 if head[1] & 0x80 else 0) + {126: 2, 127: 8}.get(head[1] & 0x7F, 0)


def _payload_size(head: bytes) -> int:
    length = head[1] & 0x7F
    if length < 126:
        return length
    return int.from_bytes(head[2:4] if length == 126 else head[2:10])
