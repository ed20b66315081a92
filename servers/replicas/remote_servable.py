"""`RemoteServable`: the replicas of one servable, as a loaded servable of the front.

`RemoteReplicas`: the replicas of one application, and `RemoteRequest`, a request to them.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from time import perf_counter_ns
from typing import Any, Final

from calculators.kit.requests.http_answer import HttpAnswer, ResponsePacket
from calculators.kit.requests.http_payload import (
    ClientConnection,
    HttpPayload,
    Messages,
    RequestError,
)
from calculators.kit.requests.request_record import MOST_WARNINGS, RequestRecord, current_record
from calculators.tensors.inference import InferRequest, InferResponse
from graph_runtime import Code, RunError
from servers.config.entries import Scale
from servers.contract.data_plane import InferAnswer, InferStream
from servers.replicas.cluster import RayCluster
from servers.replicas.routing_table import (
    BLOCK_CHARS,
    CHARS_PER_TOKEN,
    EXPECTED_TOKENS,
    MOST_BLOCKS,
    RoutedCall,
    RoutingTable,
    blocks_of,
    table_of,
)
from servers.replicas.wire import (
    WINDOW,
    HttpCall,
    Origin,
    Packet,
    SentFailure,
    SentTensors,
    Update,
    answer_of,
    size_of,
)
from servers.serving.servable import UseCount

#: Tries of a request: once more if the first replica is lost before it has sent anything.
_TRIES: Final = 2
#: Seconds that a text of metrics waits for the replicas' metrics.
_METRICS_SECONDS: Final = 2.0


class RemoteReplicas:
    """The replicas of one application. Belongs to one event loop, on which it must be made."""

    def __init__(
        self,
        name: str,
        cluster: RayCluster,
        application: str,
        max_ongoing: int,
        max_queued: int,
    ) -> None:
        """``name``: the model's, for messages.

        ``max_ongoing``: requests at one replica; ``max_queued``: those that wait for a replica.
        """
        self._name = name
        self._cluster = cluster
        self._handle = cluster.handle(application, max_ongoing)
        self._table = table_of(application)
        self._max_queued = max_queued

    async def metrics(self) -> Sequence[tuple[str, str]]:
        """Return the name and the metrics of each replica; none if they do not answer in time."""
        try:
            async with asyncio.timeout(_METRICS_SECONDS):
                found: list[tuple[str, str]] = await self._handle.broadcast(
                    "metrics", ""
                ).results_async()
        except Exception as error:  # there may be no replica now
            _log.debug("%s: no metrics of replicas: %s", self._name, type(error).__name__)
            return ()
        return found

    @property
    def name(self) -> str:
        return self._name

    @property
    def table(self) -> RoutingTable:
        return self._table

    def check_queue(self) -> None:
        """
        Raises:
            RequestError: as many requests wait for a replica as may (RESOURCE_EXHAUSTED).
        """
        # Counted here and not by Ray, so that the error is graphrt's 429 (decision 0070).
        if self._table.waiting >= self._max_queued:
            raise RequestError(
                f'{self._table.waiting} requests wait for a replica of the model "{self._name}", '
                f"as many as may; try again later",
                code=Code.RESOURCE_EXHAUSTED,
                retry_after=1,
            )

    def stream(self, method: str, *arguments: Any) -> Any:
        """Call a method of a replica that answers with updates."""
        return self._handle.options(method_name=method, stream=True).remote(*arguments)

    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of a replica."""
        return self._handle.options(method_name=method).remote(*arguments)

    def is_loss(self, error: BaseException) -> bool:
        return self._cluster.is_loss(error)


class RemoteRequest:
    """One request on its way through a replica, perhaps through a second one."""

    def __init__(
        self,
        replicas: RemoteReplicas,
        client: ClientConnection,
        record: RequestRecord | None,
        routed: RoutedCall,
    ) -> None:
        self.key = uuid.uuid4().hex
        self.has_begun = asyncio.Event()
        self.replicas = replicas
        self._client = client
        self._record = record
        self._routed = routed
        self._has_taken = False
        self._unpaid = 0
        self._paying: asyncio.Task[None] | None = None
        self._response: Any = None
        #: A replica that is being ended has the request, and gets no messages.
        self._is_lost = False

    async def run(
        self,
        method: str,
        arguments: tuple[Any, ...],
        take: Callable[[Packet], None],
        messages: Messages | None = None,
    ) -> None:
        """Send the request and take its packets until it has ended.

        Raises:
            Exception: as the servable on this machine would have raised it.
        """
        self.replicas.check_queue()
        table = self.replicas.table
        table.begin(self.key, self._routed)
        passing = None if messages is None else asyncio.create_task(self._pass_on(messages))
        try:
            for tries_left in reversed(range(_TRIES)):
                failure = await self._try(method, arguments, take)
                if failure is None:
                    return
                is_loss = failure.code is Code.UNAVAILABLE and not failure.is_unknown_model
                # Only a request of which nothing was sent goes on elsewhere: what a client has seen
                # cannot be generated again.
                if not is_loss or not tries_left or self._has_taken or messages is not None:
                    raise failure.error()
                self._routed.avoided.add(self._routed.replica)
        finally:
            table.end(self.key)
            for task in (passing, self._paying):
                if task is not None:
                    task.cancel()

    async def _try(
        self, method: str, arguments: tuple[Any, ...], take: Callable[[Packet], None]
    ) -> SentFailure | None:
        """Send the request once. Return how it failed, or None."""
        sent = perf_counter_ns()
        response = self._response = self.replicas.stream(method, self.key, *arguments)
        try:
            async for update in response:
                self._take(update, take)
                if update.ending is not None:
                    if self._record is not None:
                        update.ending.note_in(self._record, sent)
                    failure: SentFailure | None = update.ending.failure
                    return failure
            raise RuntimeError("a replica ended an answer without its end")
        except (asyncio.CancelledError, RequestError, RunError):
            raise
        except Exception as error:
            return self._failure_of(error)
        finally:
            response.cancel()  # dropping it would cancel nothing

    def _take(self, update: Update, take: Callable[[Packet], None]) -> None:
        self.has_begun.set()
        if update.warnings and self._record is not None:
            known = self._record.warnings
            new = (each for each in update.warnings if each not in known)
            self._record.warnings = tuple(itertools.islice((*known, *new), MOST_WARNINGS))
        for packet in update.packets:
            self._has_taken = True
            self._unpaid += size_of(packet)
            take(packet)
        if self._unpaid >= WINDOW // 2 and (self._paying is None or self._paying.done()):
            # Flow control is ours: Ray's streams have none, and a replica would send as fast as it
            # computes (decision 0070).
            self._paying = asyncio.create_task(self._pay())

    async def _pay(self) -> None:
        """Let the replica go on as soon as the client has read."""
        while self._unpaid >= WINDOW // 2:
            await self._client.writable()
            size, self._unpaid = self._unpaid, 0
            try:
                await self.replicas.call("credit", self.key, size)
            except Exception as error:  # the answer itself says what is wrong
                _log.debug("credit was not taken: %s", type(error).__name__)
                return

    async def _pass_on(self, messages: Messages) -> None:
        """Send the messages of a WebSocket's client, one after the other."""
        await self.has_begun.wait()
        while True:
            try:
                message = await messages.receive()
            except RequestError:
                message = None
            if not await self.replicas.call("message", self.key, message):
                self._is_lost = True
                if self._response is not None:
                    self._response.cancel()
                return
            if message is None:
                return

    def _failure_of(self, error: Exception) -> SentFailure:
        name = self.replicas.name
        if self._is_lost or self.replicas.is_loss(error):
            _log.warning("%s: a replica was lost with a request", name)
            text = f'The process of the model "{name}" that had this request is gone; send it again'
            return SentFailure(Code.UNAVAILABLE, text, None, None, 1, "replica lost", False, True)
        _log.error("%s: a call of a replica failed", name, exc_info=error)
        return SentFailure(Code.INTERNAL, "", None, None, None, "", False, True)


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
