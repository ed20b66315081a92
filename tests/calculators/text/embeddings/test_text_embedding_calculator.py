"""Texts in and vectors out: the node with typed packets, in a graph and over KServe."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graph_runtime import (
    REGISTRY,
    CalculatorGraph,
    ResourceSettings,
    RunError,
    make_resources,
    parse_graph_text,
    validate_graph,
)
from tests.calculators.text.embeddings.tiny_embedder import SIZE, expected, make_model
from tests.servers.cli.serving import Serving, make_site
from tests.support.patience import PATIENCE

GRAPH = """\
input_stream: "TEXT:text"
output_stream: "EMBEDDINGS:embeddings"
node {
  name: "embed"
  calculator: "TextEmbeddingCalculator"
  input_side_packet: "EMBEDDINGS_NODE_RESOURCES:embeddings"
  input_stream: "TEXT:text"
  output_stream: "EMBEDDINGS:embeddings"
  node_options {
    [type.googleapis.com/mediapipe.EmbeddingsCalculatorOVOptions] {
      models_path: "./"
      pooling: MEAN
    }
  }
}
"""
TEXTS = ["The cat sat on the mat.", "Dogs", ""]


async def run(directory: Path, *values: Any) -> list[Any]:
    """Return what the graph makes of packets with these values."""
    plan = validate_graph(parse_graph_text(GRAPH), registry=REGISTRY)
    resources = await make_resources(plan, ResourceSettings(directory), REGISTRY)
    found: list[Any] = []
    try:
        async with CalculatorGraph(validated_graph=plan) as graph:
            graph.observe_output_stream(
                "embeddings", lambda name, packet: found.append(packet.value)
            )
            await graph.start_run_async(resources.side_packets)
            for number, value in enumerate(values):
                await graph.add_packet_to_input_stream_async("text", value, number)
            graph.close_all_input_streams()
            await graph.wait_until_done_async()
    finally:
        await resources.close()
    return found


def test_a_text_and_a_list_of_texts_become_matrices(tmp_path: Path) -> None:
    make_model(tmp_path)
    values = [TEXTS[0], TEXTS[:2], [], TEXTS[:2] * 100]
    one, two, none, many = asyncio.run(asyncio.wait_for(run(tmp_path, *values), PATIENCE))
    wanted = [expected(text, "MEAN") for text in TEXTS[:2]]
    np.testing.assert_allclose(one, wanted[:1], atol=1e-4)
    np.testing.assert_allclose(two, wanted, atol=1e-4)
    np.testing.assert_allclose(many, wanted * 100, atol=1e-4)
    assert none.shape == (0, SIZE)
    assert {each.dtype for each in (one, two, none, many)} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("word " * 100, "longer than allowed"),
        (["a"] * 2049, "above the maximum 2048"),
        ("a" * 200_000, "above the maximum"),
    ],
)
def test_texts_that_the_model_cannot_take_end_the_run(
    tmp_path: Path, value: Any, words: str
) -> None:
    make_model(tmp_path)
    with pytest.raises(RunError, match=words):
        asyncio.run(asyncio.wait_for(run(tmp_path, value), PATIENCE))


def test_texts_over_kserve_are_answered_with_a_matrix(tmp_path: Path) -> None:
    make_site(tmp_path)
    make_model(tmp_path / "tiny", GRAPH)
    config = {"mediapipe_config_list": [{"name": "embedder", "base_path": "tiny"}]}
    (tmp_path / "embedder.json").write_text(json.dumps(config), encoding="utf-8")
    with Serving(tmp_path, "embedder.json").wait_until_serving() as serving:
        asked = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [2], "data": TEXTS[:2]}]}
        with serving.request("POST", "/v2/models/embedder/infer", asked) as response:
            answer = json.loads(response.read())
        (output,) = answer["outputs"]
        assert (output["name"], output["datatype"]) == ("embeddings", "FP32")
        assert output["shape"] == [2, SIZE]
        found = np.array(output["data"]).reshape(2, SIZE)
        wanted = [expected(text, "MEAN") for text in TEXTS[:2]]
        np.testing.assert_allclose(found, wanted, atol=1e-4)
        status, metadata = serving.get("/v2/models/embedder")
        assert status == 200
        assert metadata["outputs"] == [
            {"name": "embeddings", "datatype": "FP32", "shape": [-1, -1]}
        ]
