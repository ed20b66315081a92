"""Requests that become a WebSocket: messages in both directions, one run of a graph.

A client's messages are in the room for bodies. They count from their first byte until the graph
asks for the next one. If there is no room, the connection is not read. A socket whose message
arrives slowly, or is not taken by its graph, gives way to bodies that wait for its room.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import WSCloseCode, WSMsgType, web
from aiohttp.http_websocket import WebSocketReader

from calculators.kit.requests.http_answer import HttpAnswer, ResponsePacket
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import note_error, note_reason
from graph_runtime import Code, GraphError
from servers.contract.failure import clean, forget_frames
from servers.fronts.body_room import SLOW_SECONDS
from servers.fronts.http.answer_streams import SentResponse
from servers.fronts.http.connection import HttpConnection
from servers.fronts.http.errors import HttpError, http_error
from servers.fronts.http.exchange import Exchange, log_cause, reason_of
from servers.fronts.http.settings import HttpSettings

#: Seconds between two checks whether waiting messages are taken.
_LOOK_SECONDS: Final = 1.0
# Of the head of a frame: the first opcode of control frames, the mark of a message's last frame,
# and the lengths of a short frame's head and of the longest.
_CLOSE, _LAST, _USUAL_HEAD, _LONGEST_HEAD = 8, 0x80, 6, 14


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
            elif not self._head and end - at >= _USUAL_HEAD and data[at + 1] & 0x7F < 126:
                # The head of a short frame that is masked, as clients do (RFC 6455, 5.3). Slices of
                # bytes, as below, take three times as long, and there may be 43,000 of these.
                opcode, self._left = data[at], data[at + 1] & 0x7F
                at += _USUAL_HEAD if data[at + 1] & 0x80 else 2
                self._is_message = opcode & 0xF < _CLOSE
                self._is_last = opcode >= _LAST
            else:
                head = self._head + data[at : at + _LONGEST_HEAD - len(self._head)]
                size = _head_size(head)
                if len(head) < size:
                    self._head = head
                    break
                at += size - len(self._head)
                self._head = b""
                self._left = _payload_size(head)
                # Pings may stand between the parts of a message (RFC 6455, 5.4); they are not
                # counted as it.
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


# The longest reason of a close frame (RFC 6455).
_MAX_REASON = 123
# Seconds for a graph to end after its client has closed, and for the client's answer to a close.
_CLOSE_SECONDS = 5.0
# A subprotocol that clients offer and that adds nothing.
_PROTOCOLS = ("realtime",)
#: The header in which pages, which cannot set others, send subprotocols; one may be a key.
KEY_PROTOCOL = "sec-websocket-protocol"
_KEY_PREFIX = "openai-insecure-api-key."
# Codes of RFC 6455: the server goes away, the client broke a rule, a fault here, try again later.
_GOING_AWAY, _POLICY, _INTERNAL, _LATER = 1001, 1008, 1011, 1013
# Codes with which aiohttp closes, in the middle of a message, when a client breaks a rule.
_BROKEN_RULES = (
    WSCloseCode.PROTOCOL_ERROR,
    WSCloseCode.INVALID_TEXT,
    WSCloseCode.MESSAGE_TOO_BIG,
)


def wants_socket(request: web.BaseRequest) -> bool:
    """Return whether a request asks for a WebSocket."""
    return request.headers.get("Upgrade", "").strip().lower() == "websocket"


def key_in_protocols(request: web.BaseRequest) -> str | None:
    """Return the key among the subprotocols of a WebSocket, as a bearer's header has it."""
    for offered in request.headers.get(KEY_PROTOCOL, "").split(","):
        if offered.strip().startswith(_KEY_PREFIX):
            return "Bearer " + offered.strip().removeprefix(_KEY_PREFIX)
    return None


class _Socket(web.WebSocketResponse):
    """aiohttp's WebSocket, whose client gets the code when it has broken a rule.

    Attributes:
        broken_rule: the code; None while the client has broken none.
    """

    def __init__(self, connection: HttpConnection, settings: HttpSettings) -> None:
        super().__init__(
            timeout=_CLOSE_SECONDS,
            autoclose=False,
            # Proxies close connections that are silent for a minute, and a client that is gone
            # without a packet answers no ping.
            heartbeat=2 * settings.ping_seconds,
            protocols=_PROTOCOLS,
            # A message of kilobytes could become gigabytes, inflated on the event loop (as for
            # gRPC, decision 0087).
            compress=False,
            max_msg_size=settings.max_message_bytes,
        )
        self.broken_rule: int | None = None
        self._connection = connection

    async def close(
        self, *, code: int = WSCloseCode.OK, message: bytes = b"", drain: bool = True
    ) -> bool:
        # The client is in the middle of a message, and aiohttp would close the connection at once.
        if code in _BROKEN_RULES and self.broken_rule is None:
            self.broken_rule = code
            await self.send_frame(struct.pack("!H", code) + message, WSMsgType.CLOSE)
            await self._connection.linger()
        return await super().close(code=code, message=message, drain=drain)


class MessageStream:
    """A WebSocket, accepted when the graph sends its first message or asks for the client's.

    So an error before that has a status, as for every request.
    """

    def __init__(self, exchange: Exchange, settings: HttpSettings) -> None:
        self._exchange = exchange
        self._limit = settings.max_unsent_bytes
        self._idle_seconds = settings.socket_idle_seconds
        self._socket = _Socket(exchange.connection, settings)
        self._arrivals: Arrivals | None = None
        exchange.connection.read_through = self._count
        self._socket.headers.update(exchange.headers)
        self._unsent: deque[str | bytes] = deque()
        self._unsent_bytes = 0
        self._unlimited_bytes = 0
        self._has_unsent = asyncio.Event()
        self._has_begun = False
        self._is_ending = False
        self._is_accepted = asyncio.Event()
        self._ending: asyncio.TimerHandle | None = None

    async def answer(
        self, run: Callable[[Callable[[ResponsePacket], None]], Awaitable[None]]
    ) -> web.StreamResponse:
        """Let ``run`` emit messages; close the socket when it returns.

        Raises:
            HttpError: 400, the request is not a WebSocket's.
            Exception: nothing has been sent; the answer is `http_error` of it.
        """
        if not self._socket.can_prepare(self._exchange.request):
            raise HttpError(400, "the headers of the request are not a WebSocket's")
        writing = asyncio.create_task(self._write())
        try:
            try:
                await run(self.emit)
                if not self._has_begun:
                    raise RuntimeError("the graph gave no answer")
                self._end()
                await writing
            except asyncio.CancelledError as cancellation:
                raise self._exchange.reason_of(cancellation) from None
        except Exception as raised:
            if not self._has_begun:
                raise
            self._end()
            await asyncio.wait([writing], timeout=_CLOSE_SECONDS)
            await self._fail(http_error(raised, self._exchange.request_id))
            forget_frames(raised)
        else:
            await self._socket.close()
        finally:
            # No wait: once the socket is closed, the connection's end cancels this task.
            writing.cancel()
            if self._arrivals is not None:
                self._arrivals.end()
            if self._ending is not None:
                self._ending.cancel()
        return SentResponse(status=101)

    def emit(self, packet: ResponsePacket) -> None:
        """Send a message: text for ``str``. Must be called on the event loop.

        Raises:
            GraphError: the packet is an `HttpAnswer`.
        """
        if isinstance(packet, HttpAnswer):
            text = "messages of a WebSocket are str or bytes, not HttpAnswer"
            raise GraphError(text, code=Code.INTERNAL)
        self._has_begun = True
        if not self._unsent_bytes:
            # A message may be as large as it likes if no other waits.
            self._unlimited_bytes = len(packet)
        self._unsent.append(packet)
        self._unsent_bytes += len(packet)
        self._has_unsent.set()
        if self._unsent_bytes - self._unlimited_bytes > self._limit:
            # As in streams of events, a bound on unsent bytes stands for an await per packet
            # (decision 0035).
            self._exchange.connection.abort()  # the graph does not wait until it is writable

    async def receive(self) -> str | bytes | None:
        """Return the client's next message; None once it has closed, or broken a rule.

        One task may call this at a time. Pings are answered in here.

        Raises:
            RequestError: DEADLINE_EXCEEDED, the client sends nothing for too long.
        """
        if not self._has_begun:
            # A graph that waits for its client has accepted it.
            self._has_begun = True
            self._has_unsent.set()
        await self._is_accepted.wait()
        arrivals = self._arrivals
        assert arrivals is not None
        arrivals.forget_taken()
        if self._ending is not None:
            return None
        try:
            async with asyncio.timeout(self._idle_seconds):
                message = await self._socket.receive()
        except TimeoutError:
            text = f"no message for {self._idle_seconds:g} s"
            raise RequestError(text, code=Code.DEADLINE_EXCEEDED) from None
        if message.type is WSMsgType.TEXT or message.type is WSMsgType.BINARY:
            data: str | bytes = message.data
            arrivals.note_taken()
            return data
        if message.type is WSMsgType.ERROR:
            code = self._socket.broken_rule or self._socket.close_code
            note_reason(f"the WebSocket was closed with {code}")
        loop = asyncio.get_running_loop()
        self._ending = loop.call_later(_CLOSE_SECONDS, self._exchange.cut_off)
        return None

    def _count(self, reader: WebSocketReader) -> Arrivals:
        self._arrivals = Arrivals(reader, self._exchange)
        return self._arrivals

    def _end(self) -> None:
        """Let the writer end after the last message."""
        self._is_ending = True
        self._has_unsent.set()

    async def _write(self) -> None:
        """Send messages in order, until the last one or until the client is gone."""
        try:
            while not self._is_ending or self._unsent:
                await self._has_unsent.wait()
                self._has_unsent.clear()
                if not self._socket.prepared:
                    # Accepted with the first message, so that an error before it has a status
                    # (decision 0054).
                    await self._socket.prepare(self._exchange.request)
                    self._is_accepted.set()
                if self._socket.broken_rule is not None:
                    self._unsent.clear()
                while self._unsent:
                    message = self._unsent.popleft()
                    if isinstance(message, str):
                        await self._socket.send_str(message)
                    else:
                        await self._socket.send_bytes(message)
                    self._unsent_bytes -= len(message)
                    self._exchange.connection.count_sent(len(message))
        except ConnectionError:
            self._unsent.clear()

    async def _fail(self, error: HttpError) -> None:
        if not self._exchange.client.is_disconnected:
            log_cause(error, self._exchange.request_id)
        note_error(str(error.status))
        note_reason(reason_of(error))
        reason = clean(error.message).encode()[:_MAX_REASON].decode("utf-8", "ignore")
        if not self._socket.prepared:
            return  # the client went before the first message
        await self._socket.close(code=_close_code(error.status), message=reason.encode())


def _close_code(status: int) -> int:
    if status == 503:
        return _GOING_AWAY
    if status == 429:
        return _LATER
    return _INTERNAL if status in (500, 501) else _POLICY
