"""`Lease`: a resource that outlives a reload, because the graph before and the graph after hold it.

A graph holds a lease of each of its resources. When a changed graph is loaded, the leases of the
present one are offered as `KeptResources`; a node whose resource would be made of the same things
takes one. The last graph that lets go of a lease closes the resource.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, Self, runtime_checkable

from graph_runtime.authoring.metrics import NO_METRICS, NodeMetrics
from graph_runtime.plan.moving_metrics import MovingMetrics


@runtime_checkable
class NodeResource(Protocol):
    """A resource that an initializer has made."""

    @property
    def unavailable_reason(self) -> str:
        """The reason why the node cannot work now, in plain words; "" while it can."""

    async def close(self) -> None:
        """Release everything. Called once, when no graph uses the resource any more."""


class Identity(NamedTuple):
    """The parts of which a resource is made.

    Attributes:
        maker: the class of the initializer. A module that is imported again has another class, and
            perhaps other code.
        text: see `graph_runtime.identity_of`.
    """

    maker: type
    text: str


class Lease:
    """A resource, held by one graph or more. Belongs to one event loop.

    Attributes:
        resource: as the initializer made it.
        identity: None if no other graph may have the resource.
        metrics: of the node that has the resource; see `MovingMetrics`.
    """

    def __init__(
        self,
        resource: NodeResource,
        identity: Identity | None = None,
        metrics: MovingMetrics | None = None,
    ) -> None:
        self.resource = resource
        self.identity = identity
        self.metrics = MovingMetrics(NO_METRICS) if metrics is None else metrics
        self._holders = 1

    @property
    def can_be_kept(self) -> bool:
        """True if another graph may take the resource.

        A broken resource is not kept: the reload replaces it.
        """
        return self.identity is not None and not self.resource.unavailable_reason

    def hold(self) -> Self:
        """Hold the resource once more."""
        assert self._holders, "the resource is not closed"
        self._holders += 1
        return self

    async def let_go(self) -> None:
        """Give up one hold; the last one closes the resource."""
        self._holders -= 1
        if not self._holders:
            await self.resource.close()

    def publish_for(self, node: NodeMetrics) -> None:
        """Publish the metrics of the resource for ``node`` from now on."""
        self.metrics.move_to(node)


class KeptResources:
    """The resources of a graph, held for the graph that replaces it. Each is taken once."""

    def __init__(self, leases: Sequence[Lease] = ()) -> None:
        """Hold these leases until they are taken, or until `let_go`."""
        self._leases = [lease.hold() for lease in leases]

    def take(self, identity: Identity | None) -> Lease | None:
        """Return a lease of a resource with this identity, to be let go by the caller.

        None: there is none, or its resource does not work now.
        """
        for place, lease in enumerate(self._leases):
            if lease.can_be_kept and lease.identity == identity:
                return self._leases.pop(place)
        return None

    async def let_go(self) -> None:
        """Let go of everything that was not taken."""
        leases, self._leases = self._leases, []
        await let_go_of(leases)


async def let_go_of(leases: Sequence[Lease]) -> None:
    """Let go of these leases, in this order; a resource that cannot be closed stops no other.

    Raises:
        BaseException: the first that a resource raised.
    """
    raised: BaseException | None = None
    for lease in leases:
        try:
            await lease.let_go()
        except BaseException as error:
            raised = raised or error
    if raised is not None:
        raise raised
