"""Calculators that move packets in time: shift, sequencer, value or default."""

from __future__ import annotations

import pytest

from graph_runtime import RunError, Timestamp
from tests.calculators.core.running import Running, at, packets, run

MIN = int(Timestamp.MIN)


def shifted(options: str = "", side: int | None = None) -> list[tuple[int, int]]:
    port = "" if side is None else 'input_side_packet: "PACKET_OFFSET:offset"'
    return run(
        f"""node {{
          calculator: "SequenceShiftCalculator" {port} input_stream: "in" output_stream: "out"
          options {{ [mediapipe.SequenceShiftCalculatorOptions.ext] {{ {options} }} }}
        }}""",
        at("in", 0, 10, 20, 30),
        side_packets={} if side is None else {"offset": side},
    )["out"]


def test_by_default_packets_move_to_the_timestamp_before_theirs() -> None:
    assert shifted() == [(0, 10), (10, 20), (20, 30)]


def test_packets_move_either_way() -> None:
    assert shifted("packet_offset: -2") == [(0, 20), (10, 30)]
    assert shifted("packet_offset: 3") == [(30, 0)]
    assert shifted("packet_offset: 0") == [(0, 0), (10, 10), (20, 20), (30, 30)]


def test_the_side_packet_wins_over_the_option() -> None:
    assert shifted("packet_offset: 3", side=1) == [(10, 0), (20, 10), (30, 20)]


def test_unsupported_options_are_refused() -> None:
    with pytest.raises(RunError, match="emit_empty_packets_before_first_packet"):
        shifted("packet_offset: 1 emit_empty_packets_before_first_packet: true")


SEQUENCER = """input_stream: "select" input_stream: "frame" input_stream: "mask"
node {
  calculator: "PacketSequencerCalculator"
  input_stream: "INPUT:select" input_stream: "TICK:0:frame" input_stream: "TICK:1:mask"
  output_stream: "OUTPUT:out"
}"""


def test_sequenced_packets_follow_the_latest_tick() -> None:
    running = Running(SEQUENCER)
    running.send(*packets("select", (10, "a"), (20, "b")))
    running.send(*at("mask", 10), *at("frame", 20))
    running.send(*packets("select", (30, "c"), (40, "d")))
    running.finish()
    assert running.seen["out"] == [(MIN, "a"), (MIN + 1, "b"), (21, "c"), (22, "d")]


def test_ticks_settle_the_sequence_at_once() -> None:
    running = Running(SEQUENCER, bounds=True)
    running.send(*at("frame", 20))
    assert running.seen["out"] == [(20, None)]
    running.finish()


FILLED = """node {
  calculator: "ValueOrDefaultCalculator" input_stream: "IN:in" input_stream: "TICK:tick"
  input_side_packet: "default" output_stream: "OUT:out" output_stream: "FLAG:flag"
}"""


def test_ticks_without_a_value_get_the_default() -> None:
    seen = run(
        FILLED,
        [*at("tick", 0, 1, 5, 8), *packets("in", (1, "one"), (5, "five"), (9, "unticked"))],
        watch="out flag",
        side_packets={"default": "none"},
    )
    assert seen["out"] == [(0, "none"), (1, "one"), (5, "five"), (8, "none")]
    assert seen["flag"] == [(0, True), (8, True)]
