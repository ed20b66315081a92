"""MuxCalculator and ImmediateMuxCalculator."""

from __future__ import annotations

import pytest

from graph_runtime import RunError, ValidationError
from tests.calculators.core.running import BOUND, at, packets, run

MUX = """node {
  calculator: "MuxCalculator"
  input_stream: "INPUT:0:a" input_stream: "INPUT:1:b" input_stream: "SELECT:s"
  output_stream: "OUTPUT:out"
}"""


def test_the_mux_waits_only_for_the_selected_stream() -> None:
    seen = run(
        MUX,
        [("s", 0, 0), ("a", 0, "a0"), ("s", 1, 1), ("b", 1, "b1"), ("s", 2, 0), ("a", 2, "a2")],
    )
    assert seen["out"] == [(0, "a0"), (1, "b1"), (2, "a2")]


def test_a_selected_stream_without_a_packet_gives_a_bound() -> None:
    seen = run(MUX, [("a", 6, BOUND), ("s", 5, 0), *at("b", 5)], bounds=True)
    assert seen["out"] == [(5, None)]


def test_a_side_packet_selects_for_the_whole_run() -> None:
    seen = run(
        """node {
          calculator: "MuxCalculator" input_stream: "INPUT:0:a" input_stream: "INPUT:1:b"
          input_side_packet: "SELECT:which" output_stream: "OUTPUT:out"
        }""",
        [("a", 22, 1), ("b", 22, 2), ("a", 23, 3), ("b", 23, 4)],
        side_packets={"which": 1},
    )
    assert seen["out"] == [(22, 2), (23, 4)]


def test_a_number_without_a_stream_is_an_error() -> None:
    with pytest.raises(RunError, match="SELECT is 2, but there are 2 inputs"):
        run(
            """node {
              calculator: "MuxCalculator" input_stream: "INPUT:0:a" input_stream: "INPUT:1:b"
              input_side_packet: "SELECT:which" output_stream: "OUTPUT:out"
            }""",
            [("a", 0, 1), ("b", 0, 2)],
            side_packets={"which": 2},
        )


@pytest.mark.parametrize(
    ("selects", "message"),
    [
        ("", "SELECT must be connected"),
        ('input_stream: "SELECT:s" input_side_packet: "SELECT:which"', "but not both"),
    ],
)
def test_select_comes_from_exactly_one_place(selects: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        run(
            f"""node {{
              calculator: "MuxCalculator" input_stream: "INPUT:a" {selects}
              output_stream: "OUTPUT:out"
            }}""",
            [("a", 0, 1), ("s", 0, 0)],
        )


def test_demux_and_mux_put_work_back_in_order() -> None:
    seen = run(
        """
        node {
          calculator: "RoundRobinDemuxCalculator" input_stream: "in"
          output_stream: "OUTPUT:0:a" output_stream: "OUTPUT:1:b" output_stream: "SELECT:s"
        }
        node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "a_done" }
        node { calculator: "PassThroughCalculator" input_stream: "b" output_stream: "b_done" }
        node {
          calculator: "MuxCalculator" input_stream: "INPUT:0:a_done" input_stream: "INPUT:1:b_done"
          input_stream: "SELECT:s" output_stream: "OUTPUT:out"
        }
        """,
        at("in", *range(10)),
    )
    assert seen["out"] == [(time, time) for time in range(10)]


def immediate(options: str = "", outputs: str = 'output_stream: "out"') -> str:
    return f"""node {{
      calculator: "ImmediateMuxCalculator" input_stream: "a" input_stream: "b" {outputs}
      input_stream_handler {{ input_stream_handler: "ImmediateInputStreamHandler" }}
      {options}
    }}"""


PASSES_BOUNDS = """node_options {
  [type.googleapis.com/mediapipe.ImmediateMuxCalculatorOptions] { process_timestamp_bounds: true }
}"""


def test_packets_pass_in_order_of_arrival_and_late_ones_are_dropped() -> None:
    seen = run(immediate(), [*at("a", 10, 30), *at("b", 20, 40)])
    assert seen["out"] == [(10, 10), (30, 30), (40, 40)]


def test_at_one_timestamp_the_first_input_wins() -> None:
    seen = run(
        'node { calculator: "ImmediateMuxCalculator" input_stream: "a" input_stream: "b" '
        'output_stream: "out" }',
        [("a", 1, "a1"), ("b", 1, "b1")],
    )
    assert seen["out"] == [(1, "a1")]


def test_the_finish_signal_counts_dropped_packets_too() -> None:
    seen = run(
        immediate(outputs='output_stream: "out" output_stream: "done"'),
        [*at("a", 10), *at("b", 5), *at("a", 20)],
        watch="out done",
    )
    assert seen["out"] == [(10, 10), (20, 20)]
    assert seen["done"] == [(10, True), (11, True), (20, True)]


def test_bounds_pass_on_request_and_make_packets_late() -> None:
    feeds = [*at("a", 10), ("b", 20, BOUND), *at("a", 15), ("a", 20, BOUND), ("b", 30, BOUND)]
    seen = run(immediate(PASSES_BOUNDS), feeds, bounds=True)
    assert seen["out"] == [(10, 10), (19, None), (29, None)]


def test_three_outputs_are_refused() -> None:
    with pytest.raises(ValidationError, match="one or two output streams, not 3"):
        run(
            immediate(outputs='output_stream: "x" output_stream: "y" output_stream: "z"'),
            [*packets("a", (0, 0)), *packets("b", (0, 0))],
        )
