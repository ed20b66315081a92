"""The client of one request, as a calculator sees it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from servers.openai_http.connection import HttpConnection

_log = logging.getLogger(__name__)


class Client:
    """A `calculators.http_payload.ClientConnection` over an HTTP connection."""

    __slots__ = ("_callbacks", "_connection", "is_disconnected")

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection
        self._callbacks: list[Callable[[], None]] = []
        self.is_disconnected = False

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        if self.is_disconnected:
            callback()
        else:
            self._callbacks.append(callback)

    @property
    def is_writable(self) -> bool:
        return not self._connection.writing_paused or self.is_disconnected

    async def writable(self) -> None:
        # Whoever sends without end gives the loop a turn: else nobody learns that the client is
        # gone, or gets an answer.
        await asyncio.sleep(0)
        while not self.is_writable:
            await self._connection.room.wait()

    def disconnect(self) -> None:
        """The peer has gone: tell everybody, once."""
        self.is_disconnected = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback()
            except Exception:
                _log.exception("a disconnect callback failed")

    def forget(self) -> None:
        """The request is over: what the connection does from now on is no longer told."""
        self._callbacks.clear()
