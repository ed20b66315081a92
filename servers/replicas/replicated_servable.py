"""`ReplicatedServable`: a graph or plain model whose replicas run on a cluster.

`NodeReplica`: the heavy work of nodes, in a process of the cluster.

Ray calls the methods. The first argument is the key of a request, as in
`servers.replicas.replica.ServableReplica`.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import logging
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Final

import calculators
from calculators.kit.file_threads import in_file_thread
from calculators.kit.places import Question, WorkMaker
from calculators.tensors.inference import quoted
from graph_runtime import REGISTRY, GraphError, LoadProgress, NotFoundError
from graph_runtime.errors import reason_of
from servers import version
from servers.config import GraphEntry, ModelEntry
from servers.config.entries import Scale
from servers.contract.data_plane import (
    SERVABLE_TRANSITIONS,
    IndexEntry,
    ModelMetadata,
    ServableEvent,
    ServableState,
)
from servers.operations.metrics.server_metrics import Served, ServerMetrics
from servers.page.live_graph import ShownGraph
from servers.replicas.cluster import ClusterError, RayCluster, Target
from servers.replicas.own_nodes import NodeWork, OwnDeployments, placed_nodes
from servers.replicas.remote_servable import RemoteReplicas, RemoteServable
from servers.replicas.replica import NotLoadedError, ReplicaWork, ServableReplica
from servers.replicas.wire import REASON_MARKS, Description, Origin, Outgoing, Update
from servers.serving.graph_definition import GraphDefinition
from servers.serving.models.model_definition import ModelDefinition
from servers.serving.servable import (
    VERSION,
    VERSIONS,
    HttpRole,
    Loading,
    Servable,
    UseCount,
    failure_of,
    index_entry,
    unavailable_error,
    version_status,
)


class NodeReplica:
    """The work of one order, for all graphs that have given it. Belongs to Ray's event loop."""

    async def __init__(self, work: NodeWork) -> None:  # type: ignore[misc]  # as Ray allows
        """Load the work.

        Raises:
            NotLoadedError: it cannot be loaded; Ray tries again, and gives up.
        """
        order = work.order
        self._name: Final = order.name
        context = importlib.import_module("ray.serve").get_replica_context()
        self._replica: str = context.replica_id.unique_id
        self._metrics = ServerMetrics()
        self._metrics.served = lambda: [Served(order.name, True)]
        if work.search_path and work.search_path not in sys.path:
            sys.path.append(work.search_path)
        await asyncio.to_thread(calculators.register_all, REGISTRY)
        module, _, name = order.maker.partition(":")
        maker: WorkMaker = getattr(importlib.import_module(module), name)
        metrics = self._metrics.service_of(order.name).of_node("")
        self._work = maker(order.arguments, name=order.name, metrics=metrics)
        self._questions: dict[str, _ReplicaQuestion] = {}
        try:
            self._ready = await self._work.start(LoadProgress())
        except GraphError as error:
            raise NotLoadedError(reason_of(error).join(REASON_MARKS)) from None

    async def describe(self, key: str) -> bytes:
        """Return the first message of the work. ``key`` is that of no request."""
        return self._ready

    async def metrics(self, key: str) -> tuple[str, str]:
        """Return the name of this replica, and its metrics as text."""
        text = await self._metrics.text_in_turns()
        return self._replica, text.body.decode()

    async def answer(self, key: str, body: bytes, origin: Origin) -> AsyncGenerator[Update, None]:
        """Answer a question."""
        outgoing = Outgoing(origin.record(self._name))
        question = self._questions[key] = _ReplicaQuestion(body, outgoing)
        updates = outgoing.updates(lambda: self._work.answer(question), f"question to {self._name}")
        try:
            async with aclosing(updates):
                async for update in updates:
                    yield update
        finally:
            del self._questions[key]

    async def credit(self, key: str, size: int) -> None:
        """Let a request send more: its asker has taken so many bytes."""
        question = self._questions.get(key)
        if question is not None:
            question.outgoing.client.give(size)

    async def note(self, key: str, note: bytes) -> None:
        """Take a note of the asker."""
        question = self._questions.get(key)
        if question is not None:
            question.on_note(note)


class _ReplicaQuestion(Question):
    """A question, and the way of its answer."""

    def __init__(self, body: bytes, outgoing: Outgoing) -> None:
        self.body = body
        self.outgoing = outgoing
        self.emit = outgoing.put
        self.on_note = lambda note: None


_log: Final = logging.getLogger(__name__)


class ReplicatedServable:
    """A `servers.serving.servable.Servable`. Belongs to one event loop.

    Each version of its files is an application of its own, so that the replicas of the old one
    answer until the new one's do.

    Attributes:
        local: the graph or model of this machine's files, which is never loaded here.
        state: the state.
        reason: why loading failed, for clients; "" otherwise.
    """

    def __init__(
        self,
        local: GraphDefinition | ModelDefinition,
        cluster: RayCluster,
        work_of: Callable[[GraphEntry | ModelEntry], ReplicaWork],
        request_limit: int,
    ) -> None:
        """``work_of``: returns what a replica loads."""
        self.local = local
        self.state = ServableState.START
        self.reason = ""
        self._cluster = cluster
        self._work_of = work_of
        self._users = UseCount(local.name, request_limit)
        self._fingerprint = ""
        self._application = ""
        self._replicas: RemoteServable | None = None
        self._described: Description | None = None
        self._created = 0
        self._loading: Loading | None = None
        #: The replicas of the servable that this one replaces.
        self._before = ""
        self._scale = local.entry.scale
        #: The nodes with replicas of their own, when loading began.
        self._nodes = placed_nodes(self._scale)
        self._own: OwnDeployments | None = None
        self._own_replicas: list[RemoteReplicas] = []
        self._rescaling: asyncio.Task[None] | None = None
        self._has_claim = False

    @property
    def entry(self) -> GraphEntry | ModelEntry:
        return self.local.entry

    @property
    def name(self) -> str:
        return self.local.name

    @property
    def adapters(self) -> Sequence[str]:
        return self.local.adapters

    @property
    def failure(self) -> str:
        """Why loading failed, or some versions; "" otherwise."""
        if self.reason or self._described is None:
            return self.reason
        return failure_of(
            (each.version, each.reason)
            for each in self._described.index
            if each.state == "UNAVAILABLE"
        )

    @property
    def http_role(self) -> HttpRole | None:
        return self.local.http_role if self._described is None else self._described.role

    @property
    def created(self) -> int:
        return self._created

    @property
    def unavailable_reason(self) -> str:
        """Always "": a request waits for a replica."""
        return ""

    def idle_seconds(self) -> float:
        """Return the seconds since the last request ended; 0 during a request."""
        return self._users.idle_seconds()

    # Life -----------------------------------------------------------------------------------------

    def inherit(self, old: Servable) -> None:
        """Begin with as many replicas as ``old`` has."""
        if isinstance(old, ReplicatedServable):
            self._before = old._application

    async def prepare(self) -> None:
        """Read the names of adapters, before loading or deferring."""
        await self.local.prepare()

    async def looked(self) -> None:
        """Wait for `prepare` if it is running."""
        await self.local.looked()

    async def load(self) -> None:
        """Start the replicas, unless there are some. A failure is logged and kept as `reason`."""
        if self.state is ServableState.AVAILABLE:
            return
        self._move(ServableEvent.LOAD)
        self.reason = ""
        self._loading = loading = Loading(self.name)
        _log.info("%s: starting replicas", self.name)
        try:
            await self._start(loading)
        except Exception as error:
            self.reason = reason_of(error) if isinstance(error, GraphError) else "internal error"
            self._move(ServableEvent.LOAD_FAILED)
            known = isinstance(error, GraphError)
            _log.error(
                "%s: could not be loaded: %s",
                self.name,
                self.reason,
                exc_info=None if known else error,
            )
            await self._end()
            return
        except asyncio.CancelledError:
            self.reason = "its loading was interrupted"
            self._move(ServableEvent.LOAD_FAILED)
            await self._end()
            raise
        finally:
            self._loading = None
        self._created = int(time.time())
        self._move(ServableEvent.LOADED)
        _log.info("%s: its replicas answer after %.1f s", self.name, loading.seconds)

    async def _start(self, loading: Loading) -> None:
        loading.progress.begin("reading the files", 0.0)
        cluster, scale = self._cluster, self._scale
        self._fingerprint = await self._look()
        await self.local.prepare()
        # Two fronts of different configurations must not answer under one name of the cluster
        # (decision 0076).
        await asyncio.to_thread(cluster.claim, self.name)
        self._has_claim = True
        await self.local.check_names()
        loading.progress.begin("starting replicas", 0.1)
        await asyncio.to_thread(cluster.check_room, scale)
        self._nodes = placed_nodes(scale)
        work = self._work()
        # Fronts of one config.json get the same name from the same files, and so share the replicas
        # (decision 0076).
        digest = hashlib.sha256(repr((version(), work, self._fingerprint)).encode()).hexdigest()
        application = cluster.application_of(self.name, digest)
        replicas = scale.first_replicas
        if self._before:
            replicas = max(replicas, await asyncio.to_thread(cluster.replicas, self._before))
        self._application = application
        self._own = own = OwnDeployments(
            cluster, application, lambda node: Target(NodeReplica, node)
        )
        await asyncio.to_thread(cluster.use, application)
        if not await asyncio.to_thread(cluster.is_there, application):
            target = Target(ServableReplica, work)
            await asyncio.to_thread(cluster.deploy, application, target, scale, replicas)
        noted: list[str] = []

        def note(text: str) -> None:
            if text not in noted:
                noted.append(text)
                loading.progress.begin(text, 0.2)
                _log.warning("%s: %s", self.name, text)

        await cluster.wait_until_running(application, note, lambda: own.meet(scale.nodes))
        loading.progress.begin("asking a replica", 0.9)
        self._replicas = self._remote()
        described: Description = await self._replicas.describe()
        # Pickled requests of another version would fail later, and less clearly.
        if described.version != version():
            raise ClusterError(
                f"the nodes of the Ray cluster have graphrt {described.version}, and this front is "
                f"{version()}; install the same"
            )
        self._described = described
        self._own_replicas = [
            RemoteReplicas(node, cluster, each, 0, 0) for node, each in own.running.items()
        ]

    def _work(self) -> ReplicaWork:
        return replace(self._work_of(self.entry), nodes=self._nodes)

    def _remote(self) -> RemoteServable:
        return RemoteServable(self.name, self._cluster, self._application, self._scale, self._users)

    def rescale(self, scale: Scale) -> None:
        """Take another number of replicas; those that run go on."""
        if scale == self._scale:
            return
        self._scale = scale
        if self.state is ServableState.AVAILABLE:
            self._rescaling = asyncio.create_task(self._rescale(), name=f"rescale {self.name}")

    async def _rescale(self) -> None:
        cluster, scale, application = self._cluster, self._scale, self._application
        target = Target(ServableReplica, self._work())
        try:
            await asyncio.to_thread(cluster.check_room, scale)
            await asyncio.to_thread(
                cluster.deploy, application, target, scale, scale.first_replicas
            )
            if self._own is not None:
                await asyncio.to_thread(self._own.rescale, scale.nodes)
        except ClusterError as error:
            _log.error("%s: its scale stays as it is: %s", self.name, error)
            return
        if self._replicas is not None and application == self._application:
            self._replicas = self._remote()
            _log.info(
                "%s: from %d to %d replicas", self.name, scale.min_replicas, scale.max_replicas
            )

    def defer(self) -> None:
        """Let the next request start the replicas."""
        self.reason = ""
        self._created = self._created or int(time.time())
        self._move(ServableEvent.DEFER)

    def is_outdated(self) -> bool:
        """True if files have changed since the last attempt to load. Reads files: for a thread."""
        if self.state not in (ServableState.AVAILABLE, ServableState.FAILED):
            return False
        if placed_nodes(self._scale) != self._nodes:
            return True
        return self.local.fingerprint() != self._fingerprint

    async def _look(self) -> str:
        return await in_file_thread(f'the files of "{self.name}"', self.local.fingerprint)

    async def retire(self) -> None:
        """Refuse new requests, wait for requests in flight, end the replicas."""
        if self.state in (ServableState.UNLOADING, ServableState.END):
            return
        self._move(ServableEvent.RETIRE)
        if self._rescaling is not None:
            await asyncio.wait({self._rescaling})
        await self._users.close()
        await self._end()
        self._move(ServableEvent.UNLOADED)

    async def _end(self) -> None:
        application, self._application = self._application, ""
        own, self._own = self._own, None
        self._replicas = self._described = None
        self._own_replicas = []
        if application:
            await asyncio.to_thread(self._end_application, application, own)
        if self._has_claim:
            self._has_claim = False
            await asyncio.to_thread(self._cluster.release, self.name)

    def _end_application(self, application: str, own: OwnDeployments | None) -> None:
        if not self._cluster.leave(application):
            return  # another front uses it
        self._cluster.delete(application)
        if own is not None:
            own.drop()

    def _move(self, event: ServableEvent) -> None:
        self.state = SERVABLE_TRANSITIONS[self.state, event]

    async def replica_metrics(self) -> Sequence[tuple[str, str]]:
        """Return the name and the metrics of each replica, also of replicas of nodes.

        Those that do not answer in time are left out.
        """
        replicas = [*self._own_replicas]
        if self._replicas is not None:
            replicas.append(self._replicas)
        found = await asyncio.gather(*(each.metrics() for each in replicas))
        return [metrics for each in found for metrics in each]

    # Status ---------------------------------------------------------------------------------------

    def loading(self) -> Sequence[Loading]:
        """Return how far loading is; empty if nothing is being loaded."""
        return () if self._loading is None else (self._loading,)

    def status(self, note: str = "") -> dict[str, object]:
        """Return its part of ``GET /v1/config``."""
        return {
            "model_version_status": [
                version_status(each, self.state, self.reason, "", note, self._loading)
                for each in self._versions() or (VERSION,)
            ]
        }

    def index(self) -> Sequence[IndexEntry]:
        """Return its lines of the repository's index."""
        if self._described is not None:
            return self._described.index
        number = VERSION if isinstance(self.entry, GraphEntry) else ""
        return [index_entry(self.name, number, self.state, self.reason)]

    def is_ready(self, version: str) -> bool:
        """See `servers.contract.data_plane.DataPlane.is_model_ready`."""
        if self.state is ServableState.ON_DEMAND:
            return isinstance(self.entry, ModelEntry) or version in VERSIONS
        if self._described is None:
            return False
        self._check_version(version)
        return True

    def metadata(self, version: str) -> ModelMetadata:
        """See `servers.contract.data_plane.DataPlane.metadata`."""
        self.loaded(version)
        assert self._described is not None, "it is loaded"
        number = "" if version == "0" else version
        return self._described.metadata[number]

    def read_shown(self) -> ShownGraph:
        """Read the files of the graph for its drawing; see `GraphDefinition.read_shown`."""
        if isinstance(self.local, ModelDefinition):
            raise NotFoundError(f'There is no graph "{self.name}"')
        return self.local.read_shown()

    # Answering ------------------------------------------------------------------------------------

    def loaded(self, version: str) -> RemoteServable:
        """Return the replicas.

        Raises:
            UnavailableError: they are not running.
            NotFoundError: there is no such version.
        """
        if self._replicas is None or self.state is not ServableState.AVAILABLE:
            raise unavailable_error(f'The model "{self.name}"', self.state, self.reason)
        if not version:
            return self._replicas
        self._check_version(version)
        return self._replicas.of_version(version)

    def _versions(self) -> Sequence[str]:
        return [] if self._described is None else [e.version for e in self._described.index]

    def _check_version(self, version: str) -> None:
        if version in ("", "0") or version in self._versions():
            return
        there = ", ".join(self._versions())
        has = f"version {there}" if isinstance(self.entry, GraphEntry) else there
        raise NotFoundError(
            f'The model "{self.name}" has no version {quoted(version)}; it has {has}'
        )
