"""`ObservedGraph`: one call of a graph, counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import perf_counter_ns
from typing import Final

from msgspec import Struct

from calculators.kit.requests.http_answer import ResponsePacket
from calculators.kit.requests.http_payload import ClientConnection, HttpPayload
from calculators.tensors.inference import InferRequest, InferResponse
from graph_runtime import RunError
from servers.contract.data_plane import (
    InferAnswer,
    InferFailure,
    InferStream,
    LoadedServable,
)
from servers.operations.metrics.graph_requests import CallCounts
from servers.operations.metrics.series import Gauge

_NS_PER_US: Final = 1000


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


async def observed_graph(
    resolving: Awaitable[LoadedServable], current: Gauge, counts: CallCounts
) -> ObservedGraph:
    """Wait for the graph of a call, and count a failure to get it."""
    started = perf_counter_ns()
    current.level += 1
    try:
        return ObservedGraph(current, counts, started, await resolving)
    except BaseException as error:
        _count_failure(counts, started, error)
        raise
    finally:
        current.level -= 1


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
