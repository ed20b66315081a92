"""Resources of nodes: objects that are made once per served graph and given to each of its runs.

A family of calculators registers a `ResourceInitializer` for a side packet tag, for example
``LLM_NODE_RESOURCES``. A server calls `make_resources` with the plan of a graph; the result holds
the side packets that the graph needs: per tag a mapping of node name to resource. The idea and the
rules for names are OpenVINO Model Server's (``mediapipe_internal/node_initializer.hpp``).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from graph_runtime.authoring.metrics import NO_METRICS, GraphMetrics
from graph_runtime.errors import GraphError, ResourceError, reason_of
from graph_runtime.plan.identity import identity_of
from graph_runtime.plan.leases import Identity, KeptResources, Lease, NodeResource, let_go_of
from graph_runtime.plan.load_progress import LoadProgress
from graph_runtime.plan.moving_metrics import MovingMetrics
from graphrt_base.interrupts import is_being_cancelled, raise_interrupt

if TYPE_CHECKING:
    from graph_runtime.plan.plan import NodePlan, ValidatedGraph

T = TypeVar("T")


class FamilySettings:
    """Settings by their types: each family of calculators declares one, and asks for it with `of`.

    The runtime and the loaders of graphs pass them on without looking inside.
    """

    def __init__(self, *settings: object) -> None:
        self._by_type = {type(each): each for each in settings}

    def of(self, kind: type[T]) -> T:
        """The settings of this very type; ``kind()``, all defaults, where none were given."""
        found: Any = self._by_type.get(kind)
        return kind() if found is None else cast(T, found)

    def with_settings(self, *settings: object) -> FamilySettings:
        """Return these settings and further ones."""
        return FamilySettings(*self._by_type.values(), *settings)

    def __repr__(self) -> str:
        return f"FamilySettings({', '.join(map(repr, self._by_type.values()))})"


@dataclass(frozen=True, slots=True)
class ResourceSettings:
    """Settings for all resources of a graph, the server's among them.

    Attributes:
        directory: of the graph; relative paths in options start here.
        cache_dir: where compiled models may be kept; "" is nowhere.
        cache_bytes: the most bytes that may be kept there; 0: no bound.
        model_name: under which the graph is served, for messages and logs.
        metrics: of the graph; what is counted there outlives the resource.
        families: what the operator set for each family of calculators.
        progress: where an initializer reports how far its loading is.
    """

    directory: Path
    cache_dir: str = ""
    cache_bytes: int = 0
    model_name: str = ""
    metrics: GraphMetrics = NO_METRICS
    families: FamilySettings = field(default_factory=FamilySettings)
    progress: LoadProgress = field(default_factory=LoadProgress)

    def of(self, kind: type[T]) -> T:
        """Return the settings of one family, see `FamilySettings.of`."""
        return self.families.of(kind)


class ResourceInitializer(Protocol):
    """Makes the resources of one family's nodes.

    Attributes:
        tag: the input side packet tag that the nodes take their resource from.
        context_tags: further tags whose side packets are supplied, empty, because graphs written
            for other servers name them.
    """

    tag: str
    context_tags: Sequence[str]

    def matches(self, calculator: str) -> bool:
        """Return True if nodes of this calculator type take their resource from ``tag``."""

    async def make(self, node: NodePlan, settings: ResourceSettings) -> NodeResource:
        """Make the resource of a node, ready for use.

        Raises:
            ResourceError: it cannot be made.
        """


@runtime_checkable
class CheckingInitializer(Protocol):
    """A `ResourceInitializer` that can find the errors of a node without making its resource."""

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        """Check the node's options and the files that they name; returns warnings.

        Raises:
            ResourceError: `ResourceInitializer.make` would fail.
        """


@runtime_checkable
class SharingInitializer(Protocol):
    """A `ResourceInitializer` whose resources may outlive a reload of their graph.

    An edited graph then takes the resource of the graph that it replaces, instead of a second one
    beside it. Without these methods every reload makes a new resource.
    """

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """Return what the node's resource is made of: all options and files that `make` reads.

        `graph_runtime.identity_of` makes it. Options that `adopt` applies do not belong to it, nor
        does the name of the node. None: the resource is never shared. Called in a thread, before
        and after `make`; a resource whose files have changed meanwhile is not shared.

        Raises:
            ResourceError: `make` would fail.
        """

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> NodeResource:
        """Return what the node gets where ``resource`` has its identity.

        The result is ``resource`` itself, or a thin object around its contents, with the options
        of the node that are not part of the identity. Requests of another graph may be using
        ``resource``. The runtime closes ``resource``, and never the result.

        Raises:
            ResourceError: the node cannot have it; ``resource`` stays as it is.
        """


@dataclass(frozen=True, slots=True)
class CheckedResources:
    """The findings about a graph's resources before they are made.

    Attributes:
        errors: reasons why a resource could not be made, in the order of the nodes.
        warnings: (node name, text) of each.
        side_packets: names of the side packets that would be supplied.
    """

    errors: tuple[ResourceError, ...]
    warnings: tuple[tuple[str, str], ...]
    side_packets: frozenset[str]


@dataclass(frozen=True, slots=True)
class GraphResources:
    """All resources of one graph. ``side_packets`` go to every run of it.

    Attributes:
        resources: what the nodes get.
        leases: what is closed when no graph holds it any more, with the name of the node.
    """

    resources: tuple[NodeResource, ...] = ()
    side_packets: Mapping[str, Any] = field(default_factory=dict)
    leases: tuple[tuple[str, Lease], ...] = ()

    @property
    def unavailable_reason(self) -> str:
        """The first reason why a resource cannot work now; "" while all can."""
        return next((r.unavailable_reason for r in self.resources if r.unavailable_reason), "")

    def of_node(self, name: str) -> tuple[NodeResource, ...]:
        """Return the resources of the node of that name, of all tags."""
        return tuple(each[name] for each in self.side_packets.values() if name in each)

    def keep(self) -> KeptResources:
        """Hold the resources for the graph that replaces this one."""
        return KeptResources([lease for _, lease in self.leases])

    def publish(self, metrics: GraphMetrics) -> None:
        """Publish the metrics of resources that other graphs had for the nodes that have them now.

        Called when the graph replaces the other, so that a graph that fails to load changes none.
        """
        for name, lease in self.leases:
            lease.publish_for(metrics.of_node(name))

    async def close(self) -> None:
        """Let go of the resources. Those that no other graph holds are closed."""
        await let_go_of([lease for _, lease in self.leases])


class InitializerSource(Protocol):
    """The part of a registry that the making of resources needs."""

    def resource_initializers(self) -> Sequence[ResourceInitializer]:
        """Return all resource initializers, in order of registration."""


async def make_resources(
    plan: ValidatedGraph,
    settings: ResourceSettings,
    registry: InitializerSource,
    kept: KeptResources | None = None,
) -> GraphResources:
    """Make the resources of a graph, in the order of its nodes; close those made if one fails.

    Args:
        kept: resources of the graph that this one replaces. Nodes take those with their identity;
            the others are let go before anything is made.

    Raises:
        ResourceError: a node without a name, a name used twice, or an initializer's own.
    """
    # Making one can take minutes, so the names of all are checked first.
    wanted, side_packets = _wanted(plan, registry)
    taken: set[tuple[str, str]] = set()
    for _, node, names in wanted:
        _check_name(node, names, taken)
    parts = settings.progress.split(*(1.0 for _ in wanted)) if wanted else ()
    identities = [await _identity(initializer, node, settings) for initializer, node, _ in wanted]
    kept = kept or KeptResources()
    leases = [kept.take(identity) for identity in identities]
    resources: list[NodeResource] = []
    try:
        await kept.let_go()
        for place, ((initializer, node, names), part) in enumerate(zip(wanted, parts, strict=True)):
            lease = leases[place]
            if lease is None:
                lease = leases[place] = await _make_resource(
                    initializer, node, replace(settings, progress=part), identities[place]
                )
                resource = lease.resource
            else:
                assert isinstance(initializer, SharingInitializer), "it gave the identity"
                with _of_author(node):
                    resource = await initializer.adopt(lease.resource, node, settings)
            resources.append(resource)
            part.finish()
            for name in names:
                side_packets[name][node.config.name] = resource
    except BaseException:
        await let_go_of([lease for lease in leases if lease is not None])
        raise
    named = zip((node.config.name for _, node, _ in wanted), leases, strict=True)
    return GraphResources(
        tuple(resources),
        side_packets,
        tuple((name, lease) for name, lease in named if lease is not None),
    )


async def _identity(
    initializer: ResourceInitializer, node: NodePlan, settings: ResourceSettings
) -> Identity | None:
    """Return the identity of a node's resource, unique over all initializers."""
    if not isinstance(initializer, SharingInitializer):
        return None
    with _of_author(node):
        found = await asyncio.to_thread(initializer.identity, node, settings)
    if found is None:
        return None
    known = (settings.directory, settings.cache_dir, settings.cache_bytes, settings.model_name)
    text = identity_of(initializer.tag, found, *known, settings.families)
    return Identity(type(initializer), text)


async def _make_resource(
    initializer: ResourceInitializer,
    node: NodePlan,
    settings: ResourceSettings,
    identity: Identity | None,
) -> Lease:
    """Make a resource, and the lease that the graph holds of it."""
    if identity is None:
        with _of_author(node):
            return Lease(await initializer.make(node, settings))
    metrics = MovingMetrics(settings.metrics.of_node(node.config.name))
    with _of_author(node):
        resource = await initializer.make(node, replace(settings, metrics=metrics))
    try:
        is_same = await _identity(initializer, node, settings) == identity
    except ResourceError:  # its files are gone
        is_same = False
    except BaseException:
        await resource.close()
        raise
    return Lease(resource, identity if is_same else None, metrics)


def check_resources(
    plan: ValidatedGraph, settings: ResourceSettings, registry: InitializerSource
) -> CheckedResources:
    """Find the errors of `make_resources` that show without making any resource."""
    wanted, side_packets = _wanted(plan, registry)
    taken: set[tuple[str, str]] = set()
    errors: list[ResourceError] = []
    warnings: list[tuple[str, str]] = []
    for initializer, node, names in wanted:
        try:
            _check_name(node, names, taken)
            if isinstance(initializer, CheckingInitializer):
                with _of_author(node):
                    found = initializer.check(node, settings)
                warnings += [(node.config.name, warning) for warning in found]
        except ResourceError as error:
            errors.append(error)
    return CheckedResources(tuple(errors), tuple(warnings), frozenset(side_packets))


@contextmanager
def _of_author(node: NodePlan) -> Iterator[None]:
    """Make an exception that is not a GraphError, whatever its type, one with the node's name.

    Raises:
        ResourceError: there was such an exception, which is its cause.
    """
    try:
        yield
    except GraphError:
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
            raise
        raise_interrupt(error)
        raise ResourceError(f'node "{node.config.name}": {reason_of(error)}') from error


_Wanted: TypeAlias = list[tuple[ResourceInitializer, "NodePlan", list[str]]]


def _wanted(
    plan: ValidatedGraph, registry: InitializerSource
) -> tuple[_Wanted, dict[str, dict[str, NodeResource]]]:
    """Each initializer with its node and side packet names; and the side packets, still empty."""
    side_packets: dict[str, dict[str, NodeResource]] = {}
    wanted: _Wanted = []
    for initializer in registry.resource_initializers():
        for node in plan.nodes:
            _supply(node, initializer.context_tags, side_packets)
            if initializer.matches(node.calculator_type):
                names = _supply(node, (initializer.tag,), side_packets)
                wanted.append((initializer, node, names))
    return wanted, side_packets


def _supply(
    node: NodePlan, tags: Sequence[str], side_packets: dict[str, dict[str, NodeResource]]
) -> list[str]:
    """Add the node's side packets of these tags, and return their names."""
    names = [
        plan.name
        for (tag, _), plan in zip(node.input_side_packets, node.side_input_plans, strict=True)
        if tag in tags and plan.producer is None
    ]
    for name in names:
        side_packets.setdefault(name, {})
    return names


def _check_name(node: NodePlan, side_packets: list[str], taken: set[tuple[str, str]]) -> None:
    """Refuse a node without a name, or with one in ``taken``: (side packet, node name) pairs."""
    name = node.config.name
    if not name:
        example = node.calculator_type.removeprefix("Http").removesuffix("Calculator")
        raise ResourceError(
            f"the {node.calculator_type} node has no name; its resource is found by the node's "
            f'name, so give it one: name: "{example}"'
        )
    wanted = {(side_packet, name) for side_packet in side_packets}
    if wanted & taken:
        raise ResourceError(
            f'two {node.calculator_type} nodes are named "{name}"; resources are found by the '
            f"node's name, so each needs its own"
        )
    taken |= wanted
