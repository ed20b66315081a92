"""`TextStream`: a stream of requests to a language model, answered concurrently."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from calculators.kit.requests.http_payload import ClientConnection
from calculators.tensors.inference import InferRequest, InferResponse
from graph_runtime import Code, GraphError
from servers.contract.data_plane import InferAnswer, InferFailure
from servers.serving.text_generation.generation_request import GenerationRequest
from servers.serving.text_generation.stream_client import StreamClients

Generate: TypeAlias = Callable[
    [GenerationRequest, ClientConnection, Callable[[InferResponse], object]], Awaitable[None]
]

#: Concurrent requests of one stream; the sender of the next one waits.
STREAM_LIMIT: Final = 64


class TextStream:
    """Implements `servers.contract.data_plane.InferStream`. Requests fail independently."""

    def __init__(
        self,
        read: Callable[[InferRequest], GenerationRequest],
        generate: Generate,
        client: ClientConnection,
        emit: Callable[[InferAnswer], object],
        limit: int = STREAM_LIMIT,
    ) -> None:
        """``read`` parses a request and may raise `RequestError`. ``generate`` emits the answers to
        a request in order, and raises if it fails."""
        self._generate = generate
        self._read = read
        self._clients = StreamClients(client)
        self._emit = emit
        self._room = asyncio.Semaphore(limit)
        self._requests: set[asyncio.Task[None]] = set()
        self._inputs_closed = asyncio.Event()

    async def send(self, request: InferRequest) -> None:
        """Take a request. Return once there is room for it.

        Raises:
            RequestError: the request is invalid.
        """
        asked = self._read(request)
        await self._room.acquire()
        task = asyncio.create_task(self._answer(asked), name=f"text for {request.id[:64]}")
        self._requests.add(task)
        task.add_done_callback(self._end)

    def close_inputs(self) -> None:
        """End the requests."""
        self._inputs_closed.set()

    async def wait(self) -> None:
        """Return when the requests have ended and all are answered.

        Raises nothing: the errors of requests are answers.
        """
        await self._inputs_closed.wait()
        while self._requests:
            await asyncio.wait(self._requests)

    async def cancel(self) -> None:
        """Cancel requests without an answer, and wait for their end."""
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
