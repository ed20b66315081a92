"""Nodes with replicas of their own: requests of a graph's replica, applications of its front.

The replica that loads a graph knows the model of a node; the front decides about applications. So
the replica leaves a `NodeWork` in the cluster's table, the front answers with an application that
does it, and the replica asks that one. Graphs whose nodes have equal orders share an application.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from calculators.kit.model_initializer import model_identity
from calculators.kit.places import Asked, Place, Places, WorkOrder
from calculators.kit.requests.request_record import current_record
from graph_runtime import LoadProgress, ResourceError, RunError
from servers import version
from servers.config.entries import Scale
from servers.replicas.cluster import ClusterError, ClusterStore, RayCluster, Target
from servers.replicas.remote_servable import RemoteReplicas, RemoteRequest
from servers.replicas.routing_table import RoutedCall, blocks_of
from servers.replicas.wire import Origin, Packet

_log: Final = logging.getLogger(__name__)

#: Seconds between two queries for the answer of the front.
_POLL_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A node with replicas of its own, as a replica of its graph knows it."""

    name: str
    max_ongoing: int
    max_queued: int


@dataclass(frozen=True, slots=True)
class NodeWork:
    """The work of a node as its replicas load it.

    Attributes:
        search_path: see `servers.replicas.replica.ReplicaWork`.
    """

    order: WorkOrder
    search_path: str


_encode: Final = msgspec.msgpack.Encoder().encode
_decoder: Final = msgspec.msgpack.Decoder(NodeWork)


# In a replica of the graph ------------------------------------------------------------------------


class OwnPlaces:
    """The places of a graph's nodes, in a replica of the graph. Belongs to one event loop."""

    def __init__(self, application: str, nodes: tuple[PlacedNode, ...], search_path: str) -> None:
        """``application``: the graph's own."""
        self._application = application
        self._nodes = {each.name: each for each in nodes}
        self._search_path = search_path
        self._cluster: RayCluster | None = None
        self._asked: set[str] = set()

    @property
    def places(self) -> Places:
        """The places of the graph's nodes, for the makers of their resources."""
        return Places(self._of_node)

    @property
    def unknown(self) -> str:
        """The reason why a node that config.json names has no place; "" if every one has."""
        unknown = sorted(self._nodes.keys() - self._asked)
        if not unknown:
            return ""
        return (
            f'scale: nodes: the graph has no node "{unknown[0]}" that can have replicas of its '
            f"own; language models, encoder models, retrieval, models that hear or speak, and "
            f"sessions with plain models can"
        )

    def _of_node(self, name: str) -> Place | None:
        node = self._nodes.get(name)
        if node is None:
            return None
        self._asked.add(name)
        self._cluster = self._cluster or RayCluster(is_inside=True)
        return _OwnPlace(self, self._cluster, node)

    async def application_of(self, cluster: RayCluster, node: str, order: WorkOrder) -> str:
        """Ask the front for an application; return its name."""
        work = NodeWork(order, self._search_path)
        key = f"{self._application}:{node}"
        store = cluster.store
        # The replica asks and the front starts: only what loads a graph knows its nodes' models,
        # and only the front ends things (decision 0076).
        await asyncio.to_thread(store.put, f"need:{key}", _encode(work))
        while True:
            found = await asyncio.to_thread(store.get, f"place:{key}")
            if found is not None:
                return found.decode()
            await asyncio.sleep(_POLL_SECONDS)


class _OwnPlace:
    """A `calculators.kit.places.Place`."""

    def __init__(self, owner: OwnPlaces, cluster: RayCluster, node: PlacedNode) -> None:
        self._owner = owner
        self._cluster = cluster
        self._node = node
        self._replicas: RemoteReplicas | None = None

    async def start(self, order: WorkOrder, progress: LoadProgress) -> bytes:
        """See `Place.start`."""
        node, cluster = self._node, self._cluster
        progress.begin("waiting for a replica of the node", 0.0)
        application = await self._owner.application_of(cluster, node.name, order)
        try:
            await cluster.wait_until_running(application, lambda text: progress.begin(text, 0.0))
        except ClusterError as error:
            raise ResourceError(str(error)) from None
        self._replicas = RemoteReplicas(
            order.name, cluster, application, node.max_ongoing, node.max_queued
        )
        ready: bytes = await self._replicas.call("describe", "")
        return ready

    def ask(self, body: bytes, *, beginning: str, tokens: float) -> Asked:
        """See `Place.ask`."""
        assert self._replicas is not None, "it is started"
        return _NodeQuestion(self._replicas, body, RoutedCall(blocks_of(beginning), tokens))

    async def close(self) -> None:
        """Do nothing: the front ends the applications that no graph uses."""


class _AlwaysReading:
    """The `ClientConnection` of a node: it takes all that comes, and leaves by cancellation."""

    is_disconnected = False
    is_writable = True

    def on_disconnect(self, callback: Callable[[], None]) -> None: ...

    async def writable(self) -> None: ...


class _NodeQuestion:
    """A `calculators.kit.places.Asked`."""

    def __init__(self, replicas: RemoteReplicas, body: bytes, routed: RoutedCall) -> None:
        self._body = body
        self._replicas = replicas
        self._origin = Origin.of(current_record())
        # Without the record: what it is for happens in the graph.
        self._request = RemoteRequest(replicas, _AlwaysReading(), None, routed)
        self._noting: set[asyncio.Task[None]] = set()

    async def answer(self, take: Callable[[bytes], None]) -> None:
        """See `Asked.answer`."""

        def take_packet(packet: Packet) -> None:
            assert isinstance(packet, bytes), "a replica of a node sends bytes"
            take(packet)

        try:
            await self._request.run("answer", (self._body, self._origin), take_packet)
        except RunError as error:
            # The loss of a replica counts as an error of a run; here it is one of a node's part.
            raise error.errors[0] from None

    def note(self, note: bytes) -> None:
        """See `Asked.note`."""
        task = asyncio.create_task(self._note(note))
        self._noting.add(task)
        task.add_done_callback(self._noting.discard)

    async def _note(self, note: bytes) -> None:
        await self._request.has_begun.wait()
        try:
            await self._replicas.call("note", self._request.key, note)
        except Exception as error:
            if not self._replicas.is_loss(error):
                _log.exception("a note to a node's replica failed")


# In the front -------------------------------------------------------------------------------------


class OwnDeployments:
    """The applications of a graph's nodes, in its front."""

    def __init__(self, cluster: RayCluster, application: str, target: Callable[[NodeWork], Target]):
        """``application``: the graph's own; ``target``: makes what runs in the replicas."""
        self._cluster = cluster
        self._store: ClusterStore = cluster.store
        self._application = application
        self._target = target
        #: The applications by the names of the nodes.
        self.running: dict[str, str] = {}

    def meet(self, scales: Mapping[str, Scale]) -> None:
        """Start what replicas of the graph have asked for. Blocks: for a thread.

        Raises:
            ClusterError: no node of the cluster has what a replica needs.
        """
        needs = self._store.items(f"need:{self._application}:")
        for node in needs.keys() - self.running.keys():
            if node in scales:
                self.running[node] = self._met(node, _decoder.decode(needs[node]), scales[node])

    def _met(self, node: str, work: NodeWork, scale: Scale) -> str:
        key = f"place:{self._application}:{node}"
        known = self._store.get(key)
        # Another front, or one before this one, may have started it.
        if known is not None and self._cluster.is_there(known.decode()):
            return known.decode()
        order = work.order
        identity = model_identity(order, paths=tuple(map(Path, order.paths))) or self._application
        # By work and files, so that equal nodes of several graphs share an application (decision
        # 0076).
        digest = hashlib.sha256(repr((version(), identity, work)).encode()).hexdigest()
        application = self._cluster.application_of(f"own-{order.name}", digest)
        # First, so that nobody ends it who sees no user.
        self._store.put(key, application.encode())
        try:
            self._cluster.check_room(scale)
            if not self._cluster.is_there(application):
                _log.info('starting replicas for the node "%s": %s', node, application)
                self._cluster.deploy(application, self._target(work), scale, scale.first_replicas)
        except BaseException:
            self._store.delete(key)
            raise
        return application

    def rescale(self, scales: Mapping[str, Scale]) -> None:
        """Change the numbers of replicas. Blocks: for a thread.

        Raises:
            ClusterError: no node of the cluster has what a replica needs.
        """
        needs = self._store.items(f"need:{self._application}:")
        for node, application in self.running.items():
            if node in scales and node in needs:
                scale = scales[node]
                self._cluster.check_room(scale)
                target = self._target(_decoder.decode(needs[node]))
                self._cluster.deploy(application, target, scale, scale.first_replicas)

    def drop(self) -> None:
        """Forget the graph's nodes, and end the applications that no other graph uses."""
        for key in self._store.keys(f"need:{self._application}:"):
            self._store.delete(key)
        mine = self._store.items(f"place:{self._application}:")
        for node in mine:
            self._store.delete(f"place:{self._application}:{node}")
        used = set(self._store.items("place:").values())
        for application in set(mine.values()) - used:
            self._cluster.delete(application.decode())
        self.running = {}


def placed_nodes(scale: Scale) -> tuple[PlacedNode, ...]:
    """Return the nodes that have replicas of their own."""
    return tuple(
        PlacedNode(name, each.max_ongoing_requests, each.max_queued_requests)
        for name, each in sorted(scale.nodes.items())
    )
