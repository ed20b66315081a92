"""The client of a stream, as one of the stream's requests may know it."""

from __future__ import annotations

from calculators.requests.http_payload import ClientConnection
from servers.contract.disconnection import Disconnection


class StreamClients:
    """Gives every request of a stream a client of its own.

    What a request wants to be told is forgotten with it; the connection knows the stream only, so
    that a long one does not collect what a thousand requests left.
    """

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self._clients: set[StreamClient] = set()
        connection.on_disconnect(self._disconnect)

    def new(self) -> StreamClient:
        """A client that lasts until it is given to `forget`."""
        client = StreamClient(self.connection)
        self._clients.add(client)
        return client

    def forget(self, client: StreamClient) -> None:
        """Its request is over."""
        self._clients.discard(client)

    def _disconnect(self) -> None:
        for client in tuple(self._clients):
            client.disconnect()
        self._clients.clear()


class StreamClient(Disconnection):
    """A `ClientConnection` for one request."""

    def __init__(self, connection: ClientConnection) -> None:
        super().__init__(is_disconnected=connection.is_disconnected)
        self._connection = connection

    @property
    def is_writable(self) -> bool:
        return self._connection.is_writable

    async def writable(self) -> None:
        await self._connection.writable()
