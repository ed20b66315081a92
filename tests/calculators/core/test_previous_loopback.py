"""PreviousLoopbackCalculator."""

from __future__ import annotations

import pytest

from graph_runtime import Timestamp
from tests.calculators.core.running import CLOSE, Running, at, run

LOOP = """
node {
  calculator: "PreviousLoopbackCalculator"
  input_stream: "MAIN:main" input_stream: "LOOP:loop"
  input_stream_info { tag_index: "LOOP" back_edge: true }
  output_stream: "PREV_LOOP:previous"
}
"""
PLAIN = (
    'input_stream: "main"'
    + LOOP
    + """node {
      calculator: "PassThroughCalculator" input_stream: "main" input_stream: "previous"
      output_stream: "loop" output_stream: "previous_out"
    }"""
)


def test_each_input_meets_the_result_of_the_one_before() -> None:
    running = Running(PLAIN, "loop previous_out")
    running.send(*at("main", 1))
    assert running.seen == {"loop": [(1, 1)], "previous_out": []}
    running.send(*at("main", 2, 5, 15))
    assert running.seen["previous_out"] == [(2, 1), (5, 2), (15, 5)]
    running.finish()


def test_the_cycle_ends_when_its_input_ends() -> None:
    """A run that never ended would time out here."""
    running = Running(PLAIN, "loop")
    running.send(*at("main", 1), ("main", CLOSE))
    running.graph.wait_until_done()
    assert running.seen["loop"] == [(1, 1)]


def test_the_last_possible_timestamp_ends_the_cycle_too() -> None:
    running = Running(PLAIN, "loop previous_out")
    running.send(("main", Timestamp.MIN, 1), ("main", Timestamp.MAX, 2))
    running.finish()
    assert running.seen == {
        "loop": [(Timestamp.MIN, 1), (Timestamp.MAX, 2)],
        "previous_out": [(Timestamp.MAX, 1)],
    }


def test_a_loop_without_packets_delays_no_input() -> None:
    seen = run(
        """
        node {
          calculator: "PreviousLoopbackCalculator"
          input_stream: "MAIN:main" input_stream: "LOOP:previous"
          input_stream_info { tag_index: "LOOP" back_edge: true }
          output_stream: "PREV_LOOP:previous"
        }
        node {
          calculator: "PassThroughCalculator" input_stream: "main" input_stream: "previous"
          output_stream: "out" output_stream: "previous_out"
        }
        """,
        at("main", *range(5)),
        watch="out previous_out",
    )
    assert seen == {"out": [(time, time) for time in range(5)], "previous_out": []}


def gated(main_empty: set[int], loop_empty: set[int], end: int) -> list[tuple[int, int]]:
    """Return the loop's output where MAIN or LOOP has no packet at some timestamps."""
    running = Running(
        'input_stream: "in" input_stream: "no_main" input_stream: "no_loop"'
        + LOOP
        + """
        node {
          calculator: "GateCalculator" input_stream: "in" input_stream: "DISALLOW:no_main"
          output_stream: "main"
        }
        node {
          calculator: "PassThroughCalculator" input_stream: "in" input_stream: "previous"
          output_stream: "in_out" output_stream: "previous_out"
        }
        node {
          calculator: "GateCalculator" input_stream: "in" input_stream: "DISALLOW:no_loop"
          output_stream: "loop"
        }
        """,
        "in_out previous_out",
    )
    for time in range(1, end):
        running.send(
            ("in", time, time),
            ("no_main", time, time in main_empty),
            ("no_loop", time, time in loop_empty),
        )
        assert len(running.seen["in_out"]) == time, "nobody waits"
    running.finish()
    return running.seen["previous_out"]


def test_only_main_timestamps_with_a_packet_count_as_previous() -> None:
    assert gated(main_empty={2, 3}, loop_empty=set(), end=6) == [(4, 1), (5, 4)]


def test_without_a_loop_packet_for_the_previous_input_nothing_is_sent() -> None:
    assert gated(main_empty=set(), loop_empty={2, 3}, end=6) == [(2, 1), (5, 4)]


def test_main_and_loop_can_be_empty_in_turns() -> None:
    assert gated(main_empty={2, 4}, loop_empty={1, 3, 5}, end=7) == []
    assert gated(main_empty={1, 4}, loop_empty={1, 3, 5}, end=7) == [(3, 2)]


@pytest.mark.parametrize(
    ("of_graph", "of_node"),
    [
        ("input_stream_handler {}", ""),
        ("", "input_stream_handler {}"),
        ("", "input_stream_handler { options {} }"),
        ('input_stream_handler { input_stream_handler: "DefaultInputStreamHandler" }',
         "input_stream_handler {}"),
    ],
)  # fmt: skip
def test_a_handler_without_a_name_leaves_the_calculator_its_own(
    of_graph: str, of_node: str
) -> None:
    text = of_graph + PLAIN.replace("output_stream:", of_node + " output_stream:", 1)
    running = Running(text, "previous_out")
    running.send(*at("main", 1, 2, 5))
    assert running.seen["previous_out"] == [(2, 1), (5, 2)]
    running.finish()
