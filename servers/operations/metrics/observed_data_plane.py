"""`ObservedDataPlane`: the data plane of one front, with every request counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from time import perf_counter_ns
from typing import Any, Final

from msgspec import Struct

from calculators.kit.requests.http_answer import ResponsePacket
from calculators.kit.requests.http_payload import ClientConnection, HttpPayload
from calculators.tensors.inference import InferRequest, InferResponse
from graph_runtime import RunError
from servers.contract.data_plane import (
    DataPlane,
    IndexEntry,
    InferAnswer,
    InferFailure,
    InferStream,
    LoadedServable,
    Method,
    ModelDescription,
    ModelMetadata,
    ServedEndpoint,
    TensorMetadata,
)
from servers.operations.metrics.families import Gauge
from servers.operations.metrics.requests import (
    METADATA,
    READY,
    CallCounts,
    InferCounts,
    LookupCounts,
    ModelRequests,
)
from servers.operations.metrics.server_metrics import ServerMetrics


class ObservedGraph(Struct, eq=False):
    """A `servers.contract.data_plane.LoadedServable` for one call.

    Attributes:
        current: calls in progress.
        counts: the counts of this method.
        started: the begin of the call, in nanoseconds of ``time.perf_counter_ns``.
    """

    current: Gauge
    counts: CallCounts
    started: int
    servable: LoadedServable

    async def answer(self, payload: HttpPayload, emit: Callable[[ResponsePacket], object]) -> None:
        """See `LoadedServable.answer`."""
        counts = self.counts
        packets = 0

        def emit_and_count(packet: ResponsePacket) -> None:
            nonlocal packets
            packets += 1
            emit(packet)

        self.current.level += 1
        try:
            answering = self.servable.answer(payload, emit_and_count)
            del payload  # the graph keeps it no longer than it needs it
            await answering
        except BaseException as error:
            _count_failure(counts, self.started, error, has_begun=packets > 0)
            raise
        else:
            counts.accepted.counted += 1
            _note_time(counts, self.started)
        finally:
            self.current.level -= 1
            counts.responses.counted += packets

    async def infer(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        """See `LoadedServable.infer`."""
        counts = self.counts
        self.current.level += 1
        try:
            response = await self.servable.infer(request, client)
        except BaseException as error:
            _count_failure(counts, self.started, error)
            raise
        finally:
            self.current.level -= 1
        counts.accepted.counted += 1
        counts.responses.counted += 1
        _note_time(counts, self.started)
        return response

    @asynccontextmanager
    async def open_stream(
        self, first: InferRequest, client: ClientConnection, emit: Callable[[InferAnswer], object]
    ) -> AsyncIterator[InferStream]:
        """See `LoadedServable.open_stream`."""
        counts = self.counts

        def emit_and_count(answer: InferAnswer) -> None:
            if not isinstance(answer, InferFailure):
                counts.responses.counted += 1
            emit(answer)

        self.current.level += 1
        watched: _ObservedStream | None = None
        try:
            async with self.servable.open_stream(first, client, emit_and_count) as stream:
                watched = _ObservedStream(stream, counts)
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
            self.current.level -= 1
            if watched is not None:
                _note_time(counts, self.started)


def _note_time(counts: CallCounts, started: int) -> None:
    counts.time_us.note((perf_counter_ns() - started) / _NS_PER_US)


def _count_failure(
    counts: CallCounts, started: int, error: BaseException, *, has_begun: bool = False
) -> None:
    """Count a failed call. ``has_begun``: the graph has sent a packet already."""
    if isinstance(error, asyncio.CancelledError):
        counts.cancelled.counted += 1
    elif isinstance(error, RunError) or has_begun:
        counts.errors.counted += 1
    else:
        counts.rejected.counted += 1
        return
    counts.accepted.counted += 1
    _note_time(counts, started)


class _ObservedStream:
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
        """Count the failure of the run, once: several calls may raise it."""
        if not self._has_failed:
            self._has_failed = True
            self._counts.errors.counted += 1


_NS_PER_US: Final = 1000


class ObservedModel:
    """A `servers.contract.data_plane.LoadedServable` for one call, timed from its creation."""

    __slots__ = ("_counts", "_interface", "_requests", "_servable", "_started")

    def __init__(self, requests: ModelRequests, counts: InferCounts, interface: str) -> None:
        """``counts``: of the version expected to answer; ``interface``: the label of the front."""
        self._requests = requests
        self._counts = counts
        self._interface = interface
        self._started = perf_counter_ns()
        self._servable: LoadedServable

    async def resolve(self, resolving: Awaitable[LoadedServable]) -> None:
        """Wait for the version, and count a failure to get it."""
        counts = self._counts
        counts.current.level += 1
        try:
            self._servable = await resolving
        except BaseException as error:
            self._count_failure(error)
            raise
        finally:
            counts.current.level -= 1

    async def answer(self, payload: HttpPayload, emit: Callable[[ResponsePacket], object]) -> None:
        """See `LoadedServable.answer`: refused, and not counted as an inference."""
        await self._servable.answer(payload, emit)

    async def infer(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        """See `LoadedServable.infer`."""
        counts = self._counts
        counts.current.level += 1
        try:
            response = await self._servable.infer(request, client)
        except BaseException as error:
            self._count_failure(error)
            raise
        finally:
            counts.current.level -= 1
        if response.version != counts.version:
            # A request without a version may get another one than expected.
            found = self._requests.infer(response.version, Method.INFER, self._interface)
            counts = found or counts
        counts.success.counted += 1
        counts.time_us.note((perf_counter_ns() - self._started) / _NS_PER_US)
        return response

    @asynccontextmanager
    async def open_stream(
        self, first: InferRequest, client: ClientConnection, emit: Callable[[InferAnswer], object]
    ) -> AsyncIterator[InferStream]:
        """See `LoadedServable.open_stream`. Each request counts as one, when it is answered."""
        counts = self._counts

        def emit_and_count(answer: InferAnswer) -> None:
            (counts.fail if isinstance(answer, InferFailure) else counts.success).counted += 1
            emit(answer)

        counts.current.level += 1
        try:
            async with self._servable.open_stream(first, client, emit_and_count) as stream:
                yield stream
        except asyncio.CancelledError:
            counts.cancelled.counted += 1
            raise
        finally:
            counts.current.level -= 1

    def _count_failure(self, error: BaseException) -> None:
        if isinstance(error, asyncio.CancelledError):
            self._counts.cancelled.counted += 1
        elif isinstance(error, Exception):
            self._counts.fail.counted += 1


class ObservedDataPlane:
    """A `servers.contract.data_plane.DataPlane` that counts the requests to another one."""

    def __init__(self, plane: DataPlane, metrics: ServerMetrics, interface: str) -> None:
        """``interface``: the label of the front, `REST` or `GRPC`."""
        self._plane = plane
        self._metrics = metrics
        self._interface = interface

    # Counted --------------------------------------------------------------------------------------

    async def resolve(self, model: str, method: Method, version: str = "") -> LoadedServable:
        """See `DataPlane.resolve`. Requests to models that are not served are not counted."""
        resolving = self._plane.resolve(model, method, version)
        graph = self._metrics.graph(model)
        if graph is not None:
            current, counts = graph.current, graph.calls[method, self._interface]
            started = perf_counter_ns()
            current.level += 1
            try:
                return ObservedGraph(current, counts, started, await resolving)
            except BaseException as error:
                _count_failure(counts, started, error)
                raise
            finally:
                current.level -= 1
        observed = self._observed_model(model, method, version)
        if observed is None:
            return await resolving
        await observed.resolve(resolving)
        return observed

    def _observed_model(self, model: str, method: Method, version: str) -> ObservedModel | None:
        requests = self._metrics.model(model)
        counts = None if requests is None else requests.infer(version, method, self._interface)
        if requests is None or counts is None:
            return None
        return ObservedModel(requests, counts, self._interface)

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

    # Not counted ----------------------------------------------------------------------------------

    async def inputs_of(self, model: str, version: str = "") -> Sequence[TensorMetadata]:
        return await self._plane.inputs_of(model, version)

    def endpoints(self) -> Sequence[ServedEndpoint]:
        return self._plane.endpoints()

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

    def release(self, model: str) -> None:
        self._plane.release(model)
