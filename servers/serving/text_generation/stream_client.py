"""`ClientConnection` objects for the single requests of a stream."""

from __future__ import annotations

from calculators.kit.requests.http_payload import ClientConnection
from servers.contract.disconnection import Disconnection


class StreamClients:
    """Makes a `ClientConnection` for every request of a stream.

    The callbacks of a request are dropped with it. The connection itself has one callback for the
    stream, so that a long stream does not collect the callbacks of thousands of requests.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self._clients: set[StreamClient] = set()
        connection.on_disconnect(self._disconnect)

    def new(self) -> StreamClient:
        """Return a client, which lasts until `forget`."""
        client = StreamClient(self.connection)
        self._clients.add(client)
        return client

    def forget(self, client: StreamClient) -> None:
        """Drop a client whose request is over."""
        self._clients.discard(client)

    def _disconnect(self) -> None:
        for client in tuple(self._clients):
            client.disconnect()
        self._clients.clear()


class StreamClient(Disconnection):
    """A `ClientConnection` for one request."""

    def __init__(self, connection: ClientConnection) -> None:
        self.is_disconnected = connection.is_disconnected
        self._connection = connection

    @property
    def is_writable(self) -> bool:
        return self._connection.is_writable

    async def writable(self) -> None:
        await self._connection.writable()
