"""The client of a stream, as one of the stream's requests may know it."""

from __future__ import annotations

from collections.abc import Callable

from calculators.http_payload import ClientConnection


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


class StreamClient:
    """A `ClientConnection` for one request."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_disconnected(self) -> bool:
        return self._connection.is_disconnected

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        if self.is_disconnected:
            callback()
        else:
            self._callbacks.append(callback)

    @property
    def is_writable(self) -> bool:
        return self._connection.is_writable

    async def writable(self) -> None:
        await self._connection.writable()

    def disconnect(self) -> None:
        """Tell those who want to know; called once."""
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()
