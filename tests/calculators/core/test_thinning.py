"""PacketThinnerCalculator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from calculators.core.headers import VideoHeader
from graph_runtime import RunError, parse_graph_text
from tests.calculators.core.running import at, run

PRIMES = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]
EVEN = [2, 4, 6, 8, 10, 12, 14]


def thinner(options: str, sides: str = "") -> str:
    return f"""node {{
      calculator: "PacketThinnerCalculator" {sides} input_stream: "in" output_stream: "out"
      options {{ [mediapipe.PacketThinnerCalculatorOptions.ext] {{ {options} }} }}
    }}"""


def thinned(options: str, times: Sequence[int], **arguments: Any) -> list[tuple[int, Any]]:
    return run(thinner(options), at("in", *times), **arguments)["out"]


@pytest.mark.parametrize(
    ("options", "times", "kept"),
    [
        ("period: 5", EVEN, [2, 8, 14]),
        ("period: 5", PRIMES, [2, 7, 13, 19, 29]),
        ("period: 5 start_time: 4 end_time: 12", PRIMES, [5, 11]),
        ("", [1, 2, 3], [1, 2, 3]),
    ],
)
def test_async_drops_packets_that_follow_too_soon(
    options: str, times: list[int], kept: list[int]
) -> None:
    assert thinned(f"thinner_type: ASYNC {options}", times) == [(time, time) for time in kept]


@pytest.mark.parametrize(
    ("options", "times", "kept"),
    [
        ("period: 5", EVEN, [(0, 2), (5, 6), (10, 10), (15, 14)]),
        ("period: 5 sync_output_timestamps: false", EVEN, [(2, 2), (6, 6), (10, 10), (14, 14)]),
        ("period: 5 start_time: -10", [2, 3], [(0, 2), (5, 3)]),
        ("period: 6 start_time: -144", [-4, -3, 8, 9], [(-6, -4), (0, -3), (6, 8), (12, 9)]),
        ("period: 5 start_time: 4 end_time: 12", PRIMES, [(4, 5), (9, 11)]),
    ],
)
def test_sync_keeps_the_packet_nearest_to_each_centre(
    options: str, times: list[int], kept: list[tuple[int, int]]
) -> None:
    assert thinned(f"thinner_type: SYNC {options}", times) == kept


def test_async_settles_the_timestamps_of_dropped_packets() -> None:
    assert thinned("period: 5", [2, 4, 7], bounds=True) == [
        (2, 2),
        (6, None),
        (7, 7),
        (11, None),
    ]


def test_the_period_can_come_as_side_packet() -> None:
    seen = run(
        thinner("", 'input_side_packet: "PERIOD:period"'),
        at("in", *EVEN),
        side_packets={"period": 5},
    )
    assert [time for time, _ in seen["out"]] == [2, 8, 14]


def test_options_can_come_as_side_packet() -> None:
    text = "node { options { [mediapipe.PacketThinnerCalculatorOptions.ext] { period: 5 } } }"
    seen = run(
        thinner("period: 1", 'input_side_packet: "OPTIONS:options"'),
        at("in", *EVEN),
        side_packets={"options": parse_graph_text(text).node[0].options},
    )
    assert [time for time, _ in seen["out"]] == [2, 8, 14]


@pytest.mark.parametrize(
    ("options", "rate"),
    [
        ("period: 5 update_frame_rate: true", 1e6 / 6),
        ("thinner_type: SYNC period: 5 update_frame_rate: true", 1e6 / 5),
        ("thinner_type: SYNC period: 1 update_frame_rate: true", 1e6 / 2),
        ("period: 5", 1e6 / 2),
    ],
)
def test_the_header_has_the_reduced_frame_rate(options: str, rate: float) -> None:
    seen: list[VideoHeader] = []
    run(
        thinner(options)
        + """node {
          calculator: "CallbackWithHeaderCalculator" input_stream: "INPUT:out"
          input_stream: "HEADER:out" input_side_packet: "CALLBACK:callback"
        }""",
        at("in", 2),
        side_packets={"callback": lambda packet, header: seen.append(header.value)},
        headers={"in": VideoHeader(frame_rate=1e6 / 2)},
    )
    assert seen[0].frame_rate == pytest.approx(rate)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("period: 0", "Specified period must be positive"),
        ("start_time: 5 end_time: 5", "start_time must be earlier than end_time"),
    ],
)
def test_impossible_options_fail_the_start(options: str, message: str) -> None:
    with pytest.raises(RunError, match=message):
        thinned(options, [0])
