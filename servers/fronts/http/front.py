"""The HTTP front: starting, draining, closing."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from aiohttp import HttpVersion, StreamReader, hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from multidict import CIMultiDictProxy

from servers.access import Handshakes
from servers.contract.data_plane import DataPlane
from servers.fronts.body_room import BodyRoom
from servers.fronts.http.connection import HttpConnection, RequestInHand
from servers.fronts.http.errors import HttpError
from servers.fronts.http.handler import Handler, MetricsText
from servers.fronts.http.page_requests import MakeDocument
from servers.fronts.http.settings import HttpSettings
from servers.operations.request_log import RequestJournal
from servers.page.views import PageViews

if TYPE_CHECKING:
    from servers.batches.desk import BatchDesk

# If the connection closed before the client has sent its request, the answer could be lost.
_LINGER_SECONDS = 1.0


class RefusedConnection(asyncio.Protocol):
    """Answers 503 before any request arrives, and closes when the first bytes arrive."""

    def __init__(self, open_ones: set[RefusedConnection], loop: asyncio.AbstractEventLoop) -> None:
        """``open_ones``: the set that contains this connection while it is open."""
        self._open = open_ones
        self._loop = loop
        self._wire: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._wire = cast(asyncio.Transport, transport)
        self._open.add(self)
        self._timer = self._loop.call_later(_LINGER_SECONDS, self.abort)
        text = "the server has as many connections as it takes; try again later"
        body = HttpError(503, text).openai_body()
        head = (
            "HTTP/1.1 503 Service Unavailable\r\nServer: graphrt\r\nConnection: close\r\n"
            "Retry-After: 1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self._wire.write(head.encode() + body)

    def data_received(self, data: bytes) -> None:
        if self._wire is not None:
            self._wire.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wire = None
        self._open.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def abort(self) -> None:
        if self._wire is not None:
            self._wire.abort()


class Connections:
    """Makes connections for the listening sockets and keeps them while they are open.

    All share one timer: a timer per connection, re-armed by every request and every packet, would
    cost more than checking a thousand connections once a second.
    """

    def __init__(
        self, manager: web.Server, settings: HttpSettings, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._manager = manager
        self._settings = settings
        # Seconds between two checks of all connections, by the shortest of the time limits.
        limits = (
            *(settings.header_seconds, settings.stall_seconds),
            *(settings.linger_seconds, settings.ping_seconds),
        )
        self._watch_seconds = min(1.0, min(limits) / 4)
        self._loop = loop
        self._open: set[HttpConnection] = set()
        self._refused: set[RefusedConnection] = set()
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self._timer: asyncio.TimerHandle | None = None

    def make(self) -> asyncio.Protocol:
        """Return the protocol factory of the listening sockets."""
        if len(self._open) >= self._settings.max_connections:
            # Answered, and not left in the kernel's queue: a client learns at once that it has to
            # come again.
            return RefusedConnection(self._refused, self._loop)
        return HttpConnection(self._manager, self._settings, self._loop, self._add, self._discard)

    def stop_watching(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def abort_refused(self) -> None:
        """Close the connections above the limit that have not closed yet."""
        for refused in list(self._refused):
            refused.abort()

    def all(self) -> list[HttpConnection]:
        return list(self._open)

    def exchanges(self) -> list[RequestInHand]:
        """Return the requests in progress."""
        return [each.exchange for each in self._open if each.exchange is not None]

    async def wait_closed(self) -> None:
        await self._all_closed.wait()

    def _add(self, connection: HttpConnection) -> None:
        self._open.add(connection)
        self._all_closed.clear()
        if self._timer is None:
            self._timer = self._loop.call_later(self._watch_seconds, self._watch)

    def _discard(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        if not self._open:
            self._all_closed.set()
            self.stop_watching()

    def _watch(self) -> None:
        self._timer = self._loop.call_later(self._watch_seconds, self._watch)
        now = self._loop.time()
        for connection in self.all():
            connection.watch(now)


class HttpRequest(web.BaseRequest):
    """A request whose head is read once; aiohttp's own class looks it up at every access."""

    # Declared, because they take the places of properties.
    protocol: web.RequestHandler
    content_length: int | None

    __slots__ = (
        "content",
        "content_length",
        "headers",
        "keep_alive",
        "method",
        "protocol",
        "raw_path",
        "version",
    )

    def __init__(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> None:
        super().__init__(message, payload, protocol, writer, task, task.get_loop())
        self.content = payload
        self.headers: CIMultiDictProxy[str] = message.headers
        self.keep_alive = not message.should_close
        self.method = message.method
        self.protocol = protocol
        self.raw_path = message.path
        self.version: HttpVersion = message.version
        length = self.headers.get(hdrs.CONTENT_LENGTH)
        self.content_length = None if length is None else int(length)


_log = logging.getLogger(__name__)

# Seconds for writing the terminal events of requests that draining cut off, and for cancelling
# their graphs.
_CUT_OFF_SECONDS = 2.0
_BACKLOG = 1024
#: Where clients of Ollama look for it.
_OLLAMA_HOST = "127.0.0.1"


class HttpFront:
    """A running front; made by `start_front`.

    The order of a stop: `stop_accepting`, `drain`, `close`; each can be left out.
    """

    def __init__(
        self,
        handler: Handler,
        connections: Connections,
        listeners: list[asyncio.Server],
        handshakes: Handshakes | None,
    ) -> None:
        self._handler = handler
        self._handshakes = handshakes
        self._connections = connections
        self._listeners = listeners
        self._addresses = [
            (str(name[0]), int(name[1]))
            for listener in listeners
            for name in (each.getsockname() for each in listener.sockets)
        ]

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of every listening socket."""
        return list(self._addresses)

    async def take(self, connected: socket.socket) -> None:
        """Serve a connection that was made otherwise, such as one end of a pair of sockets."""
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(self._connections.make, connected)

    async def stop_accepting(self) -> None:
        """Close the listening sockets and idle connections; requests in progress continue."""
        self._handler.is_draining = True
        for listener in self._listeners:
            listener.close()
        for connection in self._connections.all():
            connection.stop()

    async def drain(self, seconds: float) -> int:
        """Wait until every request in progress is answered, at most ``seconds``.

        Return the number of requests that were cut off then, with 503 or one terminal event each.
        """
        await self.stop_accepting()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._connections.wait_closed()
                await self._handler.finish()
        late = self._connections.exchanges()
        for exchange in late:
            exchange.cut_off()
        if late:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CUT_OFF_SECONDS):
                    await self._connections.wait_closed()
        return len(late)

    async def close(self) -> None:
        """Close everything now; requests in progress are cancelled."""
        await self.stop_accepting()
        if self._handshakes is not None:
            self._handshakes.abort()
        tasks = [exchange.task for exchange in self._connections.exchanges()]
        for connection in self._connections.all():
            connection.abort()
        self._connections.stop_watching()
        self._connections.abort_refused()
        if tasks:
            _, stuck = await asyncio.wait(tasks, timeout=_CUT_OFF_SECONDS)
            if stuck:
                _log.error("%d requests do not end although they were cancelled", len(stuck))
        await self._connections.wait_closed()
        await self._handler.close()
        # aiohttp's task of a connection ends one iteration of the loop after its handler.
        await asyncio.sleep(0)


async def start_front(
    data_plane: DataPlane,
    settings: HttpSettings,
    journal: RequestJournal | None = None,
    document: MakeDocument | None = None,
    metrics: MetricsText | None = None,
    room: BodyRoom | None = None,
    views: PageViews | None = None,
    batches: BatchDesk | None = None,
) -> HttpFront:
    """Listen on every host of ``settings`` and answer from ``data_plane``.

    Args:
        journal: records every request.
        document: makes the body of ``/openapi.json``; None: there is none.
        metrics: makes the body of ``/metrics``.
        room: the memory for bodies; None: a room of this front's own.
        views: answers about what runs; None: there are no such paths.
        batches: files and batches; None: they are not served.

    Raises:
        OSError: an address cannot be bound; none is then.
        StoreError: the directory of responses cannot be used.
    """
    loop = asyncio.get_running_loop()
    handler = Handler(data_plane, settings, journal, document, metrics, room, views, batches)
    await handler.open()
    # Without cancellation aiohttp lets a handler run on after its client has gone.
    manager = web.Server(handler.handle, request_factory=HttpRequest, handler_cancellation=True)
    connections = Connections(manager, settings, loop)
    make = connections.make
    handshakes = None
    if settings.tls is not None:
        handshakes = Handshakes(
            connections.make,
            settings.tls.context,
            seconds=settings.header_seconds,
            closing_seconds=settings.stall_seconds,
        )
        make = handshakes.begin
    listeners: list[asyncio.Server] = []

    async def listen(host: str, port: int) -> int:
        """Listen; return the port."""
        listener = await loop.create_server(
            make,
            host,
            port,
            backlog=_BACKLOG,
            reuse_address=True,
            reuse_port=settings.shares_port or None,
        )
        listeners.append(listener)
        own: int = listener.sockets[0].getsockname()[1]
        return own

    port = settings.port
    try:
        for host in settings.hosts:
            # With port 0, the port that the first host gets is that of all hosts.
            port = await listen(host, port)
        if settings.ollama and port != settings.ollama_port:
            try:
                handler.ollama_port = await listen(_OLLAMA_HOST, settings.ollama_port)
            except OSError as error:  # the port is taken, perhaps by Ollama
                error.filename = f"{_OLLAMA_HOST}:{settings.ollama_port}"
                raise
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    return HttpFront(handler, connections, listeners, handshakes)
