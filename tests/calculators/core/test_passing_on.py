"""Calculators that hand packets on: pass through, merge, pair, join, deal out, bypass."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.core.callback_calculator import PacketSink
from graph_runtime import Code, Packet, RunError, Timestamp, ValidationError
from tests.calculators.core.running import BOUND, CLOSE, at, packets, run, side_outputs


def test_pass_through_keeps_packets_tags_and_order() -> None:
    seen = run(
        """node {
          calculator: "PassThroughCalculator"
          input_stream: "AUDIO:a" input_stream: "VIDEO:0:b" input_stream: "VIDEO:1:c"
          output_stream: "AUDIO:x" output_stream: "VIDEO:0:y" output_stream: "VIDEO:1:z"
        }""",
        [("a", 0, 1), ("b", 0, "v"), ("c", 0, 2.5), ("a", 1, 3), ("b", CLOSE), ("c", CLOSE)],
        watch="x y z",
    )
    assert seen == {"x": [(0, 1), (1, 3)], "y": [(0, "v")], "z": [(0, 2.5)]}


def test_pass_through_settles_all_outputs_at_each_timestamp() -> None:
    seen = run(
        """node {
          calculator: "PassThroughCalculator"
          input_stream: "a" input_stream: "b" output_stream: "x" output_stream: "y"
        }""",
        [*at("a", 0, 1), *at("b", 1)],
        watch="x y",
        bounds=True,
    )
    assert seen == {"x": [(0, 0), (1, 1)], "y": [(0, None), (1, 1)]}


def test_pass_through_takes_side_packets_along() -> None:
    text = """node {
      calculator: "PassThroughCalculator"
      input_side_packet: "a" input_side_packet: "B:b"
      output_side_packet: "x" output_side_packet: "B:y"
    }"""
    assert side_outputs(text, "x y", {"a": 1, "b": "two"}) == [1, "two"]


def test_pass_through_runs_calls_in_parallel_in_order() -> None:
    seen = run(
        """num_threads: 2
        node {
          calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out"
          max_in_flight: 3
        }""",
        at("in", *range(20)),
    )
    assert seen["out"] == [(time, time) for time in range(20)]


def test_pass_through_refuses_ports_that_do_not_match() -> None:
    with pytest.raises(ValidationError, match="must use matching tags and indexes"):
        run(
            """node {
              calculator: "PassThroughCalculator" input_stream: "A:in" output_stream: "B:out"
            }""",
            at("in", 0),
        )


def header_seen_behind(node: str, **arguments: Any) -> Any:
    """Return the header of stream "out" of a node."""
    seen: list[tuple[Packet, Packet]] = []
    run(
        node
        + """node {
          calculator: "CallbackWithHeaderCalculator"
          input_stream: "INPUT:out" input_stream: "HEADER:out"
          input_side_packet: "CALLBACK:callback"
        }""",
        side_packets={
            "callback": lambda packet, header: seen.append((packet, header)),
            **arguments.pop("side_packets", {}),
        },
        **arguments,
    )
    return seen[0][1].value


@pytest.mark.parametrize(
    "node",
    [
        'calculator: "PassThroughCalculator"',
        """calculator: "GateCalculator"
        options { [mediapipe.GateCalculatorOptions.ext] { allow: true } }""",
    ],
    ids=["pass through", "gate"],
)
def test_headers_are_passed_on(node: str) -> None:
    header = header_seen_behind(
        f'node {{ {node} input_stream: "in" output_stream: "out" }}',
        feeds=at("in", 0),
        headers={"in": "the header"},
    )
    assert header == "the header"


def test_add_header_takes_it_from_a_side_packet() -> None:
    header = header_seen_behind(
        """node {
          calculator: "AddHeaderCalculator" input_stream: "DATA:in"
          input_side_packet: "HEADER:header" output_stream: "out"
        }""",
        feeds=at("in", 0),
        side_packets={"header": "from the side"},
    )
    assert header == "from the side"


def test_add_header_takes_it_from_a_stream() -> None:
    header = header_seen_behind(
        """node {
          calculator: "AddHeaderCalculator" input_stream: "DATA:in" input_stream: "HEADER:h"
          output_stream: "out"
        }""",
        feeds=[*at("in", 0), ("h", CLOSE)],
        headers={"h": "from the stream"},
    )
    assert header == "from the stream"


def test_add_header_needs_exactly_one_header() -> None:
    with pytest.raises(ValidationError, match="HEADER must be connected"):
        run(
            'node { calculator: "AddHeaderCalculator" input_stream: "DATA:in" output_stream: "o" }',
            at("in", 0),
        )


def test_merge_takes_the_first_stream_that_has_a_packet() -> None:
    seen = run(
        'node { calculator: "MergeCalculator" input_stream: "a" input_stream: "b" '
        'output_stream: "out" }',
        [("a", 1, "a1"), ("b", 1, "b1"), ("b", 2, "b2"), ("a", 3, "a3"), ("b", 3, "b3")],
    )
    assert seen["out"] == [(1, "a1"), (2, "b2"), (3, "a3")]


def test_make_pair_has_empty_packets_for_what_is_missing() -> None:
    seen = run(
        'node { calculator: "MakePairCalculator" input_stream: "a" input_stream: "b" '
        'output_stream: "out" }',
        [("a", 1, 1), ("b", 1, 2), ("a", 3, 4), ("b", 5, 6)],
    )
    values = [
        (time, [None if each.is_empty() else each.value for each in pair])
        for time, pair in seen["out"]
    ]
    assert values == [(1, [1, 2]), (3, [4, None]), (5, [None, 6])]


def test_inner_join_keeps_only_timestamps_of_all_streams() -> None:
    seen = run(
        """node {
          calculator: "PacketInnerJoinCalculator"
          input_stream: "a" input_stream: "b" output_stream: "x" output_stream: "y"
        }""",
        [*at("a", 0, 1, 2, 3, 4, 6), *at("b", 0, 2, 4, 5, 6)],
        watch="x y",
    )
    assert seen["x"] == seen["y"] == [(0, 0), (2, 2), (4, 4), (6, 6)]


def test_round_robin_distributes_packets_and_sends_the_index() -> None:
    seen = run(
        """node {
          calculator: "RoundRobinDemuxCalculator" input_stream: "in"
          output_stream: "OUTPUT:0:a" output_stream: "OUTPUT:1:b" output_stream: "SELECT:s"
        }""",
        at("in", 0, 1, 2),
        watch="a b s",
        bounds=True,
    )
    assert seen == {
        "a": [(0, 0), (1, None), (2, 2)],
        "b": [(0, None), (1, 1), (2, None)],
        "s": [(0, 0), (1, 1), (2, 0)],
    }


def test_bypass_passes_the_named_pairs_and_settles_the_rest() -> None:
    seen = run(
        """node {
          calculator: "BypassCalculator"
          input_stream: "PASS:a" input_stream: "IGNORE:v"
          output_stream: "PASS:o" output_stream: "IGNORE:g"
          node_options {
            [type.googleapis.com/mediapipe.BypassCalculatorOptions] {
              pass_input_stream: "PASS" pass_output_stream: "PASS"
            }
          }
        }""",
        [("a", 200, "a1"), ("v", 200, "v1")],
        watch="o g",
        bounds=True,
    )
    assert seen == {"o": [(200, "a1")], "g": [(200, None)]}


def test_bypass_wants_pairs() -> None:
    with pytest.raises(ValidationError, match="they must be pairs"):
        run(
            """node {
              calculator: "BypassCalculator" input_stream: "in" output_stream: "out"
              options { [mediapipe.BypassCalculatorOptions.ext] { pass_input_stream: "" } }
            }""",
            at("in", 0),
        )


def test_presence_distinguishes_packets_from_settled_timestamps() -> None:
    seen = run(
        'node { calculator: "PacketPresenceCalculator" input_stream: "PACKET:in" '
        'output_stream: "PRESENCE:out" }',
        [("in", 10, "x"), ("in", 21, BOUND), ("in", 30, "y")],
    )
    assert seen["out"] == [(10, True), (20, False), (30, True)]


def test_callbacks_get_packets_of_all_streams() -> None:
    seen: list[list[object]] = []
    run(
        """node {
          calculator: "CallbackCalculator" input_stream: "a" input_stream: "b"
          input_side_packet: "VECTOR_CALLBACK:callback"
        }""",
        [*packets("a", (0, "a0")), *packets("b", (0, "b0"), (1, "b1")), ("a", CLOSE)],
        watch="",
        side_packets={
            "callback": lambda row: seen.append([None if p.is_empty() else p.value for p in row])
        },
    )
    assert seen == [["a0", "b0"], [None, "b1"]]


def test_callbacks_can_see_bounds() -> None:
    seen: list[tuple[int, bool]] = []
    run(
        """node {
          calculator: "CallbackCalculator" input_stream: "in"
          input_side_packet: "CALLBACK:callback" input_side_packet: "OBSERVE_TIMESTAMP_BOUNDS:yes"
        }""",
        [("in", 3, "x"), ("in", 10, BOUND)],
        watch="",
        side_packets={"callback": lambda p: seen.append((p.time, p.is_empty())), "yes": True},
    )
    assert seen == [(3, False), (9, True)]


def sink_text(kind: str, pointer: str) -> str:
    return f"""
        node {{
          calculator: "CallbackPacketCalculator" output_side_packet: "keep"
          options {{
            [mediapipe.CallbackPacketCalculatorOptions.ext] {{
              type: {kind} pointer: "{pointer}"
            }}
          }}
        }}
        node {{
          calculator: "CallbackCalculator" input_stream: "in"
          input_side_packet: "CALLBACK:keep"
        }}"""


def test_a_sink_keeps_all_packets_of_a_stream() -> None:
    sink = PacketSink()
    run(sink_text("VECTOR_PACKET", sink.pointer), packets("in", (1, "x"), (5, "y")), watch="")
    assert [(each.time, each.value) for each in sink] == [(1, "x"), (5, "y")]


def test_a_sink_keeps_the_packet_after_the_stream() -> None:
    sink = PacketSink()
    text = sink_text("POST_STREAM_PACKET", sink.pointer)
    run(text, packets("in", (1, "x")), watch="")
    assert sink == []
    run(text, packets("in", (Timestamp.POSTSTREAM, "summary")), watch="")
    assert [each.value for each in sink] == ["summary"]


def test_a_pointer_is_followed_only_to_a_sink_that_lives() -> None:
    gone = PacketSink().pointer
    for pointer in (gone, hex(id(object)), "no digits"):
        with pytest.raises(RunError, match="pointer is not that of a PacketSink") as caught:
            run(sink_text("VECTOR_PACKET", pointer), packets("in", (1, "x")), watch="")
        assert caught.value.code is Code.INVALID_ARGUMENT
    with pytest.raises(ValidationError, match="type is VECTOR_PACKET or POST_STREAM_PACKET"):
        run(sink_text("UNKNOWN", gone), packets("in", (1, "x")), watch="")
