"""`RemoteServable`: the replicas of one servable, as a loaded servable of the front."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from calculators.kit.requests.http_answer import HttpAnswer, ResponsePacket
from calculators.kit.requests.http_payload import ClientConnection, HttpPayload
from calculators.kit.requests.request_record import current_record
from calculators.tensors.inference import InferRequest, InferResponse
from servers.config.scale import Scale
from servers.contract.data_plane import InferAnswer, InferStream
from servers.replicas.cluster import RayCluster
from servers.replicas.remote_replicas import RemoteReplicas, RemoteRequest
from servers.replicas.routing_table import (
    BLOCK_CHARS,
    CHARS_PER_TOKEN,
    EXPECTED_TOKENS,
    MOST_BLOCKS,
    RoutedCall,
    blocks_of,
)
from servers.replicas.wire import HttpCall, Origin, Packet, SentTensors, answer_of
from servers.serving.use_count import UseCount

_log: Final = logging.getLogger(__name__)


class RemoteServable(RemoteReplicas):
    """A `servers.contract.data_plane.LoadedServable`. Belongs to one event loop.

    Attributes:
        users: requests and streams in flight.
    """

    def __init__(
        self, name: str, cluster: RayCluster, application: str, scale: Scale, users: UseCount
    ) -> None:
        super().__init__(
            name, cluster, application, scale.max_ongoing_requests, scale.max_queued_requests
        )
        self._version = ""
        self.users = users

    def of_version(self, version: str) -> RemoteServable:
        """Return the same replicas, for requests to one version of a plain model."""
        servable = copy.copy(self)
        servable._version = version
        return servable

    async def describe(self) -> Any:
        """Return a replica's `servers.replicas.wire.Description`."""
        return await self.call("describe", "")

    async def answer(self, payload: HttpPayload, emit: Callable[[ResponsePacket], object]) -> None:
        """See `servers.contract.data_plane.LoadedServable.answer`."""
        with self.users:
            request = RemoteRequest(self, payload.client, payload.record, _routed(payload))
            messages = payload.messages
            call = HttpCall.of(payload)
            del payload

            def take(packet: Packet) -> None:
                assert isinstance(packet, (str, bytes, HttpAnswer)), "a replica sends what it got"
                emit(packet)

            await request.run("answer", (call,), take, messages)

    async def infer(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        """See `servers.contract.data_plane.LoadedServable.infer`."""
        with self.users:
            record = current_record()
            answers: list[InferResponse] = []

            def take(packet: Packet) -> None:
                assert isinstance(packet, SentTensors), "a replica answers with tensors"
                answers.append(packet.response())

            call = RemoteRequest(self, client, record, RoutedCall())
            sent = SentTensors.of_request(request)
            del request
            await call.run("infer", (sent, self._version, Origin.of(record)), take)
            return answers[0]

    @asynccontextmanager
    async def open_stream(
        self, first: InferRequest, client: ClientConnection, emit: Callable[[InferAnswer], object]
    ) -> AsyncIterator[InferStream]:
        """See `servers.contract.data_plane.LoadedServable.open_stream`."""
        with self.users.stream():
            record = current_record()
            call = RemoteRequest(self, client, record, RoutedCall())

            def take(packet: Packet) -> None:
                assert isinstance(packet, (SentTensors, tuple)), "a replica answers with tensors"
                emit(answer_of(packet))

            # Only the parameters hold for the run; the tensors come with `send`.
            head = SentTensors(first.model, first.version, first.id, dict(first.parameters), ())
            running = asyncio.create_task(
                call.run("open_stream", (head, self._version, Origin.of(record)), take)
            )
            stream = _RemoteStream(call, running)
            try:
                await stream.opened()
                yield stream
            finally:
                running.cancel()
                await asyncio.wait({running})


class _RemoteStream:
    """An `InferStream` to the replica that has its run."""

    def __init__(self, request: RemoteRequest, running: asyncio.Task[None]) -> None:
        self._request = request
        self._running = running
        self._closing: asyncio.Task[None] | None = None

    async def opened(self) -> None:
        """Return once the run has begun.

        Raises:
            Exception: it cannot begin.
        """
        begun = asyncio.ensure_future(self._request.has_begun.wait())
        try:
            await asyncio.wait({begun, self._running}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            begun.cancel()
        if self._running.done():
            self._running.result()

    async def send(self, request: InferRequest) -> None:
        """See `InferStream.send`."""
        if self._running.done():
            self._running.result()
            return
        sent = SentTensors.of_request(request)
        try:
            failure = await self._request.replicas.call("send", self._request.key, sent)
        except Exception as error:
            if not self._request.replicas.is_loss(error):
                raise
            return  # `wait` says that the replica is gone
        if failure is not None and not self._running.done():
            raise failure.error()

    def close_inputs(self) -> None:
        """See `InferStream.close_inputs`."""
        self._closing = asyncio.create_task(self._close())

    async def _close(self) -> None:
        try:
            await self._request.replicas.call("close_inputs", self._request.key)
        except Exception as error:
            if not self._request.replicas.is_loss(error):
                _log.exception("the requests of a stream could not be ended")

    async def wait(self) -> None:
        """See `InferStream.wait`."""
        await asyncio.shield(self._running)


def _routed(payload: HttpPayload) -> RoutedCall:
    """Return what the routing has to know of an HTTP request."""
    size = len(payload.body)
    beginning = payload.body[: MOST_BLOCKS * BLOCK_CHARS].decode("utf-8", "replace")
    return RoutedCall(blocks_of(beginning), size / CHARS_PER_TOKEN + EXPECTED_TOKENS)
