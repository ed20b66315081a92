"""`ObservedModel`: one call of a plain model, counted by version."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import perf_counter_ns
from typing import Final

from calculators.kit.requests.http_answer import ResponsePacket
from calculators.kit.requests.http_payload import ClientConnection, HttpPayload
from calculators.tensors.inference import InferRequest, InferResponse
from servers.contract.data_plane import (
    InferAnswer,
    InferFailure,
    InferStream,
    LoadedServable,
    Method,
)
from servers.operations.metrics.model_requests import InferCounts, ModelRequests

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
