"""Streams of HTTP requests and answers, by their types, else by their tags."""

from __future__ import annotations

from typing import Any, Final

from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import HttpPayload
from graph_runtime import ValidatedGraph
from graph_runtime.authoring.packet_type import PacketType

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
