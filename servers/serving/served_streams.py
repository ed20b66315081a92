"""Inputs of a served graph, read from its plan alone: HTTP requests or tensors, side packets.

Streams of HTTP requests and answers are known by their types, else by their tags. Checks of graphs
read this too, so it imports no NumPy.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import ResourceError, ValidatedGraph
from graph_runtime.authoring.packet_type import PacketType

if TYPE_CHECKING:
    from calculators.tensors.inference import Parameter

#: Prefixes of tags of requests and of answers.
_REQUESTS: Final = ("HTTP_REQUEST_PAYLOAD", "REQUEST_PAYLOAD")


ANSWERS: Final = ("HTTP_RESPONSE_PAYLOAD", "RESPONSE_PAYLOAD")


_ANSWER_TYPES: Final = {str, bytes, HttpAnswer}


def types_of(packet_type: PacketType) -> tuple[Any, ...]:
    """Return the types that a port declares; empty if it takes any."""
    root = packet_type.root()
    return () if root.is_any or root.is_none else root.types


def is_http_request(tag: str, packet_type: PacketType) -> bool:
    """Return whether an input of a graph takes HTTP requests, not tensors."""
    types = types_of(packet_type)
    return types == (HttpPayload,) if types else tag.startswith(_REQUESTS)


def type_of_output(plan: ValidatedGraph, stream: str) -> PacketType:
    """Return the type of an output of a graph, as its node or the graph's input declares it."""
    producer = plan.producers[stream]
    if producer >= len(plan.nodes):
        return plan.graph_inputs[producer - len(plan.nodes)].packet_type
    node = plan.nodes[producer]
    return node.output_types[node.outputs.names.index(stream)]


def is_only_http(plan: ValidatedGraph) -> bool:
    """Return whether all streams of a graph are HTTP requests and answers: it takes no tensors."""
    outputs = zip(plan.outputs.keys, plan.outputs.names, strict=True)
    return (
        bool(plan.graph_inputs)
        and all(is_http_request(each.tag, each.packet_type) for each in plan.graph_inputs)
        and all(_is_answer(tag, type_of_output(plan, name)) for (tag, _), name in outputs)
    )


def _is_answer(tag: str, packet_type: PacketType) -> bool:
    return tag.startswith(ANSWERS) and _ANSWER_TYPES.issuperset(types_of(packet_type))


#: The tag of the port of nodes that name a model.
_SESSION: Final = "SESSION"


def has_sessions(plan: ValidatedGraph) -> bool:
    """Return whether nodes of a graph make sessions with models of tensors."""
    return any(_SESSION in node.output_side_packets.tags() for node in plan.nodes)


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
