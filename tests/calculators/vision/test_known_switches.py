"""Switches that side packets set, resolved before the run."""

from __future__ import annotations

from typing import Any

import pytest

import calculators
from calculators.vision.solution import expanded_with, resolve_known_switches
from graph_runtime import (
    REGISTRY,
    CalculatorGraph,
    Packet,
    Registry,
    SubgraphContext,
    parse_graph_text,
    validate_graph,
)

GRAPH = """
    input_stream: "numbers"
    input_side_packet: "ENABLE:is_second"
    output_stream: "out"
    node {
      calculator: "SwitchContainer"
      input_stream: "numbers"
      input_side_packet: "ENABLE:is_second"
      output_stream: "out"
      node_options { [type.googleapis.com/mediapipe.SwitchContainerOptions] {
        contained_node {
          calculator: "GateCalculator"
          options { [mediapipe.GateCalculatorOptions.ext] { allow: false } }
        }
        contained_node { calculator: "PassThroughCalculator" }
      } }
    }
"""


def registry() -> Registry:
    found = Registry(REGISTRY)
    calculators.register_all(found)
    return found


def run(config: Any, is_second: bool) -> list[int]:
    """Send 1, 2, 3; return what comes out."""
    graph = CalculatorGraph(config, registry=registry())
    seen: list[int] = []
    graph.observe_output_stream("out", lambda _, packet: seen.append(packet.value))
    graph.start_run({"is_second": is_second})
    for number in (1, 2, 3):
        graph.add_packet_to_input_stream("numbers", Packet(number, number))
    graph.close()
    return seen


@pytest.mark.parametrize("is_second", [False, True])
def test_the_nodes_of_the_known_channel_stay_and_do_the_same(is_second: bool) -> None:
    config = expanded_with(parse_graph_text(GRAPH), registry(), {})
    before = run(config, is_second)
    resolve_known_switches(config, {"is_second": is_second})
    (node,) = config.node
    assert node.calculator == ("PassThroughCalculator" if is_second else "GateCalculator")
    assert run(config, is_second) == before == ([1, 2, 3] if is_second else [])


def test_a_switch_that_is_not_known_stays() -> None:
    config = expanded_with(parse_graph_text(GRAPH), registry(), {})
    resolve_known_switches(config, {"another": True})
    assert len(config.node) == 4


@pytest.mark.parametrize("is_refined", [False, True])
def test_mediapipes_own_graph_is_valid_without_its_switches(is_refined: bool) -> None:
    found = registry().find_subgraph("HolisticLandmarkCpu")
    assert found is not None
    config = expanded_with(found.make(SubgraphContext(None)), registry(), {})
    sides = {
        "model_complexity": 1,
        "smooth_landmarks": True,
        "enable_segmentation": True,
        "smooth_segmentation": True,
        "refine_face_landmarks": is_refined,
        "use_prev_landmarks": True,
    }
    resolve_known_switches(config, sides)
    validate_graph(config, registry=registry())
    names = [node.name for node in config.node]
    assert any("Refinement" in name for name in names) is is_refined
    left = [node for node in config.node if node.calculator.startswith("Switch")]
    # What is left chooses models, once.
    assert not any(node.input_stream for node in left)
