"""Graphs with nodes of authors around a fake model, run as a server runs them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from calculators.kit.requests.http_payload import NoClient
from calculators.language import HttpPayload
from graph_runtime import (
    REGISTRY,
    Calculator,
    CalculatorGraph,
    GraphError,
    Registry,
    RunError,
    parse_graph_text,
    validate_graph,
)
from graph_runtime.authoring.ports import In, ports_of
from tests.support.patience import PATIENCE

CHAT = "/v3/chat/completions"
COMPLETIONS = "/v3/completions"
RESPONSES = "/v3/responses"
MESSAGES = "/v3/messages"


@dataclass
class Told:
    """The client's view: packets, and the error of the run if it failed."""

    packets: list[str]
    error: GraphError | None = None

    @property
    def whole(self) -> dict[str, Any]:
        """Return the body of a whole answer."""
        [body] = self.packets
        value: dict[str, Any] = json.loads(body)
        return value

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the data of all events but ``[DONE]``."""
        lines = "".join(self.packets).split("\n")
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        return [json.loads(each) for each in data if each != "[DONE]"]

    @property
    def text(self) -> str:
        """Return the text of the first choice of a chat, whole or in events."""
        if not self.packets[0].startswith("data:"):
            content: str = self.whole["choices"][0]["message"]["content"]
            return content
        deltas = [event["choices"][0]["delta"] for event in self.events if event["choices"]]
        return "".join(delta.get("content") or "" for delta in deltas)


def body_of(uri: str, text: str = "Hello", **members: Any) -> dict[str, Any]:
    """Return the body of a request with a text of the user."""
    body: dict[str, Any] = {"model": "m"}
    if uri == RESPONSES:
        body["input"] = text
    elif uri == COMPLETIONS:
        body["prompt"] = text
    else:
        body["messages"] = [{"role": "user", "content": text}]
    if uri == MESSAGES:
        body["max_tokens"] = 99
    return {**body, **members}


def graph_text(nodes: Sequence[type[Calculator]], *, has_model: bool = True) -> str:
    """Return a graph: reader, nodes on the request, a model, nodes on the deltas, writer."""
    request, deltas, written = "request", "deltas", ""
    for node in nodes:
        tags = {port.tag for port in ports_of(node) if isinstance(port, In)}
        name = node.__name__
        if "DELTAS" in tags:
            ports = f'input_stream: "DELTAS:{deltas}" output_stream: "DELTAS:{name}"'
            deltas = name
        elif has_model:
            ports = f'input_stream: "REQUEST:{request}" output_stream: "REQUEST:{name}"'
            request = name
        else:
            ports = f'input_stream: "REQUEST:{request}" output_stream: "DELTAS:{deltas}"'
        written += f'node {{ name: "{name}" calculator: "{name}" {ports} }}\n'
    model = f"""
        node {{
          name: "LLMExecutor" calculator: "LLMCalculator"
          input_stream: "REQUEST:{request}" input_stream: "LOOPBACK:loopback"
          output_stream: "LOOPBACK:loopback" output_stream: "DELTAS:deltas"
          input_side_packet: "LLM_NODE_RESOURCES:llm"
        }}"""
    return f"""
        input_stream: "HTTP_REQUEST_PAYLOAD:input"
        output_stream: "HTTP_RESPONSE_PAYLOAD:output"
        node {{
          calculator: "GenerationRequestReaderCalculator"
          input_stream: "HTTP_REQUEST_PAYLOAD:input" output_stream: "REQUEST:request"
        }}
        {model if has_model else ""}
        {written}
        node {{
          calculator: "GenerationResponseWriterCalculator"
          input_stream: "DELTAS:{deltas}" output_stream: "HTTP_RESPONSE_PAYLOAD:output"
        }}"""


async def run_graph(
    uri: str,
    model: Any,
    nodes: Sequence[type[Calculator]] = (),
    body: Mapping[str, Any] | None = None,
    **members: Any,
) -> Told:
    """Answer one request by a graph with these nodes; ``model`` None: a node answers."""
    registry = Registry(REGISTRY)
    for node in nodes:
        registry.register_calculator(node)
    text = graph_text(nodes, has_model=model is not None)
    plan = validate_graph(parse_graph_text(text), registry=registry)
    graph = CalculatorGraph(validated_graph=plan)
    told = Told([])
    graph.observe_output_stream("output", lambda _, packet: told.packets.append(packet.value))
    side_packets = {} if model is None else {"llm": {"LLMExecutor": model}}
    await graph.start_run_async(side_packets)
    sent = dict(body_of(uri, **members) if body is None else body)
    payload = HttpPayload(uri, {}, b"", sent, NoClient())
    graph.add_packet_to_input_stream("input", payload, 0)
    graph.close_all_input_streams()
    try:
        async with asyncio.timeout(PATIENCE):
            await graph.wait_until_done_async()
    except RunError as error:
        told.error = cause_of(error)
    return told


def cause_of(error: RunError) -> GraphError:
    """Return the error that a node raised."""
    cause: BaseException = error.errors[0]
    while cause.__cause__ is not None:
        cause = cause.__cause__
    assert isinstance(cause, GraphError)
    return cause
