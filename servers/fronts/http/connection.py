"""One client connection: aiohttp's protocol, with the limits and checks that it lacks.

aiohttp 3.14 has no time-out for headers or for a client that stops reading, answers protocol errors
as text/plain with parts of the request, and leaves a handler running when its client disconnects.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import socket
import struct
import sys
import termios
from collections.abc import Callable
from typing import Any, Protocol, cast

from aiohttp import StreamReader, hdrs, web
from aiohttp.http_websocket import WebSocketReader
from aiohttp.web_protocol import _ErrInfo

from calculators.kit.requests.client_identity import UNKNOWN_CLIENT
from servers.access import identity_of_peer
from servers.fronts.body_room import SMALL
from servers.fronts.http.errors import HttpError
from servers.fronts.http.settings import HttpSettings

_log = logging.getLogger(__name__)

# Unsent bytes that the kernel buffers for one client. By default it buffers megabytes for a client
# that does not read.
_UNSENT_IN_KERNEL = 128 * 1024
_NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", None)

# A reading of the socket has up to 256 KiB: 43,000 chunks of one byte, on which aiohttp's parser
# works for 150 ms, or as many empty messages of a WebSocket, for 250 ms. Readings of so many lines
# and all of WebSockets are parsed in slices, between which others have turns.
_MOST_LINES = 2048
_SLICE_BYTES = 4096
# aiohttp's error of a line that is no HTTP has the whole line, escaped: 2 ms and 1.3 MiB for such a
# reading of zeros. Where a head may begin, its parser gets no more than the longest line at once.
_HEAD_BYTES = 16 * 1024

# A client that has sent nothing for so long has sent all it had to send.
_QUIET_SECONDS = 1.0

# Linger for 0 seconds: the close is a reset.
_NO_LINGER = struct.pack("ii", 1, 0)


def _unsent_in_kernel(wire: asyncio.Transport) -> int:
    """Bytes that the peer's kernel has not confirmed; 0 where that cannot be asked."""
    peer = wire.get_extra_info("socket")
    if peer is None:
        return 0
    try:
        return int.from_bytes(fcntl.ioctl(peer.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    except OSError:
        return 0


class RequestInHand(Protocol):
    """The request that is being answered, for its connection and for the front that closes it.

    Attributes:
        task: the task that answers it.
        keeps_alive: the connection may serve another request afterwards.
    """

    task: asyncio.Task[Any]
    keeps_alive: bool

    def disconnect(self) -> None:
        """Note that the client is gone."""

    def cut_off(self) -> None:
        """Answer with an error now."""

    def ping_if_silent(self, now: float, seconds: float) -> None:
        """Send a comment in a stream of events that has sent nothing for ``seconds``."""


class HttpConnection(web.RequestHandler):
    """Knows the current request, whether the peer is connected, and whether it reads.

    Attributes:
        exchange: the request being answered; None between requests.
        client: the peer's identity, by its address.
        is_last: no other request will be accepted (the server drains, or a body was left unread).
        room: set while the peer reads fast enough.
        is_full: the peer does not; ``room`` is not set.
        read_through: wraps aiohttp's reader of a WebSocket, when there is one.
        sent_bytes: bytes passed to `send` so far: heads and bodies, without answers that aiohttp
            writes.
        head_bytes: the part of them that is heads of answers.
    """

    __slots__ = (
        "_arriving",
        "_closing_since",
        "_drops",
        "_has_bytes",
        "_header_since",
        "_lingering",
        "_moved",
        "_on_closed",
        "_on_open",
        "_settings",
        "_still_since",
        "_unlimited_bytes",
        "_unparsed",
        "_wire",
        "client",
        "exchange",
        "head_bytes",
        "is_full",
        "is_last",
        "loop",
        "read_through",
        "room",
        "sent_bytes",
    )

    def __init__(
        self,
        manager: web.Server,
        settings: HttpSettings,
        loop: asyncio.AbstractEventLoop,
        on_open: Callable[[HttpConnection], None],
        on_closed: Callable[[HttpConnection], None],
    ) -> None:
        super().__init__(
            manager,
            loop=loop,
            keepalive_timeout=settings.keep_alive_seconds,
            access_log=cast(logging.Logger, None),  # the journal writes one when a request ends
            # aiohttp would inflate as bytes arrive; `body_room.inflated` does it in steps that
            # count in the room and take turns.
            auto_decompress=False,
            lingering_time=5.0,
        )
        self.loop = loop
        self.client = UNKNOWN_CLIENT
        self.exchange: RequestInHand | None = None
        self.is_last = False
        self.room = asyncio.Event()
        self.room.set()
        self.is_full = False
        self.read_through: Callable[[WebSocketReader], Any] | None = None
        self._on_open = on_open
        self._on_closed = on_closed
        self._settings = settings
        self._wire: asyncio.Transport | None = None
        self._header_since: float | None = None
        self._has_bytes = False
        self.sent_bytes = 0
        #: Bytes of the last piece that began while the client was writable.
        self._unlimited_bytes = 0
        self.head_bytes = 0
        self._moved = 0
        self._still_since: float | None = None
        self._closing_since: float | None = None
        self._lingering: asyncio.Future[None] | None = None
        self._arriving: tuple[int, StreamReader] | None = None  # the body, with its length
        self._drops = False  # nothing that arrives will be read
        self._unparsed = b""

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        wire = cast(asyncio.Transport, transport)
        wire.set_write_buffer_limits(high=self._settings.write_buffer_bytes)
        peer = wire.get_extra_info("socket")
        if _NOTSENT_LOWAT is not None and peer is not None:
            with contextlib.suppress(OSError):
                peer.setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, _UNSENT_IN_KERNEL)
        # The peer of a Unix socket is a string, nearly always empty.
        name = wire.get_extra_info("peername")
        if isinstance(name, tuple):
            self.client = identity_of_peer(str(name[0]), str(name[1]))
        self._wire = wire
        self._header_since = self.loop.time()
        self._on_open(self)
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._drops:
            self._has_bytes = True
            return
        if not data:
            super().data_received(data)  # aiohttp lets its parser go on
        elif self._unparsed:
            self._unparsed += data  # received before the transport paused
        # Only readings of many lines, and all of WebSockets, are sliced: counting is C and takes
        # microseconds, slicing all would cost every request a turn.
        elif len(data) > _SLICE_BYTES and (
            self._payload_parser is not None or data.count(b"\r\n") > _MOST_LINES
        ):
            self._unparsed = data
            self._pause_transport_reading()
            self._parse_slice()
        else:
            self._parse(data)

    def _parse_slice(self) -> None:
        """Parse the next slice of what has been received, and let others have their turn."""
        data, self._unparsed = self._unparsed[:_SLICE_BYTES], self._unparsed[_SLICE_BYTES:]
        if not data:
            return
        self._parse(data)
        if self._unparsed:
            self.loop.call_soon(self._parse_slice)
        elif not self._reading_paused and not self._buffer_paused:
            self._resume_transport_reading()

    def _resume_transport_reading(self) -> None:
        # aiohttp calls this when it can take more, which the unparsed bytes are.
        if not self._unparsed:
            super()._resume_transport_reading()

    def _parse(self, data: bytes) -> None:
        if self.exchange is None and not self.is_last:
            self._has_bytes = True
            if self._header_since is None:
                self._header_since = self.loop.time()
        while len(data) > _HEAD_BYTES and not self._drops and len(data) > self._missing_of_body():
            self._feed(data[:_HEAD_BYTES])
            data = data[_HEAD_BYTES:]
        if not self._drops:
            self._feed(data)

    def _missing_of_body(self) -> int:
        """Return how many bytes belong to the body in arrival; 0 if its head does not say."""
        if self._payload_parser is not None:  # messages of a WebSocket
            return sys.maxsize
        if self._arriving is None:
            return 0
        length, body = self._arriving
        return length - body.total_bytes

    def _feed(self, data: bytes) -> None:
        super().data_received(data)
        ahead = 0
        for message, body in self._messages:
            ahead += body.total_bytes
            # Requests that were not HTTP left 1.3 MiB each until Python's collector ran, which is
            # seldom since loaded objects are frozen (decision 0034).
            if isinstance(message, _ErrInfo):
                # The error of a request that is not HTTP has aiohttp's frame in its traceback, and
                # that frame the error: a cycle that would keep the bytes.
                message.exc.__traceback__ = message.exc.__context__ = message.exc.__cause__ = None
                # The parser would find the same error in everything that follows.
                self._drop()
            else:
                self._arriving = int(message.headers.get(hdrs.CONTENT_LENGTH, 0)), body
        if ahead > SMALL and self.exchange is not None:
            # aiohttp takes 32 requests ahead, with bodies of 128 KiB each.
            self._pause_reading_for_buffer()

    def set_parser(
        self, parser: WebSocketReader, data_received_cb: Callable[[], None] | None = None
    ) -> None:
        if self.read_through is not None:
            parser = self.read_through(parser)
        early, self._message_tail = self._message_tail, b""
        super().set_parser(parser, data_received_cb)
        if early:
            self.data_received(early)  # in slices

    def resume_reading(self, resume_parser: bool = True) -> None:
        # aiohttp calls this whenever a body is read. If nothing was paused, nothing is unparsed.
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def eof_received(self) -> None:
        # A client that closes its side while it waits is gone. By default the transport would close
        # only once everything is written.
        if self._lingering is None and self.exchange is not None:
            self.abort()
        self._end_lingering()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.room.clear()
        self.is_full = True

    def resume_writing(self) -> None:
        super().resume_writing()
        self.room.set()
        self.is_full = False

    def connection_lost(self, exc: BaseException | None) -> None:
        self._wire = None
        self._unparsed = b""
        self._arriving = None
        self._messages.clear()  # their bodies know this connection, and would wait for a collector
        self.room.set()
        self._end_lingering()
        if self.exchange is not None:
            self.exchange.disconnect()
        super().connection_lost(exc)
        self._on_closed(self)

    # Called by the handler.

    def begin(self, exchange: RequestInHand) -> None:
        """Begin a request: its headers are complete."""
        self.exchange = exchange
        self._header_since = None
        self._has_bytes = False

    def finish(self) -> None:
        """End the request: its answer is written, or aiohttp writes it."""
        self.exchange = None

    def send(self, data: bytes | memoryview) -> None:
        """Write without waiting for unsent data. When the peer is gone, nothing happens."""
        wire = self._wire
        if wire is None:
            return
        self.sent_bytes += len(data)
        # A graph that ignores `is_writable` would fill memory with an answer that nobody reads. The
        # limit replaces the await of aiohttp's `StreamResponse.write` (decision 0035). A piece that
        # began while the client was writable does not count: it may be as large as it likes.
        if not self.writing_paused:
            self._unlimited_bytes = len(data)
        unsent = wire.get_write_buffer_size() - self._unlimited_bytes
        if unsent > self._settings.max_unsent_bytes and self.writing_paused:
            _log.warning("a client was disconnected: its graph does not wait until it is writable")
            self.abort()
        else:
            wire.write(data)

    def refuse_upgrade(self) -> None:
        """Drop what the client sends after it asked for an upgrade that it does not get."""
        if self._upgraded:
            self._message_tail = b""
            self._drop()

    def _drop(self) -> None:
        self._drops = True
        self._unparsed = b""
        self._resume_reading_for_buffer()

    def pause_for_room(self) -> None:
        """Read nothing until `resume_with_room`, whatever aiohttp's own buffers say."""
        self._pause_reading_for_buffer()

    def resume_with_room(self) -> None:
        self._resume_reading_for_buffer()

    def count_sent(self, size: int) -> None:
        """Count bytes that were written beside `send`."""
        self.sent_bytes += size

    # Ending the connection.

    async def linger(self) -> None:
        """Drop what the client still sends, from now on.

        Returns when the client has closed its side or is quiet, or `linger_seconds` are over. A
        connection that is closed with bytes unread is reset, and a client that gets a reset may
        lose what was sent to it before.
        """
        if self._wire is None:
            return
        self._lingering = self.loop.create_future()
        self._drop()
        self.resume_reading()
        ends = self.loop.time() + self._settings.linger_seconds
        self._has_bytes = True
        while self._has_bytes and (left := ends - self.loop.time()) > 0:
            self._has_bytes = False
            await asyncio.wait([self._lingering], timeout=min(_QUIET_SECONDS, left))

    def _end_lingering(self) -> None:
        if self._lingering is not None and not self._lingering.done():
            self._lingering.set_result(None)
            self._has_bytes = False

    def stop(self) -> None:
        """Accept no more requests: close now if there is none in progress, else after it."""
        self.is_last = True
        if self.exchange is not None:
            self.exchange.keeps_alive = False
        elif self._waiter is None and self._wire is not None:
            self._wire.close()  # aiohttp still drops a body; its error would be logged
        elif not self._has_bytes:
            self.force_close()

    def abort(self) -> None:
        """Close the connection now; unsent data is lost."""
        if self._wire is not None:
            if self.exchange is not None:
                self.exchange.disconnect()
            self._wire.abort()

    def reset(self) -> None:
        """Close the connection so that the client cannot take it for the end of a body."""
        peer = self._wire.get_extra_info("socket") if self._wire is not None else None
        if peer is not None:
            with contextlib.suppress(OSError):
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.abort()

    def watch(self, now: float) -> None:
        """Check for time-outs. ``now``: the loop's time."""
        if self._wire is None:
            return
        since = self._header_since
        if since is not None and now - since > self._settings.header_seconds:
            self._header_since = None
            self._refuse_late_headers(self._wire)
        elif self.exchange is not None:
            self.exchange.ping_if_silent(now, self._settings.ping_seconds)
        self._watch_reader(now, self._wire)
        self._watch_closing(now, self._wire)

    def _refuse_late_headers(self, wire: asyncio.Transport) -> None:
        # A silent connection gets no answer: clients that only opened it, such as browsers' spare
        # ones, would take it for the answer to their first request.
        if self._has_bytes:
            body = HttpError(408, "the request's headers did not arrive in time").openai_body()
            head = (
                "HTTP/1.1 408 Request Timeout\r\nServer: graphrt\r\nConnection: close\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            wire.write(head.encode() + body)
        self.force_close()

    def _watch_reader(self, now: float, wire: asyncio.Transport) -> None:
        """Disconnect a peer that has read nothing for too long."""
        unsent = wire.get_write_buffer_size()
        moved = self.sent_bytes - unsent  # grows exactly when the peer reads
        if unsent == 0 or moved != self._moved or self._still_since is None:
            self._moved = moved
            self._still_since = now if unsent else None
        elif now - self._still_since > self._settings.stall_seconds:
            _log.info("a client was disconnected: it read nothing of its answer for too long")
            self.abort()

    def _watch_closing(self, now: float, wire: asyncio.Transport) -> None:
        """Disconnect a peer that does not answer the end of TLS."""
        if not wire.is_closing() or wire.get_write_buffer_size() or _unsent_in_kernel(wire):
            self._closing_since = None
        # asyncio waits for the peer's close_notify; a peer that never sends it would keep the
        # connection open.
        elif self._closing_since is None:
            self._closing_since = now
        elif now - self._closing_since > self._settings.linger_seconds:
            self.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer an error that aiohttp itself found: a request that is not HTTP.

        Overrides aiohttp's text/plain, which repeats the request and names the parser.
        """
        self.is_last = True
        self._header_since = None
        if exc is not None and status >= 500:
            _log.error("a request failed outside its handler", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError("the answer has begun: no other can be sent")
        text = "the request is not valid HTTP/1.1" if status < 500 else "internal error"
        error = HttpError(status, text)
        response = web.Response(
            status=status,
            body=error.openai_body(),
            content_type="application/json",
            headers={"Server": "graphrt", "Connection": "close"},
        )
        # What aiohttp's parser makes of the bytes after the fault is not a request: the connection
        # cannot go on.
        response.force_close()
        return response
