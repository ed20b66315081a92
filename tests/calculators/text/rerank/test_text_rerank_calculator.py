"""`TextRerankCalculator` in a graph: packets with texts in, packets with arrays out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calculators.kit.requests.http_payload import RequestError
from graph_runtime import (
    REGISTRY,
    CalculatorGraph,
    ResourceSettings,
    RunError,
    make_resources,
    parse_graph_text,
    validate_graph,
)
from tests.calculators.text.rerank.tiny_rerankers import (
    DOCUMENTS,
    LOGITS,
    ORDER,
    QUERY,
    make_bert,
    sigmoid,
)
from tests.support.patience import PATIENCE

GRAPH = """
input_stream: "question"
input_stream: "found"
output_stream: "scores"
output_stream: "order"
node {
  name: "ranker"
  calculator: "TextRerankCalculator"
  input_side_packet: "RERANK_NODE_RESOURCES:servables"
  input_stream: "QUERY:question"
  input_stream: "DOCUMENTS:found"
  output_stream: "SCORES:scores"
  output_stream: "ORDER:order"
  node_options {
    [type.googleapis.com/mediapipe.RerankCalculatorOVOptions] { models_path: "model" }
  }
}
"""


def run(directory: Path, packets: list[tuple[Any, Any]]) -> dict[str, list[Any]]:
    """Return the packets of each output for pairs of a question and documents."""
    make_bert(directory / "model")

    async def scenario() -> dict[str, list[Any]]:
        plan = validate_graph(parse_graph_text(GRAPH))
        resources = await make_resources(plan, ResourceSettings(directory), REGISTRY)
        seen: dict[str, list[Any]] = {"scores": [], "order": []}
        try:
            graph = CalculatorGraph(validated_graph=plan)
            for name in seen:
                graph.observe_output_stream(
                    name, lambda stream, packet: seen[stream].append(packet.value)
                )
            await graph.start_run_async(resources.side_packets)
            for timestamp, (question, documents) in enumerate(packets):
                graph.add_packet_to_input_stream("question", question, timestamp)
                graph.add_packet_to_input_stream("found", documents, timestamp)
            graph.close_all_packet_sources()
            await graph.wait_until_done_async()
        finally:
            await resources.close()
        return seen

    return asyncio.run(asyncio.wait_for(scenario(), PATIENCE))


def test_documents_are_scored_and_ordered(tmp_path: Path) -> None:
    seen = run(tmp_path, [(QUERY, list(DOCUMENTS)), ("cat", []), ("cat", ["cat"])])
    assert [each.dtype for each in seen["scores"]] == [np.float32] * 3
    np.testing.assert_allclose(seen["scores"][0], [sigmoid(each) for each in LOGITS], atol=1e-6)
    assert [each.tolist() for each in seen["order"]] == [list(ORDER), [], [0]]
    assert seen["scores"][1].shape == (0,)


def test_an_error_names_the_input(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"DOCUMENTS\[0\]") as caught:
        run(tmp_path, [("cat", ["\ud800"])])
    assert isinstance(caught.value.errors[0].__cause__, RequestError)
