"""`RemoteReplicas`: the replicas of one application, and `RemoteRequest`, a request to them."""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Any, Final

from calculators.kit.requests.http_payload import ClientConnection, Messages, RequestError
from calculators.kit.requests.request_record import MOST_WARNINGS, RequestRecord
from graph_runtime import Code, RunError
from servers.replicas.cluster import RayCluster
from servers.replicas.outgoing import WINDOW
from servers.replicas.routing_table import RoutedCall, RoutingTable, table_of
from servers.replicas.wire import Packet, SentFailure, Update, size_of

_log: Final = logging.getLogger(__name__)

#: Tries of a request: once more if the first replica is lost before it has sent anything.
_TRIES: Final = 2
#: Seconds that a text of metrics waits for those of replicas.
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
