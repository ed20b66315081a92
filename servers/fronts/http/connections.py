"""The open connections of a front, and the one timer that checks them."""

from __future__ import annotations

import asyncio

from aiohttp import web

from servers.fronts.http.connection import HttpConnection, RequestInHand
from servers.fronts.http.refused_connection import RefusedConnection
from servers.fronts.http.settings import HttpSettings


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
        self._loop = loop
        self._open: set[HttpConnection] = set()
        self._refused: set[RefusedConnection] = set()
        self._all_closed = asyncio.Event()
        self._all_closed.set()
        self._timer: asyncio.TimerHandle | None = None

    def make(self) -> asyncio.Protocol:
        """The protocol factory of the listening sockets."""
        if len(self._open) >= self._settings.max_connections:
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
            self._timer = self._loop.call_later(self._settings.watch_seconds, self._watch)

    def _discard(self, connection: HttpConnection) -> None:
        self._open.discard(connection)
        if not self._open:
            self._all_closed.set()
            self.stop_watching()

    def _watch(self) -> None:
        self._timer = self._loop.call_later(self._settings.watch_seconds, self._watch)
        now = self._loop.time()
        for connection in self.all():
            connection.watch(now)
