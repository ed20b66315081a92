"""FlowLimiterCalculator and RealTimeFlowLimiterCalculator."""

from __future__ import annotations

import pytest

from graph_runtime import CalculatorError, RunError, ValidationError, parse_graph_text
from tests.calculators.core.running import BOUND, CLOSE, Running, at, run

LIMITER = """node {{
  calculator: "FlowLimiterCalculator"
  input_stream: "in" input_stream: "FINISHED:fin"
  output_stream: "out" output_stream: "ALLOW:allow"
  options {{ [mediapipe.FlowLimiterCalculatorOptions.ext] {{ {} }} }}
}}"""


def limited(options: str) -> Running:
    text = 'input_stream: "in" input_stream: "fin"\n' + LIMITER.format(options)
    return Running(text, "out allow")


def test_packets_are_dropped_while_one_is_in_flight() -> None:
    running = limited("")
    running.send(*at("in", 0, 1, 2), ("fin", 0, "done"), *at("in", 3))
    assert running.seen["out"] == [(0, 0), (3, 3)]
    assert running.seen["allow"] == [(0, True), (1, False), (2, False), (3, True)]
    running.finish()


def test_the_queue_keeps_the_newest() -> None:
    running = limited("max_in_queue: 1")
    running.send(*at("in", 0, 10, 20, 30))
    assert running.seen["out"] == [(0, 0)]
    running.send(("fin", 0, "done"))
    assert running.seen["out"] == [(0, 0), (30, 30)]
    assert running.seen["allow"] == [(0, True), (10, False), (20, False), (30, True)]
    running.finish()


def test_finished_ends_everything_up_to_its_timestamp() -> None:
    running = limited("max_in_flight: 3")
    running.send(*at("in", 0, 1, 2, 3), ("fin", 2, "done"), *at("in", 4, 5, 6, 7))
    assert [time for time, _ in running.seen["out"]] == [0, 1, 2, 4, 5, 6]
    running.finish()


def test_a_bound_on_finished_counts() -> None:
    running = limited("")
    running.send(*at("in", 0), ("fin", 1, BOUND), *at("in", 5))
    assert running.seen["out"] == [(0, 0), (5, 5)]
    running.finish()


def test_the_end_of_finished_lets_the_queue_out() -> None:
    running = limited("max_in_queue: 1")
    running.send(*at("in", 0, 10), ("fin", CLOSE))
    assert running.seen["out"] == [(0, 0), (10, 10)]
    running.finish()


def test_lost_flights_time_out_by_packet_time() -> None:
    running = limited("in_flight_timeout: 100")
    running.send(*at("in", 0, 50, 100, 101, 150, 202))
    assert [time for time, _ in running.seen["out"]] == [0, 101, 202]
    running.finish()


@pytest.mark.parametrize("options", ["max_in_flight: -1", "max_in_flight: 0 max_in_queue: -1"])
def test_negative_numbers_are_no_limit(options: str) -> None:
    running = limited(options)
    running.send(*at("in", 0, 1, 2))
    assert False not in [allow for _, allow in running.seen["allow"]]
    running.finish()


def test_auxiliary_packets_follow_the_main_decision_before_them() -> None:
    seen = run(
        """node {
          calculator: "FlowLimiterCalculator"
          input_stream: "in" input_stream: "aux" input_stream: "FINISHED:fin"
          output_stream: "out" output_stream: "out_aux"
        }""",
        [
            ("aux", 0, "a0"),
            ("aux", 5, "a5"),
            *at("in", 0, 10),
            ("aux", 10, "a10"),
            ("aux", 15, "a15"),
            ("fin", 0, "done"),
            *at("in", 20),
            ("aux", 25, "a25"),
        ],
        watch="out out_aux",
    )
    assert seen["out"] == [(0, 0), (20, 20)]
    assert seen["out_aux"] == [(0, "a0"), (5, "a5"), (25, "a25")]


def test_auxiliary_packets_may_come_early_or_late() -> None:
    """One auxiliary stream arrives before the main one starts; the other keeps step with it."""
    running = Running(
        """input_stream: "in" input_stream: "a" input_stream: "b" input_stream: "fin"
        node {
          calculator: "FlowLimiterCalculator"
          input_stream: "in" input_stream: "a" input_stream: "b" input_stream: "FINISHED:fin"
          output_stream: "out" output_stream: "out_a" output_stream: "out_b"
        }""",
        "out_a out_b",
        bounds=True,
    )
    running.send(*at("b", 10, 20, 30, 40, 50))
    for time in (10, 20, 30, 40, 50):
        running.send(*(at("in", time) if time % 20 == 0 else []), *at("a", time))
    sent = [(10, 10), (20, 20), (30, 30)]
    for name in ("out_a", "out_b"):
        assert [entry for entry in running.seen[name] if entry[1] is not None] == sent
        assert running.seen[name][-1] == (49, None), "settled up to the next main packet"
    running.finish()


def test_the_side_packet_sets_the_limit() -> None:
    seen = run(
        """node {
          calculator: "FlowLimiterCalculator" input_side_packet: "MAX_IN_FLIGHT:limit"
          input_stream: "in" input_stream: "FINISHED:fin" output_stream: "out"
        }""",
        [*at("in", 0, 1, 2), ("fin", CLOSE)],
        side_packets={"limit": 2},
    )
    assert [time for time, _ in seen["out"]] == [0, 1]


def test_options_can_come_as_side_packet_and_change_while_running() -> None:
    options = parse_graph_text(
        """node { options { [mediapipe.FlowLimiterCalculatorOptions.ext] { max_in_flight: 2 } } }"""
    ).node[0]
    change = parse_graph_text(
        """node { options { [mediapipe.FlowLimiterCalculatorOptions.ext] { max_in_flight: 4 } } }"""
    ).node[0]
    seen = run(
        """node {
          calculator: "FlowLimiterCalculator" input_side_packet: "OPTIONS:options"
          input_stream: "in" input_stream: "FINISHED:fin" input_stream: "OPTIONS:change"
          output_stream: "out"
        }""",
        [*at("in", 0, 1, 2), ("change", 3, change.options), *at("in", 3, 4, 5), ("fin", CLOSE)],
        side_packets={"options": options.options},
    )
    assert [time for time, _ in seen["out"]] == [0, 1, 3, 4]


def test_a_back_edge_keeps_one_packet_in_the_loop() -> None:
    running = Running(
        """input_stream: "in" input_stream: "ok"
        node {
          calculator: "FlowLimiterCalculator"
          input_stream: "in" input_stream: "FINISHED:done"
          input_stream_info { tag_index: "FINISHED" back_edge: true }
          output_stream: "sampled"
          options { [mediapipe.FlowLimiterCalculatorOptions.ext] { max_in_queue: 1 } }
        }
        node {
          calculator: "GateCalculator" input_stream: "sampled" input_stream: "ALLOW:ok"
          output_stream: "done"
        }""",
        "sampled done",
    )
    running.send(*at("in", 0, 10, 20))
    assert running.seen["sampled"] == [(0, 0)]
    running.send(("ok", 0, True))
    assert running.seen["sampled"] == [(0, 0), (20, 20)]
    running.send(*at("in", 30), ("ok", 20, False))
    assert running.seen == {"sampled": [(0, 0), (20, 20), (30, 30)], "done": [(0, 0)]}
    running.finish()


def test_a_flow_limiter_needs_finished() -> None:
    with pytest.raises(ValidationError, match='tag "FINISHED"'):
        run(
            'node { calculator: "FlowLimiterCalculator" input_stream: "in" output_stream: "o" }',
            at("in", 0),
        )


REAL_TIME = """node {
  calculator: "RealTimeFlowLimiterCalculator"
  input_stream: "in" input_stream: "FINISHED:fin"
  output_stream: "out" output_stream: "ALLOW:allow"
}"""


def test_the_older_limiter_counts_finished_packets() -> None:
    seen = run(
        REAL_TIME,
        [*at("in", 0), *at("fin", 0), *at("in", 10, 20), *at("fin", 10), *at("in", 30)],
        watch="out allow",
    )
    assert seen["out"] == [(0, 0), (10, 10), (30, 30)]
    assert seen["allow"] == [(1, False), (2, True), (3, False), (4, True), (5, False)]


def test_the_older_limiter_sends_all_packets_of_a_timestamp_or_none() -> None:
    seen = run(
        """node {
          calculator: "RealTimeFlowLimiterCalculator"
          input_stream: "in" input_stream: "aux" input_stream: "FINISHED:fin"
          output_stream: "out" output_stream: "out_aux"
        }""",
        [*at("in", 0), *at("aux", 0), *at("in", 1), *at("fin", 0), *at("aux", 1), *at("in", 2)],
        watch="out out_aux",
    )
    assert seen["out"] == [(0, 0), (2, 2)]
    assert seen["out_aux"] == [(0, 0)]


def test_the_older_limiter_refuses_a_finished_packet_too_many() -> None:
    running = Running('input_stream: "in" input_stream: "fin"' + REAL_TIME)
    with pytest.raises(RunError, match="none in flight") as caught:
        running.send(*at("fin", 0))
    assert isinstance(caught.value.errors[0], CalculatorError)
    running.graph.cancel()
