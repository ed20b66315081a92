"""Tensors are taken apart along their first axis, and put together in their order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_runtime import CalculatorGraph, GraphError, RunError, parse_graph_text
from graph_runtime.testing import Sink
from tests.calculators.tensors.openvino.graphs import registry

BOTH = """
input_stream: "faces"
input_stream: "scores"
output_stream: "all_faces"
output_stream: "all_scores"
node {
  calculator: "DemultiplyTensorsCalculator"
  input_stream: "TENSOR:0:faces"
  input_stream: "TENSOR:1:scores"
  output_stream: "TENSOR:0:face"
  output_stream: "TENSOR:1:score"
  output_stream: "BATCH_END:end"
  node_options {
    [type.googleapis.com/graphrt.DemultiplyTensorsOptions] { demultiply_count: %d }
  }
}
node {
  calculator: "GatherTensorsCalculator"
  input_stream: "TENSOR:0:face"
  input_stream: "TENSOR:1:score"
  input_stream: "BATCH_END:end"
  output_stream: "TENSOR:0:all_faces"
  output_stream: "TENSOR:1:all_scores"
}
"""


def run(count: int, *pairs: tuple[Any, Any]) -> dict[str, list[tuple[int, Any]]]:
    """Run the graph on pairs of faces and scores, at 10, 20 and so on; return what is seen."""
    graph = CalculatorGraph(parse_graph_text(BOTH % count), registry=registry())
    sinks = {name: Sink(graph, name) for name in ("face", "all_faces", "all_scores")}
    graph.start_run()
    for time, (faces, scores) in enumerate(pairs, 1):
        graph.add_packet_to_input_stream("faces", faces, time * 10)
        graph.add_packet_to_input_stream("scores", scores, time * 10)
    graph.close_all_packet_sources()
    graph.wait_until_done()
    return {
        name: [(int(time), value) for time, value in sink.pairs] for name, sink in sinks.items()
    }


def numbers(*shape: int) -> Any:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def test_slices_have_no_first_axis_and_come_back_in_order_at_the_time_of_the_whole() -> None:
    texts = np.array([["a", "b"], ["c", "d"]], object)
    seen = run(-1, (numbers(3, 1, 4), numbers(3, 2)), (numbers(2, 5), texts))
    assert [(time, each.shape) for time, each in seen["face"]] == [
        (0, (1, 4)),
        (1, (1, 4)),
        (2, (1, 4)),
        (3, (5,)),
        (4, (5,)),
    ]
    assert [time for time, _ in seen["all_faces"]] == [10, 20]
    np.testing.assert_array_equal(seen["all_faces"][0][1], numbers(3, 1, 4))
    np.testing.assert_array_equal(seen["all_scores"][0][1], numbers(3, 2))
    assert seen["all_scores"][1][1].tolist() == [["a", "b"], ["c", "d"]]


@pytest.mark.parametrize(
    ("count", "faces", "scores", "reason"),
    [
        (3, numbers(2, 4), numbers(2, 4), r'"faces" has the shape \[2, 4\]; .* must be 3'),
        (-1, numbers(0, 4), numbers(0, 4), "must be 1 to 10000"),
        (-1, numbers(10_001, 1), numbers(10_001, 1), "must be 1 to 10000"),
        (-1, numbers(4), numbers(4), "two axes at least are needed"),
        (-1, numbers(2, 4), numbers(3, 4), "differ in the length of their first axis"),
    ],
)
def test_tensors_that_cannot_be_taken_apart_are_named(
    count: int, faces: Any, scores: Any, reason: str
) -> None:
    with pytest.raises(RunError, match=reason):
        run(count, (faces, scores))


@pytest.mark.parametrize("count", [0, -2, 10_001])
def test_a_count_is_a_number_of_slices_or_any(count: int) -> None:
    with pytest.raises(GraphError, match=f"demultiply_count is {count}"):
        run(count)


def test_each_tensor_in_needs_one_out() -> None:
    text = BOTH.replace('output_stream: "TENSOR:1:score"', "", 1) % 3
    with pytest.raises(GraphError, match="there are 2 TENSOR inputs and 1 TENSOR outputs"):
        CalculatorGraph(parse_graph_text(text), registry=registry())
