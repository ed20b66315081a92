"""Resources of nodes: objects that are made once per served graph and given to each of its runs.

A family of calculators registers a `ResourceInitializer` for a side packet tag, for example
``LLM_NODE_RESOURCES``. A server calls `make_resources` with the plan of a graph; the result holds
the side packets that the graph needs: per tag a mapping of node name to resource. The idea and the
rules for names are OpenVINO Model Server's (``mediapipe_internal/node_initializer.hpp``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast, runtime_checkable

from graph_runtime.authoring.metrics import NO_METRICS, GraphMetrics
from graph_runtime.errors import Code, GraphError
from graph_runtime.plan.load_progress import LoadProgress

if TYPE_CHECKING:
    from graph_runtime.plan.plan import NodePlan, ValidatedGraph

T = TypeVar("T")


class ResourceError(GraphError):
    """A node's resource cannot be made; the text says which node, what, and what would be right."""

    code = Code.FAILED_PRECONDITION


class FamilySettings:
    """Settings by their types: each family of calculators declares one, and asks for it with `of`.

    The runtime and whoever loads a graph carry them without looking inside.
    """

    def __init__(self, *settings: object) -> None:
        self._by_type = {type(each): each for each in settings}

    def of(self, kind: type[T]) -> T:
        """The settings of this very type; ``kind()``, all defaults, where none were given."""
        found: Any = self._by_type.get(kind)
        return kind() if found is None else cast(T, found)


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
        """The settings of one family, see `FamilySettings.of`."""
        return self.families.of(kind)


@runtime_checkable
class NodeResource(Protocol):
    """A resource that an initializer has made."""

    @property
    def unavailable_reason(self) -> str:
        """Why the node cannot work now, in plain words; "" while it can."""

    async def close(self) -> None:
        """Release everything. Called once, when no graph uses the resource any more."""


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
        """True if nodes of this calculator type take their resource from ``tag``."""

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
    """All resources of one graph. ``side_packets`` go to every run of it."""

    resources: tuple[NodeResource, ...] = ()
    side_packets: Mapping[str, Any] = field(default_factory=dict)

    @property
    def unavailable_reason(self) -> str:
        """The first reason why a resource cannot work now; "" while all can."""
        return next((r.unavailable_reason for r in self.resources if r.unavailable_reason), "")

    def of_node(self, name: str) -> tuple[NodeResource, ...]:
        """The resources of the node of that name, of all tags."""
        return tuple(each[name] for each in self.side_packets.values() if name in each)

    async def close(self) -> None:
        for resource in self.resources:
            await resource.close()


class InitializerSource(Protocol):
    """The part of a registry that the making of resources needs."""

    def resource_initializers(self) -> Sequence[ResourceInitializer]:
        """All resource initializers, in order of registration."""


async def make_resources(
    plan: ValidatedGraph, settings: ResourceSettings, registry: InitializerSource
) -> GraphResources:
    """Make the resources of a graph, in the order of its nodes; close those made if one fails.

    Raises:
        ResourceError: a node without a name, a name used twice, or an initializer's own.
    """
    made: list[NodeResource] = []
    # Making one can take minutes, so the names of all are checked first.
    wanted, side_packets = _wanted(plan, registry)
    taken: set[tuple[str, str]] = set()
    for _, node, names in wanted:
        _check_name(node, names, taken)
    parts = settings.progress.split(*(1.0 for _ in wanted)) if wanted else ()
    try:
        for (initializer, node, names), part in zip(wanted, parts, strict=True):
            resource = await initializer.make(node, replace(settings, progress=part))
            made.append(resource)
            part.finish()
            for name in names:
                side_packets[name][node.config.name] = resource
    except BaseException:
        for resource in made:
            await resource.close()
        raise
    return GraphResources(tuple(made), side_packets)


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
                found = initializer.check(node, settings)
                warnings += [(node.config.name, warning) for warning in found]
        except ResourceError as error:
            errors.append(error)
    return CheckedResources(tuple(errors), tuple(warnings), frozenset(side_packets))


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
        raise ResourceError(
            f"the {node.calculator_type} node has no name; its resource is found by the node's "
            f'name, so give it one: name: "LLMExecutor"'
        )
    wanted = {(side_packet, name) for side_packet in side_packets}
    if wanted & taken:
        raise ResourceError(
            f'two {node.calculator_type} nodes are named "{name}"; resources are found by the '
            f"node's name, so each needs its own"
        )
    taken |= wanted
