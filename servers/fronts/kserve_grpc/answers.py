"""The unsent answers of a stream, bounded in bytes."""

from __future__ import annotations

import asyncio
from collections import deque

from calculators.kit.requests.http_payload import RequestError
from graph_runtime import Code
from servers.fronts.kserve_grpc.call import ClientGone, StreamCall
from servers.fronts.kserve_grpc.settings import GrpcSettings


class Answers:
    """A queue of messages to a client, which calculators see as its connection.

    A `calculators.kit.requests.http_payload.ClientConnection`. Belongs to one event loop.

    Attributes:
        ended: done when everything is sent; with an exception if the stream ends with one.
    """

    def __init__(self, call: StreamCall, settings: GrpcSettings) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.on_disconnect = call.on_disconnect
        self._call = call
        self._settings = settings
        self._waiting: deque[bytes] = deque()
        self._unsent = 0
        self._is_last = False
        self._error: Exception | None = None
        self._news = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    @property
    def is_disconnected(self) -> bool:
        return self._call.is_disconnected

    @property
    def is_writable(self) -> bool:
        return self._room.is_set() or self.is_disconnected

    async def writable(self) -> None:
        # A calculator that sends without end must yield to the loop: otherwise nothing is sent.
        await asyncio.sleep(0)
        while not self.is_writable:
            await self._room.wait()

    def put(self, message: bytes) -> None:
        """Queue a message. After the end of the stream it is dropped."""
        if self._is_last or self.ended.done():
            return
        if self._unsent > self._settings.max_unsent_bytes:
            text = f"the client does not take its answers: {self._unsent} bytes wait for it"
            self._end(RequestError(text, code=Code.RESOURCE_EXHAUSTED))
            return
        self._waiting.append(message)
        self._unsent += len(message)
        if self._unsent > self._settings.write_buffer_bytes:
            self._room.clear()
        self._news.set()

    def finish(self, error: Exception | None = None) -> None:
        """End the stream, with this error, once everything is sent."""
        if not self._is_last:
            self._is_last = True
            self._error = error
            self._news.set()

    def drop(self) -> None:
        """Drop unsent messages: the client is gone."""
        self._is_last = True
        self._waiting.clear()
        self._room.set()

    async def send_all(self) -> None:
        """Send queued messages until `finish`; then set `ended`."""
        try:
            while not self._is_last or self._waiting:
                if not self._waiting:
                    self._news.clear()
                    await self._news.wait()
                    continue
                message = self._waiting.popleft()
                await self._call.write(message)
                self._unsent -= len(message)
                if self._unsent <= self._settings.write_buffer_bytes:
                    self._room.set()
        except ClientGone as gone:
            self._end(gone)
        else:
            self._end(self._error)

    def _end(self, error: Exception | None) -> None:
        if self.ended.done():
            return
        if error is None:
            self.ended.set_result(None)
        else:
            self.ended.set_exception(error)
