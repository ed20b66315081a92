"""`TextClassificationCalculator`: classes of texts inside a graph."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from graph_runtime import (
    REGISTRY,
    CalculatorGraph,
    ResourceSettings,
    make_resources,
    parse_graph_text,
    validate_graph,
)
from tests.calculators.text.text_classification.tiny_classifier import (
    LABELS,
    logits,
    make_model,
    sigmoid,
)
from tests.support.patience import PATIENCE

GRAPH = """\
input_stream: "TEXT:text"
output_stream: "CLASSIFICATIONS:classes"
node {
  name: "mood"
  calculator: "TextClassificationCalculator"
  input_side_packet: "TEXT_CLASSIFICATION_NODE_RESOURCES:classifier"
  input_stream: "TEXT:text"
  output_stream: "CLASSIFICATIONS:classes"
  node_options {
    [type.googleapis.com/graphrt.TextClassificationCalculatorOVOptions] { models_path: "mood" }
  }
}
"""


async def classes_of(directory: Path, texts: list[str]) -> list[Any]:
    plan = validate_graph(parse_graph_text(GRAPH), registry=REGISTRY)
    resources = await make_resources(plan, ResourceSettings(directory), REGISTRY)
    found: list[Any] = []
    try:
        async with CalculatorGraph(validated_graph=plan) as graph:
            graph.observe_output_stream("classes", lambda _, packet: found.append(packet.value))
            await graph.start_run_async(resources.side_packets)
            for time, text in enumerate(texts):
                await graph.add_packet_to_input_stream_async("text", text, time)
            graph.close_all_input_streams()
            await graph.wait_until_done_async()
    finally:
        await resources.close()
    return found


def test_a_text_becomes_a_list_of_classes_the_best_first(tmp_path: Path) -> None:
    make_model(tmp_path / "mood")
    texts = ["you fool", "peace", "beware"]
    found = asyncio.run(asyncio.wait_for(classes_of(tmp_path, texts), PATIENCE))
    for text, classes in zip(texts, found, strict=True):
        scores = sigmoid(logits(text))[0]
        assert classes.DESCRIPTOR.full_name == "mediapipe.ClassificationList"
        best = sorted(range(len(LABELS)), key=lambda index: -scores[index])
        assert [each.index for each in classes.classification] == best
        assert [each.label for each in classes.classification] == [LABELS[each] for each in best]
        assert [each.score for each in classes.classification] == pytest.approx(
            [scores[each] for each in best], abs=1e-5
        )
