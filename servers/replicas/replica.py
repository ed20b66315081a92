"""`ServableReplica`: one servable in a process of the cluster.

Ray calls the methods. The first argument of those that belong to a request is its key, by which the
router of the front finds the replica that has the request.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import calculators
from calculators.kit.requests.http_payload import Messages, WebDocuments
from calculators.kit.requests.request_record import RequestRecord
from graph_runtime import REGISTRY, Code, Registry
from servers import version
from servers.config import GraphEntry, LoadPolicy, ModelEntry
from servers.contract.data_plane import InferStream, Method, ModelMetadata, ServableState
from servers.operations.metrics.server_metrics import Served, ServerMetrics
from servers.replicas.own_nodes import OwnPlaces, PlacedNode
from servers.replicas.wire import (
    REASON_MARKS,
    Description,
    HttpCall,
    Origin,
    Outgoing,
    SentFailure,
    SentTensors,
    Update,
    logged,
    sent_answer,
)
from servers.serving.loaded_graph import GraphSettings
from servers.serving.model_repository import ModelRepository
from servers.serving.python_path import SharedModules
from servers.serving.servable import Servable


@dataclass(frozen=True, slots=True)
class ReplicaWork:
    """A servable as a replica loads it.

    Attributes:
        entry: the servable.
        models: the plain models that its graph may use; each is loaded when the graph asks for it.
        calculator_modules, calculators, python_path: modules and files of further calculators.
        search_path: the directory that the front was started in, where modules are looked for too.
        nodes: the nodes that have replicas of their own.
    """

    entry: GraphEntry | ModelEntry
    models: tuple[ModelEntry, ...]
    settings: GraphSettings
    calculator_modules: tuple[str, ...] = ()
    calculators: tuple[Path, ...] = ()
    python_path: tuple[Path, ...] = ()
    search_path: str = ""
    nodes: tuple[PlacedNode, ...] = ()

    def registry(self) -> Registry:
        """Import all modules and return the registry of their calculators."""
        calculators.register_all(REGISTRY)
        if self.search_path and self.search_path not in sys.path:
            sys.path.append(self.search_path)
        for name in self.calculator_modules:
            importlib.import_module(name)
        return SharedModules(Registry(REGISTRY), self.python_path, self.calculators).registry


#: The answer of a replica that does not have the request: the one that has it is being ended.
_UNKNOWN: Final = SentFailure(
    Code.UNAVAILABLE,
    "the process that has this stream takes no requests any more; open another stream",
    None,
    None,
    1,
    "replica ending",
    False,
    False,
)


class NotLoadedError(RuntimeError):
    """The servable could not be loaded; the text has the reason between `REASON_MARKS`."""


class ServableReplica:
    """One servable, which answers what a front sends. Belongs to Ray's event loop."""

    async def __init__(self, work: ReplicaWork) -> None:  # type: ignore[misc]  # as Ray allows
        """Load the servable.

        Raises:
            NotLoadedError: it cannot be loaded; Ray tries again, and gives up.
        """
        self._name = work.entry.name
        context = importlib.import_module("ray.serve").get_replica_context()
        self._replica: str = context.replica_id.unique_id
        own = OwnPlaces(context.app_name, work.nodes, work.search_path)
        self._metrics = ServerMetrics()
        self._metrics.served = self._served
        registry = await asyncio.to_thread(work.registry)
        families = work.settings.families.with_settings(own.places)
        settings = replace(work.settings, metrics=self._metrics, live=None, families=families)
        graphs = (work.entry,) if isinstance(work.entry, GraphEntry) else ()
        models = (work.entry,) if isinstance(work.entry, ModelEntry) else ()
        others = (
            replace(each, residence=LoadPolicy(is_on_demand=True))
            for each in work.models
            if each.name != self._name
        )
        # The front decides when the servable is loaded and unloaded.
        at_start = LoadPolicy(is_pinned=True)
        self._repository = ModelRepository(
            tuple(replace(each, residence=at_start) for each in graphs),
            registry,
            settings,
            (*(replace(each, residence=at_start) for each in models), *others),
            work.python_path,
        )
        self._running: dict[str, Outgoing] = {}
        self._streams: dict[str, InferStream] = {}
        self._messages: dict[str, _RemoteMessages] = {}
        # A server on Ray keeps no files of clients.
        self._documents = WebDocuments(families)
        await self._repository.load_all()
        servable = self._servable
        if servable.state is not ServableState.AVAILABLE or own.unknown:
            reason = servable.reason or own.unknown or "it is not available"
            await self._repository.close()
            raise NotLoadedError(reason.join(REASON_MARKS))

    @property
    def _servable(self) -> Servable:
        return next(each for each in self._repository.servables() if each.name == self._name)

    def _served(self) -> list[Served]:
        return [Served(self._name, True)]

    # About the servable ---------------------------------------------------------------------------

    async def describe(self, key: str) -> Description:
        """Return what the front has to know. ``key`` is that of no request."""
        servable = self._servable
        index = tuple(servable.index())
        loaded = [entry.version for entry in index if entry.state == "READY"]
        metadata = {"": _plain(servable.metadata(""))}
        metadata |= {each: _plain(servable.metadata(each)) for each in loaded}
        role = servable.http_role
        return Description(
            version(),
            tuple(servable.adapters),
            None if role is None else replace(role, facts=dict(role.facts)),
            servable.created,
            metadata,
            index,
        )

    async def metrics(self, key: str) -> tuple[str, str]:
        """Return the name of this replica, and its metrics as text."""
        text = await self._metrics.text_in_turns()
        return self._replica, text.body.decode()

    # Requests -------------------------------------------------------------------------------------

    async def answer(self, key: str, call: HttpCall) -> AsyncGenerator[Update, None]:
        """Answer an HTTP request."""
        record = call.origin.record(self._name)
        outgoing = Outgoing(record)
        messages = _RemoteMessages() if call.has_messages else None
        if messages is not None:
            self._messages[key] = messages

        async def run() -> None:
            servable = await self._repository.resolve(self._name, Method.STREAM)
            payload = call.payload(outgoing.client, record, messages, self._documents)
            await servable.answer(payload, outgoing.put)

        async with aclosing(self._updates(key, outgoing, run)) as updates:
            async for update in updates:
                yield update

    async def infer(
        self, key: str, request: SentTensors, version: str, origin: Origin
    ) -> AsyncGenerator[Update, None]:
        """Answer one request of tensors."""
        outgoing = Outgoing(origin.record(self._name))

        async def run() -> None:
            servable = await self._repository.resolve(self._name, Method.INFER, version)
            response = await servable.infer(request.request(), outgoing.client)
            outgoing.put(SentTensors.of_response(response))

        async with aclosing(self._updates(key, outgoing, run)) as updates:
            async for update in updates:
                yield update

    async def open_stream(
        self, key: str, first: SentTensors, version: str, origin: Origin
    ) -> AsyncGenerator[Update, None]:
        """Open a stream of requests, which `send` brings. The first update says that it is open."""
        outgoing = Outgoing(origin.record(self._name))

        async def run() -> None:
            servable = await self._repository.resolve(self._name, Method.INFER_STREAM, version)
            async with servable.open_stream(
                first.request(), outgoing.client, lambda each: outgoing.put(sent_answer(each))
            ) as stream:
                self._streams[key] = stream
                outgoing.note_open()
                await stream.wait()

        async with aclosing(self._updates(key, outgoing, run)) as updates:
            async for update in updates:
                yield update

    async def _updates(
        self, key: str, outgoing: Outgoing, run: Callable[[], Awaitable[None]]
    ) -> AsyncGenerator[Update, None]:
        self._running[key] = outgoing
        updates = outgoing.updates(run, f"request to {self._name}")
        try:
            async with aclosing(updates):
                async for update in updates:
                    yield update
        finally:
            del self._running[key]
            self._streams.pop(key, None)
            self._messages.pop(key, None)

    # Parts of a request ---------------------------------------------------------------------------

    async def credit(self, key: str, size: int) -> None:
        """Let a request send more: the front has passed on so many bytes."""
        outgoing = self._running.get(key)
        if outgoing is not None:
            outgoing.client.give(size)

    async def send(self, key: str, request: SentTensors) -> SentFailure | None:
        """Take a request of a stream. Return why it is refused, or None."""
        stream = self._streams.get(key)
        if stream is None:
            return _UNKNOWN
        try:
            await stream.send(request.request())
        except Exception as error:
            return logged(error, RequestRecord(""))
        return None

    async def close_inputs(self, key: str) -> None:
        """End the requests of a stream."""
        stream = self._streams.get(key)
        if stream is not None:
            stream.close_inputs()

    async def message(self, key: str, text: str | bytes | None) -> bool:
        """Take a message of a WebSocket's client; None: it has closed. False: it is lost."""
        messages = self._messages.get(key)
        if messages is not None:
            messages.put(text)
        return messages is not None


class _RemoteMessages(Messages):
    """The messages of a WebSocket's client, which the front sends one after the other."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[str | bytes | None] = asyncio.Queue()

    def put(self, text: str | bytes | None) -> None:
        self._waiting.put_nowait(text)

    async def receive(self) -> str | bytes | None:
        return await self._waiting.get()


def _plain(metadata: ModelMetadata) -> ModelMetadata:
    return replace(metadata, rt_info=dict(metadata.rt_info))
