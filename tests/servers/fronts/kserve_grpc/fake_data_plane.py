"""A data plane without models behind it: the model's name says how it behaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from calculators.kit.requests.http_payload import ClientConnection, HttpPayload
from calculators.tensors.inference import InferRequest, InferResponse
from graph_runtime import NotFoundError
from servers.contract.data_plane import (
    IndexEntry,
    InferAnswer,
    LoadedServable,
    Method,
    ModelDescription,
    ModelMetadata,
    ServedEndpoint,
    TensorMetadata,
)

Emit = Callable[[InferAnswer], object]
Infer = Callable[[InferRequest, ClientConnection], Awaitable[InferResponse]]


def echoed(request: InferRequest) -> InferResponse:
    """Answer with the inputs."""
    return InferResponse(
        request.model, request.version or "1", request.id, request.parameters, request.inputs
    )


async def echo(request: InferRequest, client: ClientConnection) -> InferResponse:
    return echoed(request)


def raising(error: BaseException) -> Infer:
    async def behave(request: InferRequest, client: ClientConnection) -> InferResponse:
        raise error

    return behave


class FakeStream:
    """A run that answers each request with an echo; tests override what they are about."""

    def __init__(self) -> None:
        self.emit: Emit = lambda answer: None
        self.client: ClientConnection | None = None
        self.requests: list[InferRequest] = []
        self.inputs_closed = asyncio.Event()

    async def send(self, request: InferRequest) -> None:
        self.requests.append(request)
        await self.take(request)

    async def take(self, request: InferRequest) -> None:
        self.emit(echoed(request))

    def close_inputs(self) -> None:
        self.inputs_closed.set()

    async def wait(self) -> None:
        await self.inputs_closed.wait()


class FakeDataPlane:
    """Serves `behaviours` and `streams`; ``echo`` always exists. Records what is running."""

    def __init__(
        self, streams: dict[str, Callable[[], FakeStream]] | None = None, **behaviours: Infer
    ) -> None:
        self.behaviours: dict[str, Infer] = {"echo": echo, **behaviours}
        self.streams = {"echo": FakeStream, **(streams or {})}
        self.opened: list[FakeStream] = []
        self.is_ready = True
        self.unready: set[str] = set()
        self.loaded: list[str] = []
        self.unloaded: list[str] = []
        self.clients: list[ClientConnection] = []
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()
        self.cancelled = 0

    def endpoints(self) -> Sequence[ServedEndpoint]:
        return ()

    def models(self) -> Sequence[ModelDescription]:
        return [ModelDescription(name, 1_700_000_000) for name in self.behaviours]

    def statuses(self) -> dict[str, object]:
        return {}

    async def resolve(self, model: str, method: Method, version: str = "") -> LoadedServable:
        self._check(model, version)
        return self

    async def answer(self, payload: HttpPayload, emit: Callable[[str | bytes], object]) -> None:
        raise AssertionError("no HTTP here")

    def is_model_ready(self, model: str, version: str = "") -> bool:
        self._check(model, version)
        return model not in self.unready

    async def metadata(self, model: str, version: str = "") -> ModelMetadata:
        self._check(model, version)
        return ModelMetadata(
            model,
            ("1", "2"),
            "graphrt",
            (TensorMetadata("x", "FP32", (-1, 3)),),
            (TensorMetadata("y"),),
        )

    async def inputs_of(self, model: str, version: str = "") -> Sequence[TensorMetadata]:
        return (await self.metadata(model, version)).inputs

    async def infer(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        self.clients.append(client)
        self.begun.set()
        try:
            return await self.behaviours[request.model](request, client)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.ended.set()

    def open_stream(
        self, first: InferRequest, client: ClientConnection, emit: Emit
    ) -> AbstractAsyncContextManager[FakeStream]:
        return self._stream(first, client, emit)

    @asynccontextmanager
    async def _stream(
        self, first: InferRequest, client: ClientConnection, emit: Emit
    ) -> AsyncIterator[FakeStream]:
        stream = self.streams[first.model]()
        stream.emit, stream.client = emit, client
        self.opened.append(stream)
        self.begun.set()
        try:
            yield stream
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.ended.set()

    def index(self) -> Sequence[IndexEntry]:
        return [
            IndexEntry("echo", "1", "READY"),
            IndexEntry("bad", "1", "UNAVAILABLE", "no such file"),
        ]

    async def reload(self) -> bool:
        return False

    async def load(self, model: str) -> None:
        self._check(model, "")
        self.loaded.append(model)

    async def unload(self, model: str) -> None:
        self._check(model, "")
        self.unloaded.append(model)

    def release(self, model: str) -> None:
        self._check(model, "")

    def _check(self, model: str, version: str) -> None:
        if model not in self.behaviours and model not in self.streams:
            raise NotFoundError(f'The model "{model}" does not exist')
        if version not in ("", "1", "2"):
            raise NotFoundError(f'The model "{model}" has no version "{version}"')
