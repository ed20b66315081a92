"""PacketResamplerCalculator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from calculators.core.headers import VideoHeader
from graph_runtime import RunError, Timestamp, ValidationError, parse_graph_text
from tests.calculators.core.running import CLOSE, Feed, Running, at, run


def resampler(options: str, sides: str = "") -> str:
    return f"""node {{
      calculator: "PacketResamplerCalculator" {sides} input_stream: "in" output_stream: "out"
      options {{ [mediapipe.PacketResamplerCalculatorOptions.ext] {{ {options} }} }}
    }}"""


def sampled(options: str, times: Sequence[int], **arguments: Any) -> list[tuple[int, int]]:
    """Return (output timestamp, input timestamp) of each output."""
    return run(resampler(options), at("in", *times), **arguments)["out"]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ([16668], [(16668, 16668)]),
        ([0, 16666], [(0, 0)]),
        ([0, 16667], [(0, 0), (33333, 16667)]),
        ([0, 49999], [(0, 0), (33333, 49999)]),
        ([0, 50000], [(0, 0), (33333, 0), (66667, 50000)]),
        (
            [2000, 118666],
            [(2000, 2000), (35333, 2000), (68667, 2000), (102000, 118666)],
        ),
        (
            [0, 16666, 16667, 20000, 33300, 49999, 50000, 66600],
            [(0, 0), (33333, 33300), (66667, 66600)],
        ),
        ([-200, -20, 16466], [(-200, -200)]),
        ([-500, 66667], [(-500, -500), (32833, -500), (66167, 66667)]),
    ],
)
def test_each_period_has_its_nearest_packet(
    times: list[int], expected: list[tuple[int, int]]
) -> None:
    assert sampled("frame_rate: 30", times) == expected


def test_gaps_are_filled_with_the_latest_packet() -> None:
    assert sampled("frame_rate: 30", [0, 5000, 16666, 83334]) == [
        (0, 0),
        (33333, 16666),
        (66667, 16666),
        (100000, 83334),
    ]


def test_the_highest_rate_sends_at_every_microsecond() -> None:
    assert sampled("frame_rate: 1000000", [0, 3, 5]) == [
        (0, 0),
        (1, 0),
        (2, 0),
        (3, 3),
        (4, 3),
        (5, 5),
    ]


def test_outputs_are_settled_while_packets_come() -> None:
    running = Running('input_stream: "in"' + resampler("frame_rate: 30"), bounds=True)
    running.send(*at("in", 0, 5000, 40000))
    assert running.seen["out"][:3] == [(0, 0), (33332, None), (33333, 40000)]
    running.finish()


@pytest.mark.parametrize(
    ("flush", "times"), [("true", [0, 1000000, 2000000]), ("false", [0, 1000000])]
)
def test_the_last_packet_is_flushed_into_the_period_it_is_nearest_to(
    flush: str, times: list[int]
) -> None:
    options = f"frame_rate: 1 flush_last_packet: {flush}"
    seen = sampled(options, [0, 333333, 666667, 1000000, 1333333, 1666667])
    assert [time for time, _ in seen] == times
    seen = sampled(options, [0, 333333, 666667, 1000000, 1333333])
    assert [time for time, _ in seen] == [0, 1000000]


def test_base_timestamp_sets_the_phase() -> None:
    times = [33111, 66667, 100000]
    assert [time for time, _ in sampled("frame_rate: 30", times)] == [33111, 66444, 99778]
    assert [time for time, _ in sampled("frame_rate: 30 base_timestamp: 0", times)] == [
        33333,
        66666,
        100000,
    ]


@pytest.mark.parametrize(
    ("limits", "times"),
    [
        ("start_time: 40000 end_time: 160000", [66667, 100000, 133333]),
        (
            "start_time: 40000 end_time: 160000 round_limits: true",
            [33333, 66667, 100000, 133333, 166667],
        ),
    ],
)
def test_only_outputs_within_the_limits_are_sent(limits: str, times: list[int]) -> None:
    seen = sampled(
        f"frame_rate: 30 base_timestamp: 0 {limits}", [-222, 15000, 32000, 49999, 150000]
    )
    assert [time for time, _ in seen] == times


def test_options_can_come_as_side_packet() -> None:
    text = """node {
      options { [mediapipe.PacketResamplerCalculatorOptions.ext] { frame_rate: 30 } }
    }"""
    seen = run(
        resampler("frame_rate: 60 base_timestamp: 0", 'input_side_packet: "OPTIONS:options"'),
        at("in", -222, 15000, 32000, 49999, 150000),
        side_packets={"options": parse_graph_text(text).node[0].options},
    )
    assert len(seen["out"]) == 6


def with_video_header(options: str, rate: float, times: Sequence[int]) -> dict[str, Any]:
    feeds: list[Feed] = [
        ("header", Timestamp.PRESTREAM, VideoHeader(1, 10, 200, 1.0, rate)),
        ("header", CLOSE),
        *at("in", *times),
    ]
    return run(
        f"""node {{
          calculator: "PacketResamplerCalculator"
          input_stream: "DATA:in" input_stream: "VIDEO_HEADER:header"
          output_stream: "DATA:out" output_stream: "VIDEO_HEADER:header_out"
          options {{ [mediapipe.PacketResamplerCalculatorOptions.ext] {{ {options} }} }}
        }}""",
        feeds,
        watch="out header_out",
    )


@pytest.mark.parametrize(
    ("options", "rate", "times"),
    [
        ("frame_rate: 50", 50.0, [0, 20000]),
        ("frame_rate: 1000 use_input_frame_rate: true", 100.0, [0, 10000, 20000]),
        ("frame_rate: 1000 use_input_frame_rate: true max_frame_rate: 50", 50.0, [0, 20000]),
    ],
)
def test_the_video_header_packet_gets_the_new_rate(
    options: str, rate: float, times: list[int]
) -> None:
    seen = with_video_header(options, 100.0, [0, 5000, 10010, 15001, 20010])
    assert seen["header_out"] == [(Timestamp.PRESTREAM, VideoHeader(1, 10, 200, 1.0, rate))]
    assert [time for time, _ in seen["out"]] == times


@pytest.mark.parametrize(("kind", "rate"), [("PASS_HEADER", 200.0), ("UPDATE_VIDEO_HEADER", 50.0)])
def test_the_streams_own_header_is_passed_on(kind: str, rate: float) -> None:
    seen: list[VideoHeader] = []
    run(
        resampler(f"frame_rate: 50 output_header: {kind}")
        + """node {
          calculator: "CallbackWithHeaderCalculator" input_stream: "INPUT:out"
          input_stream: "HEADER:out" input_side_packet: "CALLBACK:callback"
        }""",
        at("in", 0),
        side_packets={"callback": lambda packet, header: seen.append(header.value)},
        headers={"in": VideoHeader(frame_rate=200.0)},
    )
    assert seen == [VideoHeader(frame_rate=rate)]


@pytest.mark.parametrize("rate", ["", "frame_rate: 0", "frame_rate: 1000001"])
def test_impossible_rates_are_refused(rate: str) -> None:
    with pytest.raises(RunError, match="The output frame rate must be"):
        sampled(rate, [0])


JITTERS = [
    "jitter: 0.25",
    "jitter: 0.25 jitter_with_reflection: true",
    "jitter: 0.25 reproducible_sampling: true",
]
PERIOD = 100_000


def jittered(options: str, times: Sequence[int], seed: str = "seed") -> list[tuple[int, int]]:
    return run(
        resampler(f"frame_rate: 10 {options}", 'input_side_packet: "SEED:seed"'),
        at("in", *times),
        side_packets={"seed": seed},
    )["out"]


@pytest.mark.parametrize("options", JITTERS)
def test_jitter_depends_on_the_seed_alone(options: str) -> None:
    times = range(0, 2_000_000, 7_000)
    assert jittered(options, times) == jittered(options, times)
    assert jittered(options, times) != jittered(options, times, "other")


@pytest.mark.parametrize("options", JITTERS)
def test_jittered_outputs_carry_the_nearest_packet(options: str) -> None:
    seen = jittered(options, range(0, 2_000_000, 7_000))
    assert 15 <= len(seen) <= 26
    assert all(abs(time - packet) <= 3_500 for time, packet in seen[:-1])


@pytest.mark.parametrize("options", JITTERS[1:])
def test_with_reflection_every_period_has_one_output(options: str) -> None:
    seen = jittered(options, range(0, 2_000_000, 7_000))
    assert [time // PERIOD for time, _ in seen] == list(range(20))


def test_reproducible_sampling_finds_the_same_packets_from_the_middle() -> None:
    whole = jittered(JITTERS[2], range(0, 2_000_000, 5_000))
    later = jittered(JITTERS[2], range(995_000, 2_000_000, 5_000))
    assert [entry for entry in later if entry[0] >= 1_000_000] == whole[10:]


@pytest.mark.parametrize("options", JITTERS[:2])
def test_a_stream_shorter_than_a_period_still_gives_a_packet(options: str) -> None:
    assert len(jittered(options, [0, 10, 20])) == 1


@pytest.mark.parametrize("jitter", [-0.5, 1.5])
def test_jitter_must_be_a_fraction(jitter: float) -> None:
    with pytest.raises(ValidationError, match="it must be in 0 < jitter <= 1"):
        jittered(f"jitter: {jitter}", [0])


def test_jitter_needs_a_seed() -> None:
    with pytest.raises(ValidationError, match='tag "SEED"'):
        sampled("frame_rate: 10 jitter: 0.5", [0])
