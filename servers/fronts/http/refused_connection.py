"""Connections above the limit: answered with 503, and closed."""

from __future__ import annotations

import asyncio
from typing import cast

from servers.fronts.http.errors import HttpError

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
