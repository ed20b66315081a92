"""Models without graphs, for KServe's half of the data plane's double."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from calculators.kit.requests.http_payload import ClientConnection, HttpPayload
from calculators.tensors.inference import InferRequest, InferResponse
from graph_runtime import NotFoundError
from servers.contract.data_plane import (
    IndexEntry,
    InferAnswer,
    InferStream,
    ModelMetadata,
    TensorMetadata,
)

Answer = Callable[[InferAnswer], object]
Emit = Callable[[str | bytes], object]
Graph = Callable[[HttpPayload, Emit], Awaitable[None]]
Inference = Callable[[InferRequest, ClientConnection, Answer], Awaitable[None]]


async def pass_through(request: InferRequest, client: ClientConnection, emit: Answer) -> None:
    """Answer with the inputs."""
    emit(
        InferResponse(
            request.model, request.version or "1", request.id, request.parameters, request.inputs
        )
    )


class FakeModels:
    """Serves `inferences`; records the requests and the number of running ones."""

    def __init__(self) -> None:
        self.inferences: dict[str, Inference] = {"echo": pass_through}
        self.inputs: tuple[TensorMetadata, ...] = ()
        self.outputs: tuple[TensorMetadata, ...] = ()
        self.rt_info: dict[str, object] = {}
        self.lines: list[IndexEntry] = [IndexEntry("echo", "1", "READY")]
        self.not_ready: set[str] = set()
        self.requests: list[InferRequest] = []
        self.loaded: list[str] = []
        self.unloaded: list[str] = []
        self.released: list[str] = []
        self.load_error: Exception | None = None
        self.has_changed = False
        self.reload_error: Exception | None = None
        self.running = 0
        self.cancelled = 0
        self.begun = asyncio.Event()
        self.ended = asyncio.Event()

    def is_model_ready(self, model: str, version: str = "") -> bool:
        self._find(model, version)
        return model not in self.not_ready

    async def metadata(self, model: str, version: str = "") -> ModelMetadata:
        self._find(model, version)
        return ModelMetadata(model, ("1", "2"), "graphrt", self.inputs, self.outputs, self.rt_info)

    async def inputs_of(self, model: str, version: str = "") -> Sequence[TensorMetadata]:
        return (await self.metadata(model, version)).inputs

    def index(self) -> Sequence[IndexEntry]:
        return self.lines

    async def reload(self) -> bool:
        if self.reload_error is not None:
            raise self.reload_error
        return self.has_changed

    async def load(self, model: str) -> None:
        self._find(model, "")
        if self.load_error is not None:
            raise self.load_error
        self.loaded.append(model)

    async def unload(self, model: str) -> None:
        self._find(model, "")
        self.unloaded.append(model)

    def release(self, model: str) -> None:
        self.released.append(model)

    def _find(self, model: str, version: str) -> Inference:
        found = self.inferences.get(model)
        if found is None:
            raise NotFoundError(f'no model "{model}" is served')
        if version not in ("", "1", "2"):
            raise NotFoundError(f'the model "{model}" has no version {version}')
        return found

    async def _run(self, request: InferRequest, client: ClientConnection, emit: Answer) -> None:
        behave = self._find(request.model, request.version)
        self.requests.append(request)
        self.running += 1
        self.begun.set()
        try:
            await behave(request, client, emit)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
            self.ended.set()


class FakeStream:
    """Runs its requests one after another, once no more can arrive."""

    def __init__(self, run: Callable[[InferRequest], Awaitable[None]]) -> None:
        self._run = run
        self._requests: list[InferRequest] = []
        self._is_closed = False

    async def send(self, request: InferRequest) -> None:
        self._requests.append(request)

    def close_inputs(self) -> None:
        self._is_closed = True

    async def wait(self) -> None:
        assert self._is_closed, "the run would never end"
        for request in self._requests:
            await self._run(request)


class FakeServable:
    """The servable that `FakeDataPlane.resolve` returns."""

    def __init__(self, answer: Graph, run: Inference) -> None:
        self._answer = answer
        self._run = run

    async def answer(self, payload: HttpPayload, emit: Emit) -> None:
        answering = self._answer(payload, emit)
        del payload
        await answering

    async def infer(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        answers: list[InferAnswer] = []
        await self._run(request, client, answers.append)
        answer = answers[0]
        if isinstance(answer, InferResponse):
            return answer
        raise answer.error

    @asynccontextmanager
    async def open_stream(
        self, first: InferRequest, client: ClientConnection, emit: Answer
    ) -> AsyncIterator[InferStream]:
        yield FakeStream(lambda request: self._run(request, client, emit))


async def refuse(payload: HttpPayload, emit: Emit) -> None:
    raise AssertionError("no graph")
