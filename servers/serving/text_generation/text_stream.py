"""A stream of requests to a language model, answered at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from calculators.inference import InferRequest, InferResponse
from calculators.requests.http_payload import ClientConnection
from graph_runtime import Code, GraphError
from servers.contract.data_plane import InferAnswer, InferFailure
from servers.serving.text_generation.generation_request import GenerationRequest
from servers.serving.text_generation.stream_client import StreamClients

Generate: TypeAlias = Callable[
    [GenerationRequest, ClientConnection, Callable[[InferResponse], object]], Awaitable[None]
]

#: Requests of one stream that are answered at a time; the next waits, and so does its sender.
STREAM_LIMIT: Final = 64


class TextStream:
    """Implements `servers.contract.data_plane.InferStream`. No request can fail another one."""

    def __init__(
        self,
        read: Callable[[InferRequest], GenerationRequest],
        generate: Generate,
        client: ClientConnection,
        emit: Callable[[InferAnswer], object],
        limit: int = STREAM_LIMIT,
    ) -> None:
        """``read``: raises `RequestError`. ``generate``: gives each answer to a request in order,
        and raises if it fails."""
        self._generate = generate
        self._read = read
        self._clients = StreamClients(client)
        self._emit = emit
        self._room = asyncio.Semaphore(limit)
        self._requests: set[asyncio.Task[None]] = set()
        self._inputs_closed = asyncio.Event()

    async def send(self, request: InferRequest) -> None:
        """Take a request; returns when there is room for it.

        Raises:
            RequestError: it makes no sense.
        """
        asked = self._read(request)
        await self._room.acquire()
        task = asyncio.create_task(self._answer(asked), name=f"text for {request.id[:64]}")
        self._requests.add(task)
        task.add_done_callback(self._end)

    def close_inputs(self) -> None:
        """No more requests come."""
        self._inputs_closed.set()

    async def wait(self) -> None:
        """Return when no more requests come, and all are answered. Never raises an error: those
        of requests are given as answers."""
        await self._inputs_closed.wait()
        while self._requests:
            await asyncio.wait(self._requests)

    async def cancel(self) -> None:
        """End what is not answered yet, and wait for that."""
        for task in self._requests:
            task.cancel()
        while self._requests:
            await asyncio.wait(self._requests)

    async def _answer(self, request: GenerationRequest) -> None:
        client = self._clients.new()
        try:
            await self._generate(request, client, self._emit)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._emit(InferFailure(request.id, GraphError("cancelled", code=Code.CANCELLED)))
        except Exception as error:
            self._emit(InferFailure(request.id, error))
        finally:
            self._clients.forget(client)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._requests.discard(task)
        self._room.release()
