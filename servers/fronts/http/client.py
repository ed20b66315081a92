"""The client of one request, as a calculator sees it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from servers.contract.disconnection import Disconnection

if TYPE_CHECKING:
    from servers.fronts.http.connection import HttpConnection


class Client(Disconnection):
    """A `calculators.requests.http_payload.ClientConnection` over an HTTP connection."""

    __slots__ = ("_connection",)

    def __init__(self, connection: HttpConnection) -> None:
        super().__init__()
        self._connection = connection

    @property
    def is_writable(self) -> bool:
        return not self._connection.writing_paused or self.is_disconnected

    async def writable(self) -> None:
        # Whoever sends without end gives the loop a turn: else nobody learns that the client is
        # gone, or gets an answer.
        await asyncio.sleep(0)
        while not self.is_writable:
            await self._connection.room.wait()
