"""Loops over the elements of a list, and over several streams."""

from __future__ import annotations

import pytest

from graph_runtime import RunError, Timestamp, ValidationError
from tests.calculators.core.running import at, run

BEGIN = """node {
  calculator: "BeginLoopIntCalculator" input_stream: "ITERABLE:numbers"
  output_stream: "ITEM:number" output_stream: "BATCH_END:end"
}
"""
END = """node {
  calculator: "EndLoopCalculator" input_stream: "ITEM:number" input_stream: "BATCH_END:end"
  output_stream: "ITERABLE:out"
}
"""


def test_elements_stand_at_loop_time() -> None:
    seen = run(
        BEGIN,
        [("numbers", 100, [7, 8]), ("numbers", 200, []), ("numbers", 300, [9])],
        watch="number end",
        bounds=True,
    )
    assert seen["number"] == [(0, 7), (1, 8), (2, None), (3, 9)]
    ends = [(time, value) for time, value in seen["end"] if value is not None]
    assert ends == [(1, Timestamp(100)), (2, Timestamp(200)), (3, Timestamp(300))]


def test_results_come_back_at_the_timestamp_of_the_list() -> None:
    seen = run(BEGIN + END, [("numbers", 10, [0, 1, 2]), ("numbers", 20, [3])])
    assert seen["out"] == [(10, [0, 1, 2]), (20, [3])]


def test_an_empty_list_gives_a_bound_and_no_list() -> None:
    seen = run(
        BEGIN + END,
        [("numbers", 10, [1]), ("numbers", 20, []), ("numbers", 30, [2])],
        bounds=True,
    )
    assert seen["out"] == [(10, [1]), (20, None), (30, [2])]


def test_a_timestamp_without_a_list_gives_a_bound_too() -> None:
    """A join behind the loop then proceeds."""
    seen = run(
        """node {
          calculator: "GateCalculator" input_stream: "in" input_stream: "ALLOW:allow"
          output_stream: "numbers"
        }"""
        + BEGIN
        + END
        + 'node { calculator: "PacketPresenceCalculator" input_stream: "PACKET:out" '
        'output_stream: "PRESENCE:presence" }',
        [("in", 0, [1]), ("allow", 0, False), ("in", 1, [2]), ("allow", 1, True)],
        watch="out presence",
    )
    assert seen == {"out": [(1, [2])], "presence": [(0, False), (1, True)]}


CLONING = """
node {
  calculator: "BeginLoopFloatCalculator" input_stream: "ITERABLE:v" input_stream: "CLONE:allow"
  output_stream: "ITEM:x" output_stream: "CLONE:allow_x" output_stream: "BATCH_END:end"
}
node {
  calculator: "GateCalculator" input_stream: "x" input_stream: "ALLOW:allow_x" output_stream: "y"
}
node {
  calculator: "EndLoopFloatCalculator" input_stream: "ITEM:y" input_stream: "BATCH_END:end"
  output_stream: "ITERABLE:out"
}
"""


def test_clones_are_sent_with_every_element() -> None:
    seen = run(
        CLONING,
        [
            ("v", 10, [1.0, 2.0]),
            ("allow", 10, True),
            ("v", 20, [3.0]),
            ("allow", 20, False),
            ("v", 30, [4.0]),
            ("allow", 30, True),
        ],
        bounds=True,
    )
    assert seen["out"] == [(10, [1.0, 2.0]), (20, None), (30, [4.0])]


def test_loops_nest() -> None:
    outer = """
    node {
      calculator: "BeginLoopCalculator" input_stream: "ITERABLE:rows"
      output_stream: "ITEM:numbers" output_stream: "BATCH_END:rows_end"
    }
    """
    inner_end = END.replace('"ITERABLE:out"', '"ITERABLE:numbers_out"')
    outer_end = """
    node {
      calculator: "EndLoopCalculator" input_stream: "ITEM:numbers_out"
      input_stream: "BATCH_END:rows_end" output_stream: "ITERABLE:out"
    }
    """
    seen = run(
        outer + BEGIN + inner_end + outer_end,
        [("rows", 5, [[1, 2], [3]]), ("rows", 9, [[4]])],
    )
    assert seen["out"] == [(5, [[1, 2], [3]]), (9, [[4]])]


def test_lists_of_another_type_are_refused() -> None:
    with pytest.raises(RunError, match="vector<string>"):
        run(BEGIN, [("numbers", 0, ["text"])], watch="")


def test_a_clone_needs_its_output() -> None:
    with pytest.raises(ValidationError, match="1 CLONE inputs and 0 CLONE outputs"):
        run(
            """node {
              calculator: "BeginLoopIntCalculator" input_stream: "ITERABLE:in"
              input_stream: "CLONE:c" output_stream: "ITEM:i" output_stream: "BATCH_END:e"
            }""",
            [("in", 0, [1]), ("c", 0, 1)],
        )


BEGIN_ITEMS = """
node {
  calculator: "BeginItemLoopCalculator"
  input_stream: "ITEM:0:a" input_stream: "ITEM:1:b" input_stream: "CLONE:c"
  output_stream: "ITEM:item" output_stream: "CLONE:clone" output_stream: "BATCH_END:end"
}
"""
END_ITEMS = """
node {
  calculator: "EndItemLoopCalculator" input_stream: "ITEM:item" input_stream: "BATCH_END:end"
  output_stream: "ITEM:0:x" output_stream: "ITEM:1:y"
}
"""


def test_streams_go_through_a_loop_one_by_one() -> None:
    seen = run(
        BEGIN_ITEMS + END_ITEMS,
        [("a", 10, "a10"), ("b", 10, "b10"), ("c", 10, "c10")],
        watch="item clone x y",
    )
    assert seen == {
        "item": [(0, "a10"), (1, "b10")],
        "clone": [(0, "c10"), (1, "c10")],
        "x": [(10, "a10")],
        "y": [(10, "b10")],
    }


def test_without_items_only_bounds_come_out() -> None:
    seen = run(
        BEGIN_ITEMS + END_ITEMS,
        [*at("c", 10), ("a", 20, "a20"), ("b", 20, "b20"), ("c", 20, "c20")],
        watch="item x",
        bounds=True,
    )
    assert seen["item"] == [(0, None), (1, "a20"), (2, "b20")]
    assert seen["x"] == [(10, None), (20, "a20")]


def test_a_timestamp_with_only_some_items_is_an_error() -> None:
    with pytest.raises(RunError, match="Cannot mix non-empty input ITEMs with empty"):
        run(BEGIN_ITEMS, [("a", 10, "a10"), ("b", 11, "b11"), ("c", 10, "c10")], watch="")


def test_a_loop_must_return_as_many_packets_as_there_are_outputs() -> None:
    with pytest.raises(RunError, match="the loop brought 1, the node has 2 outputs"):
        run(
            """
            node {
              calculator: "BeginItemLoopCalculator" input_stream: "ITEM:in"
              output_stream: "ITEM:item" output_stream: "BATCH_END:end"
            }
            """
            + END_ITEMS,
            [("in", 0, "single")],
            watch="",
        )
