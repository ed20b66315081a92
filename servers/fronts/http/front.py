"""The HTTP front: starting, draining, closing."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from typing import Any

from aiohttp import web

from servers.batches.desk import BatchDesk
from servers.contract.data_plane import DataPlane
from servers.fronts.body_room import BodyRoom
from servers.fronts.http.connections import Connections
from servers.fronts.http.handler import Handler, MetricsText
from servers.fronts.http.published_document import MakeDocument
from servers.fronts.http.request import HttpRequest
from servers.fronts.http.settings import HttpSettings
from servers.operations.request_log import RequestJournal
from servers.page.views import PageViews

_log = logging.getLogger(__name__)

# Seconds for writing the terminal events of requests that draining cut off, and for cancelling
# their graphs.
_CUT_OFF_SECONDS = 2.0
_BACKLOG = 1024


class HttpFront:
    """A running front; made by `start_front`.

    The order of a stop: `stop_accepting`, `drain`, `close`; each can be left out.
    """

    def __init__(
        self,
        handler: Handler,
        connections: Connections,
        listeners: list[asyncio.Server],
    ) -> None:
        self._handler = handler
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
    """
    loop = asyncio.get_running_loop()
    handler = Handler(data_plane, settings, journal, document, metrics, room, views, batches)
    manager = web.Server(handler.handle, request_factory=HttpRequest, handler_cancellation=True)
    connections = Connections(manager, settings, loop)
    listeners: list[asyncio.Server] = []
    port = settings.port
    try:
        for host in settings.hosts:
            listener = await loop.create_server(
                connections.make,
                host,
                port,
                backlog=_BACKLOG,
                reuse_address=True,
                reuse_port=settings.shares_port or None,
                **_tls_arguments(settings),
            )
            listeners.append(listener)
            port = listener.sockets[0].getsockname()[1]
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    return HttpFront(handler, connections, listeners)


def _tls_arguments(settings: HttpSettings) -> dict[str, Any]:
    if settings.tls is None:
        return {}
    return {
        "ssl": settings.tls.context,
        "ssl_handshake_timeout": settings.header_seconds,
        "ssl_shutdown_timeout": settings.stall_seconds,
    }
