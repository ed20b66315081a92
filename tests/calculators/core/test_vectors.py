"""Calculators on lists: concatenate, split, pick, clip, count, merge."""

from __future__ import annotations

from typing import Any

import pytest

from graph_runtime import RunError, ValidationError
from tests.calculators.core.running import CLOSE, Feed, at, run


def concatenated(calculator: str, feeds: list[Feed], options: str = "") -> list[tuple[int, Any]]:
    return run(
        f"""node {{
          calculator: "{calculator}" input_stream: "a" input_stream: "b" output_stream: "out"
          options {{ [mediapipe.ConcatenateVectorCalculatorOptions.ext] {{ {options} }} }}
        }}""",
        feeds,
    )["out"]


def test_lists_and_single_elements_join_in_stream_order() -> None:
    feeds: list[Feed] = [("b", 1, 3.0), ("a", 1, [1.0, 2.0]), ("a", 2, 4.0), ("b", 2, [5.0])]
    seen = concatenated("ConcatenateFloatVectorCalculator", feeds)
    assert seen == [(1, [1.0, 2.0, 3.0]), (2, [4.0, 5.0])]


@pytest.mark.parametrize(("all_present", "times"), [("false", [1, 2]), ("true", [1])])
def test_missing_inputs_are_left_out_or_give_no_output(all_present: str, times: list[int]) -> None:
    seen = concatenated(
        "ConcatenateStringVectorCalculator",
        [("a", 1, ["x"]), ("b", 1, "y"), ("a", 2, ["z"]), ("b", CLOSE)],
        f"only_emit_if_all_present: {all_present}",
    )
    assert [time for time, _ in seen] == times
    assert seen[0] == (1, ["x", "y"])


def test_the_base_calculator_joins_anything() -> None:
    feeds: list[Feed] = [("a", 1, {"x": 1}), ("b", 1, [2, 3])]
    assert concatenated("ConcatenateVectorCalculator", feeds) == [(1, [{"x": 1}, 2, 3])]


def test_elements_of_another_type_are_refused() -> None:
    with pytest.raises(RunError, match='one of "float", "vector<float>" was requested'):
        concatenated("ConcatenateFloatVectorCalculator", [("a", 1, "text"), ("b", 1, 1.0)])


def split(options: str, value: Any, watch: str = "x y") -> dict[str, list[tuple[int, Any]]]:
    outputs = " ".join(f'output_stream: "{name}"' for name in watch.split())
    return run(
        f"""node {{
          calculator: "SplitFloatVectorCalculator" input_stream: "in" {outputs}
          options {{ [mediapipe.SplitVectorCalculatorOptions.ext] {{ {options} }} }}
        }}""",
        [("in", 1, value)],
        watch=watch,
    )


NUMBERS = [0.0, 1.0, 2.0, 3.0, 4.0]


def test_ranges_go_to_their_outputs() -> None:
    seen = split("ranges { begin: 0 end: 1 } ranges { begin: 1 end: 4 }", NUMBERS)
    assert seen == {"x": [(1, [0.0])], "y": [(1, [1.0, 2.0, 3.0])]}


def test_single_elements_can_be_sent_without_a_list() -> None:
    options = "ranges { begin: 0 end: 1 } ranges { begin: 2 end: 3 } element_only: true"
    assert split(options, NUMBERS) == {"x": [(1, 0.0)], "y": [(1, 2.0)]}


def test_ranges_can_be_combined() -> None:
    options = "ranges { begin: 4 end: 5 } ranges { begin: 0 end: 2 } combine_outputs: true"
    assert split(options, NUMBERS, "x") == {"x": [(1, [4.0, 0.0, 1.0])]}


@pytest.mark.parametrize(
    ("options", "outputs", "message"),
    [
        ("ranges { begin: 0 end: 1 }", "x y", "should match the number of ranges"),
        ("ranges { begin: 2 end: 1 }", "x", "begin index should be less than the end index"),
        ("ranges { begin: -1 end: 1 }", "x", "Indices should be non-negative"),
        ("ranges { begin: 0 end: 2 } element_only: true", "x", "all ranges should be of size 1"),
        (
            "ranges { begin: 0 end: 3 } ranges { begin: 1 end: 4 } combine_outputs: true",
            "x",
            "Ranges must be non-overlapping",
        ),
        (
            "ranges { begin: 0 end: 3 } combine_outputs: true",
            "x y",
            "with combine_outputs there must be one output stream",
        ),
    ],
)
def test_ranges_that_contradict_the_outputs_are_refused(
    options: str, outputs: str, message: str
) -> None:
    with pytest.raises(ValidationError, match=message):
        split(options, NUMBERS, outputs)


def test_a_list_that_is_too_short_is_an_error() -> None:
    with pytest.raises(RunError, match="Max range end 3 exceeds list size 2"):
        split("ranges { begin: 0 end: 1 } ranges { begin: 2 end: 3 }", [1.0, 2.0])


def picked(options: str, feeds: list[Feed], has_index: bool = True) -> list[tuple[int, Any]]:
    index = 'input_stream: "INDEX:i"' if has_index else ""
    return run(
        f"""node {{
          calculator: "GetVectorItemCalculator" input_stream: "VECTOR:v" {index}
          output_stream: "ITEM:out"
          options {{ [mediapipe.GetVectorItemCalculatorOptions.ext] {{ {options} }} }}
        }}""",
        feeds,
    )["out"]


def test_the_index_stream_wins_over_the_option() -> None:
    feeds: list[Feed] = [("v", 1, ["a", "b", "c"]), ("i", 1, 2), ("v", 2, ["a", "b"])]
    assert picked("item_index: 0", feeds) == [(1, "c"), (2, "a")]
    assert picked("", feeds) == [(1, "c")]


def test_the_option_alone_selects_an_element() -> None:
    assert picked("item_index: 1", [("v", 1, [5, 6])], has_index=False) == [(1, 6)]


@pytest.mark.parametrize(
    ("options", "index"), [("", 2), ("", -1), ("output_empty_on_oob: true", -1)]
)
def test_an_index_out_of_range_is_an_error(options: str, index: int) -> None:
    with pytest.raises(RunError, match=f"index {index} is out of range: the list has 2 elements"):
        picked(options, [("v", 1, [5, 6]), ("i", 1, index)])


def test_beyond_the_end_can_mean_no_packet() -> None:
    assert picked("output_empty_on_oob: true", [("v", 1, [5, 6]), ("i", 1, 2)]) == []


def test_a_node_without_an_index_is_refused() -> None:
    with pytest.raises(RunError, match="there is no index"):
        picked("", [("v", 1, [5, 6])], has_index=False)


def clipped(options: str, sides: str = "", **side_packets: int) -> list[tuple[int, Any]]:
    return run(
        f"""node {{
          calculator: "ClipVectorSizeCalculator" {sides} input_stream: "in" output_stream: "out"
          options {{ [mediapipe.ClipVectorSizeCalculatorOptions.ext] {{ {options} }} }}
        }}""",
        [("in", 1, [1, 2, 3]), ("in", 2, [4])],
        side_packets=side_packets,
    )["out"]


def test_long_lists_are_clipped() -> None:
    assert clipped("max_vec_size: 2") == [(1, [1, 2]), (2, [4])]
    assert clipped("") == [(1, [1]), (2, [4])]
    assert clipped("", 'input_side_packet: "limit"', limit=5) == [(1, [1, 2, 3]), (2, [4])]


def test_a_limit_below_one_is_refused() -> None:
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        clipped("max_vec_size: 0")
    with pytest.raises(RunError, match="greater than or equal to 1"):
        clipped("", 'input_side_packet: "limit"', limit=0)


def test_lists_are_counted() -> None:
    seen = run(
        """
        node { calculator: "VectorSizeCalculator" input_stream: "VECTOR:v"
               output_stream: "SIZE:size" }
        node { calculator: "IntVectorIndicesCalculator" input_stream: "VECTOR:v"
               output_stream: "INDICES:places" }
        """,
        [("v", 1, [7, 8]), ("v", 2, [])],
        watch="size places",
    )
    assert seen == {"size": [(1, 2), (2, 0)], "places": [(1, [0, 1]), (2, [])]}


def test_streams_become_a_list() -> None:
    seen = run(
        'node { calculator: "MergeToVectorCalculator" input_stream: "a" input_stream: "b" '
        'output_stream: "out" }',
        [*at("a", 1), ("b", 1, "b1"), ("b", 2, "b2"), ("a", CLOSE)],
    )
    assert seen["out"] == [(1, [1, "b1"]), (2, ["b2"])]
