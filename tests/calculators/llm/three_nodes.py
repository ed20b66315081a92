"""Graphs with the three nodes of a language model, and runs of them with scripted models."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from calculators.kit.requests.http_payload import HttpPayload, NoClient
from graph_runtime import CalculatorGraph, Registry, RunError, parse_graph_text, validate_graph
from tests.calculators.llm.graph_runs import cause_of
from tests.calculators.llm.graph_texts import QUICKSTART
from tests.support.conditions import soon

_PORTS = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
"""
_READER = """\
node {
  calculator: "GenerationRequestReaderCalculator"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "REQUEST:request"
}
"""
_MODEL = """\
node {
  name: "LLMExecutor"
  calculator: "LLMCalculator"
  input_stream: "REQUEST:request"
  input_stream: "LOOPBACK:loopback"
  output_stream: "LOOPBACK:loopback"
  output_stream: "DELTAS:deltas"
  input_side_packet: "LLM_NODE_RESOURCES:llm"
  node_options { [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./" } }
}
"""
_WRITER = """\
node {
  calculator: "GenerationResponseWriterCalculator"
  input_stream: "DELTAS:deltas"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""

ONE_NODE = QUICKSTART
THREE_NODES = _PORTS + _READER + _MODEL + _WRITER


def with_node(calculator: str, stream: str = "deltas", options: str = "") -> str:
    """Return the graph of three nodes with one more, on the deltas or on the request."""
    tag = {"deltas": "DELTAS", "request": "REQUEST"}[stream]
    node = (
        f'node {{ name: "between" calculator: "{calculator}" input_stream: "{tag}:{stream}" '
        f'output_stream: "{tag}:changed" {options} }}\n'
    )
    if stream == "deltas":
        return _PORTS + _READER + _MODEL + node + _WRITER.replace(":deltas", ":changed")
    return _PORTS + _READER + node + _MODEL.replace(":request", ":changed") + _WRITER


async def answer(
    text: str,
    model: Any,
    uri: str,
    body: Mapping[str, Any],
    *,
    registry: Registry | None = None,
    client: Any = None,
    record: Any = None,
) -> list[str]:
    """Run a graph once; return the packets of the answer.

    Raises:
        GraphError: the error that a client gets before anything is sent.
    """
    packets: list[str] = []
    error = await run_into(
        packets, text, model, uri, body, registry=registry, client=client, record=record
    )
    if error is not None:
        raise error
    return packets


async def run_into(
    packets: list[str],
    text: str,
    model: Any,
    uri: str,
    body: Mapping[str, Any],
    *,
    registry: Registry | None = None,
    client: Any = None,
    record: Any = None,
) -> Exception | None:
    """Run a graph once and put the packets into a list; return the error of the run."""
    options: dict[str, Any] = {} if registry is None else {"registry": registry}
    graph = CalculatorGraph(validated_graph=validate_graph(parse_graph_text(text), **options))
    graph.observe_output_stream("output", lambda _, packet: packets.append(packet.value))
    models = model if isinstance(model, dict) else {"LLMExecutor": model}
    await graph.start_run_async({"llm": models})
    payload = HttpPayload(uri, {}, b"", dict(body), client or NoClient(), record)
    graph.add_packet_to_input_stream("input", payload, 0)
    graph.close_all_input_streams()
    try:
        await soon(graph.wait_until_done_async())
    except RunError as error:
        return cause_of(error)
    return None


def comparable(text: str) -> str:
    """Return the text of an answer without what differs from run to run."""
    text = re.sub(r"(chatcmpl-|cmpl-|resp_|msg_|rs_|fc_)[0-9a-f]{32}", r"\1ID", text)
    return re.sub(r'"(created|created_at|completed_at)":\d+', r'"\1":0', text)
