"""The answers of a stream on their way to its client, bounded in bytes."""

from __future__ import annotations

import asyncio
from collections import deque

from calculators.requests.http_payload import RequestError
from graph_runtime import Code
from servers.fronts.kserve_grpc.call import ClientGone, StreamCall
from servers.fronts.kserve_grpc.settings import GrpcSettings


class Answers:
    """Messages that wait to be sent; the client's side of the stream for calculators.

    A `calculators.requests.http_payload.ClientConnection`. Belongs to one event loop.

    Attributes:
        ended: done when everything is sent, with an exception when the stream ends with one.
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
        # Whoever sends without end gives the loop a turn: else nothing is sent.
        await asyncio.sleep(0)
        while not self.is_writable:
            await self._room.wait()

    def put(self, message: bytes) -> None:
        """Send a message when the client takes it; nothing happens after the end."""
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
        """The stream ends, with this error, once everything is sent."""
        if not self._is_last:
            self._is_last = True
            self._error = error
            self._news.set()

    def drop(self) -> None:
        """Nobody takes anything any more."""
        self._is_last = True
        self._waiting.clear()
        self._room.set()

    async def send_all(self) -> None:
        """Send what is put until `finish`; then `ended` is done."""
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
