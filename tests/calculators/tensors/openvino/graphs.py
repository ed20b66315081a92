"""Graphs with a session and an inference node, and their runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import calculators.tensors.openvino
from calculators.tensors.openvino.directory_models import MODELS, ModelProvider
from graph_runtime import REGISTRY, CalculatorGraph, Registry
from graph_runtime.testing import Sink

Feed = Sequence[tuple[str, Any, int]]

SESSION = """
node {
  calculator: "OpenVINOModelServerSessionCalculator"
  output_side_packet: "SESSION:session"
  node_options: {
    [type.googleapis.com / mediapipe.OpenVINOModelServerSessionCalculatorOptions]: {
      servable_name: "%s"
    }
  }
}
"""


def registry() -> Registry:
    made = Registry(REGISTRY)
    calculators.tensors.openvino.register(made)
    return made


def session_and_inference(
    model: str, inputs: Sequence[str], outputs: Sequence[str], options: str = ""
) -> str:
    """Return a graph whose streams are those of its inference node, written ``TAG:name``."""
    ends = [("input_stream", entry) for entry in inputs]
    ends += [("output_stream", entry) for entry in outputs]
    return "\n".join(
        [
            *(f'{end}: "{entry.rpartition(":")[2]}"' for end, entry in ends),
            SESSION % model,
            "node {",
            '  calculator: "OpenVINOInferenceCalculator"',
            '  input_side_packet: "SESSION:session"',
            *(f'  {end}: "{entry}"' for end, entry in ends),
            "  node_options {",
            "    [type.googleapis.com/mediapipe.OpenVINOInferenceCalculatorOptions] {",
            f"      {options}",
            "    }",
            "  }",
            "}",
        ]
    )


def tensor_names(field: str, **names: str) -> str:
    """Return a map option."""
    return " ".join(f'{field} {{ key: "{key}" value: "{names[key]}" }}' for key in names)


def run(
    text: str, feed: Feed, models: ModelProvider | None, *, on_loop: bool = False
) -> dict[str, list[Any]]:
    """Return the values of each graph output after a whole run, with or without an event loop.

    Without ``models`` the graph finds them itself.
    """
    graph = CalculatorGraph(text_config=text, registry=registry())
    if models is not None:
        graph.set_service_object(MODELS, models)
    sinks = {name: Sink(graph, name) for name in graph.plan.outputs.names}
    if on_loop:
        asyncio.run(_run_async(graph, feed))
    else:
        graph.start_run()
        for stream, value, time in feed:
            graph.add_packet_to_input_stream(stream, value, time)
        graph.close_all_packet_sources()
        graph.wait_until_done()
    return {name: sink.values for name, sink in sinks.items()}


async def _run_async(graph: CalculatorGraph, feed: Feed) -> None:
    await graph.start_run_async()
    for stream, value, time in feed:
        await graph.add_packet_to_input_stream_async(stream, value, time)
    graph.close_all_packet_sources()
    await graph.wait_until_done_async()
