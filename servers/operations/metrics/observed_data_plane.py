"""`ObservedDataPlane`: the data plane of one front, with every request counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from time import perf_counter_ns
from typing import Any, Final

from calculators.inference import InferRequest, InferResponse
from calculators.requests.http_payload import ClientConnection, HttpPayload
from graph_runtime import RunError
from servers.contract.data_plane import (
    DataPlane,
    IndexEntry,
    InferAnswer,
    InferFailure,
    InferStream,
    ModelDescription,
    ModelMetadata,
    TensorMetadata,
)
from servers.operations.metrics.graph_requests import (
    INFER,
    INFER_STREAM,
    METADATA,
    READY,
    CallCounts,
    LookupCounts,
)
from servers.operations.metrics.model_requests import InferCounts
from servers.operations.metrics.server_metrics import ServerMetrics

_NS_PER_US: Final = 1000


class ObservedDataPlane:
    """Implements `servers.contract.data_plane.DataPlane` with another one."""

    def __init__(self, plane: DataPlane, metrics: ServerMetrics, interface: str) -> None:
        """``interface``: of the front, `REST` or `GRPC`."""
        self._plane = plane
        self._metrics = metrics
        self._interface = interface

    # What is counted ------------------------------------------------------------------------------

    async def answer(
        self, model: str, payload: HttpPayload, emit: Callable[[str | bytes], object]
    ) -> None:
        graph = self._metrics.graph(model)
        if graph is None:
            answering = self._plane.answer(model, payload, emit)
            del payload
            await answering
            return
        wants_stream = _wants_stream(payload.parsed_json)
        counts = graph.stream if wants_stream else graph.unary
        packets = 0

        def emit_and_count(packet: str | bytes) -> None:
            nonlocal packets
            packets += 1
            emit(packet)

        graph.current.level += 1
        started = perf_counter_ns()
        try:
            answering = self._plane.answer(model, payload, emit_and_count)
            del payload  # whoever answers keeps it no longer than it is needed
            await answering
        except BaseException as error:
            _count_failure(counts, error, started, has_begun=packets > 0)
            raise
        else:
            counts.accepted.counted += 1
            counts.time_us.note((perf_counter_ns() - started) / _NS_PER_US)
        finally:
            graph.current.level -= 1
            counts.responses.counted += packets

    async def infer(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        graph = self._metrics.graph(request.model)
        if graph is None:
            return await self._infer_model(request, client)
        counts = graph.call(INFER, self._interface)
        graph.current.level += 1
        started = perf_counter_ns()
        try:
            response = await self._plane.infer(request, client)
        except BaseException as error:
            _count_failure(counts, error, started)
            raise
        finally:
            graph.current.level -= 1
        counts.accepted.counted += 1
        counts.responses.counted += 1
        counts.time_us.note((perf_counter_ns() - started) / _NS_PER_US)
        return response

    async def _infer_model(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        model = self._metrics.model(request.model)
        counts = None if model is None else model.infer(request.version, INFER, self._interface)
        if model is None or counts is None:
            return await self._plane.infer(request, client)
        counts.current.level += 1
        started = perf_counter_ns()
        try:
            response = await self._plane.infer(request, client)
        except asyncio.CancelledError:
            counts.cancelled.counted += 1
            raise
        except Exception:
            counts.fail.counted += 1
            raise
        finally:
            counts.current.level -= 1
        if response.version != counts.version:
            # Who names no version may have got another one than was thought.
            counts = model.infer(response.version, INFER, self._interface) or counts
        counts.success.counted += 1
        counts.time_us.note((perf_counter_ns() - started) / _NS_PER_US)
        return response

    def open_stream(
        self, first: InferRequest, client: ClientConnection, emit: Callable[[InferAnswer], object]
    ) -> AbstractAsyncContextManager[InferStream]:
        if self._metrics.graph(first.model) is not None:
            return self._open_graph_stream(first, client, emit)
        model = self._metrics.model(first.model)
        if model is not None:
            counts = model.infer(first.version, INFER_STREAM, self._interface)
            if counts is not None:
                return self._open_model_stream(first, client, emit, counts)
        return self._plane.open_stream(first, client, emit)

    @asynccontextmanager
    async def _open_graph_stream(
        self, first: InferRequest, client: ClientConnection, emit: Callable[[InferAnswer], object]
    ) -> AsyncIterator[InferStream]:
        graph = self._metrics.graph(first.model)
        assert graph is not None, "`open_stream` has found it"
        counts = graph.call(INFER_STREAM, self._interface)

        def emit_and_count(answer: InferAnswer) -> None:
            if not isinstance(answer, InferFailure):
                counts.responses.counted += 1
            emit(answer)

        graph.current.level += 1
        started = perf_counter_ns()
        watched: _GraphStream | None = None
        try:
            async with self._plane.open_stream(first, client, emit_and_count) as stream:
                watched = _GraphStream(stream, counts)
                yield watched
        except BaseException as error:
            if watched is None:
                counts.rejected.counted += 1
            elif isinstance(error, RunError):
                watched.count_error()
            elif isinstance(error, asyncio.CancelledError):
                counts.cancelled.counted += 1
            raise
        finally:
            graph.current.level -= 1
            if watched is not None:
                counts.time_us.note((perf_counter_ns() - started) / _NS_PER_US)

    @asynccontextmanager
    async def _open_model_stream(
        self,
        first: InferRequest,
        client: ClientConnection,
        emit: Callable[[InferAnswer], object],
        counts: InferCounts,
    ) -> AsyncIterator[InferStream]:
        """Each request counts as one, when it is answered."""

        def emit_and_count(answer: InferAnswer) -> None:
            (counts.fail if isinstance(answer, InferFailure) else counts.success).counted += 1
            emit(answer)

        counts.current.level += 1
        try:
            async with self._plane.open_stream(first, client, emit_and_count) as stream:
                yield stream
        except asyncio.CancelledError:
            counts.cancelled.counted += 1
            raise
        finally:
            counts.current.level -= 1

    def is_model_ready(self, model: str, version: str = "") -> bool:
        with self._lookup(READY, model, version):
            return self._plane.is_model_ready(model, version)

    async def metadata(self, model: str, version: str = "") -> ModelMetadata:
        with self._lookup(METADATA, model, version):
            return await self._plane.metadata(model, version)

    @contextmanager
    def _lookup(self, method: str, name: str, version: str) -> Iterator[None]:
        found: Any = self._metrics.graph(name) or self._metrics.model(name)
        counts: LookupCounts | None = None
        if found is not None:
            counts = found.lookup(method, self._interface, version)
        try:
            yield
        except Exception:
            if counts is not None:
                counts.fail.counted += 1
            raise
        if counts is not None:
            counts.success.counted += 1

    # What is not ----------------------------------------------------------------------------------

    async def inputs_of(self, model: str, version: str = "") -> Sequence[TensorMetadata]:
        return await self._plane.inputs_of(model, version)

    def models(self) -> Sequence[ModelDescription]:
        return self._plane.models()

    def statuses(self) -> dict[str, object]:
        return self._plane.statuses()

    @property
    def is_ready(self) -> bool:
        return self._plane.is_ready

    def index(self) -> Sequence[IndexEntry]:
        return self._plane.index()

    async def reload(self) -> bool:
        return await self._plane.reload()

    async def load(self, model: str) -> None:
        await self._plane.load(model)

    async def unload(self, model: str) -> None:
        await self._plane.unload(model)


class _GraphStream:
    """An `InferStream` whose requests are counted as they are taken."""

    def __init__(self, stream: InferStream, counts: CallCounts) -> None:
        self._stream = stream
        self._counts = counts
        self._has_failed = False

    async def send(self, request: InferRequest) -> None:
        try:
            await self._stream.send(request)
        except RunError:
            self.count_error()
            raise
        except Exception:
            self._counts.rejected.counted += 1
            raise
        self._counts.accepted.counted += 1

    def close_inputs(self) -> None:
        self._stream.close_inputs()

    async def wait(self) -> None:
        try:
            await self._stream.wait()
        except RunError:
            self.count_error()
            raise

    def count_error(self) -> None:
        """The run has failed, which several calls may tell."""
        if not self._has_failed:
            self._has_failed = True
            self._counts.errors.counted += 1


def _wants_stream(body: object) -> bool:
    return isinstance(body, dict) and body.get("stream") is True


def _count_failure(
    counts: CallCounts, error: BaseException, started: int, *, has_begun: bool = False
) -> None:
    """``has_begun``: the graph has answered something already."""
    if isinstance(error, asyncio.CancelledError):
        counts.cancelled.counted += 1
    elif isinstance(error, RunError) or has_begun:
        counts.errors.counted += 1
    else:
        counts.rejected.counted += 1
        return
    counts.accepted.counted += 1
    counts.time_us.note((perf_counter_ns() - started) / _NS_PER_US)
