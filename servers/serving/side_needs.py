"""`SideNeeds`: the input side packets that a graph needs from each request."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from graph_runtime import ResourceError, ValidatedGraph
from graph_runtime.authoring.packet_type import PacketType

if TYPE_CHECKING:
    from calculators.tensors.inference import Parameter

_RESOURCES: Final = "_NODE_RESOURCES"
_EXAMPLES: Final[tuple[Parameter, ...]] = ("", 0, True, 0.0)


class SideNeeds:
    """The side packets of a graph that nothing else supplies.

    Attributes:
        supplied: the names of side packets from other sources.
        types: the others, and their types.
        needed: the names that every request must give.
        impossible: the needed names whose types no parameter has.
    """

    def __init__(self, plan: ValidatedGraph, supplied: Collection[str]) -> None:
        self.supplied = frozenset(supplied)
        self.types: dict[str, PacketType] = {}
        needed = []
        for name, (kind, is_optional) in plan.side_packet_types.items():
            if name not in self.supplied:
                self.types[name] = kind
                if not is_optional:
                    needed.append(name)
        resources = _names_of_resources(plan)
        self.needed = tuple(needed)
        self.impossible = tuple(
            name
            for name in needed
            if name in resources or not any(map(self.types[name].accepts, _EXAMPLES))
        )

    def check(self, *, takes_http: bool) -> None:
        """Check that every side packet has a source.

        Raises:
            ResourceError: a side packet is neither a resource nor of a type that a parameter of a
                request can have, or the graph takes HTTP requests, which have no such parameters.
        """
        missing = self.needed if takes_http else self.impossible
        if missing:
            names = ", ".join(f'"{name}"' for name in missing)
            raise ResourceError(
                f"the graph needs the input side packet {names}, and nothing provides it: a server "
                f"supplies the resources of nodes, by tags such as LLM_NODE_RESOURCES; the "
                f"parameters of a KServe request provide strings, numbers and booleans"
            )


def _names_of_resources(plan: ValidatedGraph) -> set[str]:
    return {
        side.name
        for node in plan.nodes
        for (tag, _), side in zip(node.input_side_packets, node.side_input_plans, strict=True)
        if tag.endswith(_RESOURCES)
    }
