"""Calculators on messages that are a list."""

from __future__ import annotations

from typing import Any

import pytest

from graph_runtime import RunError
from tests.calculators.core.running import CLOSE, run, side_outputs


def landmarks(*xs: float) -> Any:
    """Return a LandmarkList, made as graphs make one."""
    text = " ".join(f"landmark {{ x: {x} }}" for x in xs)
    node = f"""node {{
      calculator: "ConstantSidePacketCalculator" output_side_packet: "PACKET:list"
      options {{ [mediapipe.ConstantSidePacketCalculatorOptions.ext] {{
        packet {{ landmark_list_value {{ {text} }} }}
      }} }}
    }}"""
    return side_outputs(node, "list", {})[0]


def test_list_messages_join() -> None:
    seen = run(
        """node {
          calculator: "ConcatenateLandmarkListCalculator" input_stream: "a" input_stream: "b"
          output_stream: "out"
        }""",
        [("a", 1, landmarks(1, 2)), ("b", 1, landmarks(3)), ("a", 2, landmarks(4)), ("b", CLOSE)],
    )
    assert seen["out"] == [(1, landmarks(1, 2, 3)), (2, landmarks(4))]


def test_joining_can_need_all_inputs() -> None:
    seen = run(
        """node {
          calculator: "ConcatenateLandmarkListCalculator" input_stream: "a" input_stream: "b"
          output_stream: "out" options {
            [mediapipe.ConcatenateVectorCalculatorOptions.ext] { only_emit_if_all_present: true }
          }
        }""",
        [("a", 1, landmarks(1)), ("b", 1, landmarks(2)), ("a", 2, landmarks(3)), ("b", CLOSE)],
    )
    assert seen["out"] == [(1, landmarks(1, 2))]


def split(options: str, outputs: str) -> dict[str, list[tuple[int, Any]]]:
    ports = " ".join(f'output_stream: "{name}"' for name in outputs.split())
    return run(
        f"""node {{
          calculator: "SplitLandmarkListCalculator" input_stream: "in" {ports}
          options {{ [mediapipe.SplitVectorCalculatorOptions.ext] {{ {options} }} }}
        }}""",
        [("in", 1, landmarks(1, 2, 3))],
        watch=outputs,
    )


def test_list_messages_split() -> None:
    seen = split("ranges { begin: 0 end: 1 } ranges { begin: 1 end: 3 }", "x y")
    assert seen == {"x": [(1, landmarks(1))], "y": [(1, landmarks(2, 3))]}


def test_list_messages_split_into_elements() -> None:
    seen = split("ranges { begin: 2 end: 3 } element_only: true", "x")
    assert seen["x"][0][1].x == 3


def test_list_messages_split_and_join() -> None:
    options = "ranges { begin: 2 end: 3 } ranges { begin: 0 end: 1 } combine_outputs: true"
    assert split(options, "x") == {"x": [(1, landmarks(3, 1))]}


def test_a_message_that_is_too_short_is_an_error() -> None:
    with pytest.raises(RunError, match="Max range end 4 exceeds list size 3"):
        split("ranges { begin: 0 end: 4 }", "x")
