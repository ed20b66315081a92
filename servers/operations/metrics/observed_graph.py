"""`ObservedGraph`: one call of a graph, counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import perf_counter_ns
from typing import Final

from calculators.inference import InferRequest, InferResponse
from calculators.requests.http_answer import ResponsePacket
from calculators.requests.http_payload import ClientConnection, HttpPayload
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


class ObservedGraph:
    """A `servers.contract.data_plane.LoadedServable` for one call, timed from its creation."""

    __slots__ = ("_counts", "_current", "_servable", "_started")

    def __init__(self, current: Gauge, counts: CallCounts) -> None:
        """``current``: calls in progress; ``counts``: the counts of this method."""
        self._current = current
        self._counts = counts
        self._started = perf_counter_ns()
        self._servable: LoadedServable

    async def resolve(self, resolving: Awaitable[LoadedServable]) -> None:
        """Wait for the graph, and count a failure to get it."""
        self._current.level += 1
        try:
            self._servable = await resolving
        except BaseException as error:
            self._count_failure(error)
            raise
        finally:
            self._current.level -= 1

    async def answer(self, payload: HttpPayload, emit: Callable[[ResponsePacket], object]) -> None:
        """See `LoadedServable.answer`."""
        counts = self._counts
        packets = 0

        def emit_and_count(packet: ResponsePacket) -> None:
            nonlocal packets
            packets += 1
            emit(packet)

        self._current.level += 1
        try:
            answering = self._servable.answer(payload, emit_and_count)
            del payload  # the graph keeps it no longer than it needs it
            await answering
        except BaseException as error:
            self._count_failure(error, has_begun=packets > 0)
            raise
        else:
            counts.accepted.counted += 1
            self._note_time()
        finally:
            self._current.level -= 1
            counts.responses.counted += packets

    async def infer(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        """See `LoadedServable.infer`."""
        counts = self._counts
        self._current.level += 1
        try:
            response = await self._servable.infer(request, client)
        except BaseException as error:
            self._count_failure(error)
            raise
        finally:
            self._current.level -= 1
        counts.accepted.counted += 1
        counts.responses.counted += 1
        self._note_time()
        return response

    @asynccontextmanager
    async def open_stream(
        self, first: InferRequest, client: ClientConnection, emit: Callable[[InferAnswer], object]
    ) -> AsyncIterator[InferStream]:
        """See `LoadedServable.open_stream`."""
        counts = self._counts

        def emit_and_count(answer: InferAnswer) -> None:
            if not isinstance(answer, InferFailure):
                counts.responses.counted += 1
            emit(answer)

        self._current.level += 1
        watched: _ObservedStream | None = None
        try:
            async with self._servable.open_stream(first, client, emit_and_count) as stream:
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
            self._current.level -= 1
            if watched is not None:
                self._note_time()

    def _note_time(self) -> None:
        self._counts.time_us.note((perf_counter_ns() - self._started) / _NS_PER_US)

    def _count_failure(self, error: BaseException, *, has_begun: bool = False) -> None:
        """``has_begun``: the graph has sent a packet already."""
        counts = self._counts
        if isinstance(error, asyncio.CancelledError):
            counts.cancelled.counted += 1
        elif isinstance(error, RunError) or has_begun:
            counts.errors.counted += 1
        else:
            counts.rejected.counted += 1
            return
        counts.accepted.counted += 1
        self._note_time()


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
