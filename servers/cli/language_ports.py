"""`LanguagePorts`: the streams of a graph that takes requests to a language model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from graph_runtime import ValidatedGraph
from servers.serving.graph_source import request_stream_of, response_stream_of

_REQUEST: Final = "REQUEST"
_DELTAS: Final = "DELTAS"


@dataclass(frozen=True, slots=True)
class LanguagePorts:
    """The streams of a graph that answers.

    Attributes:
        request: the graph input of a request.
        takes_payload: it takes a `calculators.language.HttpPayload`, not a `GenerationRequest`.
        response: the stream of the answer: of HTTP responses if it ``takes_payload``, else of
            `calculators.language.Deltas`.
        deltas: the streams of deltas that the answer is made of, or the answer itself.
        senders: of each stream of deltas in the graph, the name of the node that sends it.
    """

    request: str
    takes_payload: bool
    response: str
    deltas: tuple[str, ...]
    senders: dict[str, str]


def find_language_ports(plan: ValidatedGraph) -> LanguagePorts | None:
    """Return the ports of a graph that answers requests to a language model; None if none does.

    A graph that takes requests under the tag ``REQUEST`` and gives ``DELTAS`` comes first, then one
    from HTTP to HTTP.
    """
    senders = {
        name: node.config.name or node.name
        for node in plan.nodes
        for (tag, _), name in zip(node.outputs.keys, node.outputs.names, strict=True)
        if tag == _DELTAS
    }
    request = next((each.name for each in plan.graph_inputs if each.tag == _REQUEST), "")
    answer = next((name for name in plan.outputs.names if name in senders), "")
    if request and answer:
        return LanguagePorts(request, False, answer, (answer,), senders)
    request, answer = request_stream_of(plan), response_stream_of(plan)
    if not request or not answer:
        return None
    place = plan.producers.get(answer, len(plan.nodes))
    read: tuple[str, ...] = ()
    if place < len(plan.nodes):
        inputs = plan.nodes[place].inputs
        read = tuple(
            name for (tag, _), name in zip(inputs.keys, inputs.names, strict=True) if tag == _DELTAS
        )
    return LanguagePorts(request, True, answer, read, senders)
