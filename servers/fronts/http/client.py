"""The client of one request, as a calculator sees it."""

from __future__ import annotations

import asyncio

from servers.contract.disconnection import Disconnection
from servers.fronts.http.connection import HttpConnection


class Client(Disconnection):
    """A `calculators.kit.requests.http_payload.ClientConnection` over an HTTP connection."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    @property
    def is_writable(self) -> bool:
        return not self._connection.is_full or self.is_disconnected

    async def writable(self) -> None:
        # A calculator that sends without end must yield to the loop: otherwise a client that leaves
        # is not noticed, and no other client is answered.
        await asyncio.sleep(0)
        while not self.is_writable:
            await self._connection.room.wait()
