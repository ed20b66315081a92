"""Graphs of several language models, run with scripted models."""

from __future__ import annotations

import asyncio
from typing import Any

from calculators.language import GenerationRequest, request_for
from calculators.language.delta import Deltas
from graph_runtime import CalculatorGraph, parse_graph_text, validate_graph
from graph_runtime.testing import Sink
from tests.support.patience import PATIENCE


def model_node(name: str, deltas: str, *requests: str, options: str = "") -> str:
    """Return the text of an LLM node that reads these streams."""
    inputs = " ".join(
        f'input_stream: "REQUEST:{place}:{stream}"' for place, stream in enumerate(requests)
    )
    return f"""
        node {{
          name: "{name}" calculator: "LLMCalculator" {inputs}
          input_stream: "LOOPBACK:{name}_loop" output_stream: "LOOPBACK:{name}_loop"
          output_stream: "DELTAS:{deltas}" input_side_packet: "LLM_NODE_RESOURCES:llm"
          node_options {{
            [type.googleapis.com/mediapipe.LLMCalculatorOptions] {{ models_path: "./" {options} }}
          }}
        }}
    """


async def run_requests(
    text: str,
    models: dict[str, Any],
    *requests: GenerationRequest,
    sides: dict[str, Any] | None = None,
) -> list[Deltas]:
    """Run a graph once with these requests on ``request``; return the packets of ``answer``."""
    ends = 'input_stream: "REQUEST:request" output_stream: "DELTAS:answer"'
    plan = validate_graph(parse_graph_text(f"{ends} {text}"))
    graph = CalculatorGraph(validated_graph=plan)
    sink = Sink(graph, "answer")
    await graph.start_run_async({"llm": models, **(sides or {})})
    for time, request in enumerate(requests or (request_for("Hello"),)):
        graph.add_packet_to_input_stream("request", request, time)
    graph.close_all_input_streams()
    async with asyncio.timeout(PATIENCE):
        await graph.wait_until_done_async()
    return sink.values
