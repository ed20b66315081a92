"""Side packets: constants, defaults, numbers, from streams and into streams."""

from __future__ import annotations

from typing import Any

import pytest

from graph_runtime import Packet, RunError, Timestamp, ValidationError
from tests.calculators.core.running import Running, at, packets, run, side_outputs


def constants(*values: str) -> list[Any]:
    names = [f"s{index}" for index in range(len(values))]
    ports = " ".join(f'output_side_packet: "PACKET:{i}:{n}"' for i, n in enumerate(names))
    options = " ".join(f"packet {{ {value} }}" for value in values)
    text = f"""node {{
      calculator: "ConstantSidePacketCalculator" {ports}
      options {{ [mediapipe.ConstantSidePacketCalculatorOptions.ext] {{ {options} }} }}
    }}"""
    return side_outputs(text, " ".join(names), {})


def test_constants_have_the_types_of_their_options() -> None:
    values = constants(
        "int_value: 2",
        "uint64_value: 18446744073709551615",
        "int64_value: -9000000000",
        "float_value: 0.5",
        "double_value: 0.1",
        "bool_value: true",
        'string_value: "text"',
    )
    expected = [2, 18446744073709551615, -9000000000, 0.5, 0.1, True, "text"]
    assert values == expected
    assert [type(value) for value in values] == [type(value) for value in expected]


def test_constants_can_be_lists_and_messages() -> None:
    strings, floats, ints, classification = constants(
        'string_vector_value { string_value: ["a", "b"] }',
        "float_vector_value { float_value: [0.5, 1] }",
        "int_vector_value { int_value: [1, 2] }",
        'classification_list_value { classification { index: 3 label: "cat" } }',
    )
    assert (strings, floats, ints) == (["a", "b"], [0.5, 1.0], [1, 2])
    assert classification.classification[0].label == "cat"


def test_constants_and_side_packets_must_match_in_number() -> None:
    with pytest.raises(ValidationError, match="has to be same as number of packets"):
        run(
            """node {
              calculator: "ConstantSidePacketCalculator" output_side_packet: "PACKET:0:a"
              output_side_packet: "PACKET:1:b"
              options {
                [mediapipe.ConstantSidePacketCalculatorOptions.ext] { packet { int_value: 1 } }
              }
            }""",
            watch="",
        )


def test_a_constant_must_have_a_value() -> None:
    with pytest.raises(ValidationError, match="packet 0 is empty"):
        constants("")


def test_constants_have_types_that_readers_are_checked_against() -> None:
    with pytest.raises(ValidationError, match='expected a packet of type "string"'):
        run(
            """
            node {
              calculator: "ConstantSidePacketCalculator" output_side_packet: "PACKET:a"
              options {
                [mediapipe.ConstantSidePacketCalculatorOptions.ext] { packet { int_value: 1 } }
              }
            }
            node {
              calculator: "StringToIntCalculator" input_side_packet: "a" output_side_packet: "b"
            }
            """,
            watch="",
        )


@pytest.mark.parametrize(("given", "value"), [({}, "default"), ({"given": "given"}, "given")])
def test_a_default_stands_in_for_a_missing_side_packet(given: dict[str, str], value: str) -> None:
    text = """node {
      calculator: "DefaultSidePacketCalculator"
      input_side_packet: "OPTIONAL_VALUE:given" input_side_packet: "DEFAULT_VALUE:default"
      output_side_packet: "VALUE:value"
    }"""
    assert side_outputs(text, "value", {"default": "default", **given}) == [value]


def test_a_missing_default_is_refused() -> None:
    with pytest.raises(ValidationError, match="Default value must be provided"):
        run(
            'node { calculator: "DefaultSidePacketCalculator" '
            'input_side_packet: "OPTIONAL_VALUE:a" output_side_packet: "VALUE:v" }',
            watch="",
        )


def number(kind: str, text: str) -> int:
    node = f"""node {{
      calculator: "StringTo{kind}Calculator" input_side_packet: "text" output_side_packet: "n"
    }}"""
    value: int = side_outputs(node, "n", {"text": text})[0]
    return value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("Int", "42", 42),
        ("Int", " -7\n", -7),
        ("Int32", "+2147483647", 2147483647),
        ("Uint", "4294967295", 4294967295),
        ("Uint32", "0", 0),
        ("Int64", "-9223372036854775808", -(2**63)),
        ("Uint64", "18446744073709551615", 2**64 - 1),
    ],
)
def test_strings_become_numbers(kind: str, text: str, value: int) -> None:
    assert number(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("Int", "4x"),
        ("Int", ""),
        ("Int", "1_000"),
        ("Int", "1.0"),
        ("Int", "\N{ARABIC-INDIC DIGIT FOUR}"),
        ("Int", "2147483648"),
        ("Uint", "-1"),
        ("Uint64", "18446744073709551616"),
        ("Int", "0" * 1000),
    ],
)
def test_strings_that_are_no_number_of_the_type_fail_the_start(kind: str, text: str) -> None:
    with pytest.raises(RunError, match="could not be parsed as an integer"):
        number(kind, text)


def to_stream(ports: str, **arguments: Any) -> dict[str, list[tuple[int, Any]]]:
    return run(f'node {{ calculator: "SidePacketToStreamCalculator" {ports} }}', **arguments)


@pytest.mark.parametrize(
    ("tag", "time"),
    [
        ("AT_PRESTREAM", Timestamp.PRESTREAM),
        ("AT_POSTSTREAM", Timestamp.POSTSTREAM),
        ("AT_ZERO", 0),
    ],
)
def test_side_packets_go_into_streams_at_fixed_times(tag: str, time: int) -> None:
    seen = to_stream(
        f"""input_side_packet: "a" input_side_packet: "b"
        output_stream: "{tag}:0:x" output_stream: "{tag}:1:y" """,
        watch="x y",
        side_packets={"a": 1, "b": "two"},
    )
    assert seen == {"x": [(time, 1)], "y": [(time, "two")]}


def test_side_packets_go_into_streams_at_a_given_time() -> None:
    seen = to_stream(
        'input_side_packet: "a" input_side_packet: "TIMESTAMP:t" output_stream: "AT_TIMESTAMP:out"',
        side_packets={"a": 1, "t": 42},
    )
    assert seen["out"] == [(42, 1)]


@pytest.mark.parametrize(("tag", "times"), [("AT_TICK", [5, 7, 9]), ("AT_FIRST_TICK", [5])])
def test_side_packets_go_into_streams_at_ticks(tag: str, times: list[int]) -> None:
    seen = to_stream(
        f'input_stream: "TICK:tick" input_side_packet: "a" output_stream: "{tag}:out"',
        feeds=at("tick", 5, 7, 9),
        side_packets={"a": "x"},
    )
    assert seen["out"] == [(time, "x") for time in times]


@pytest.mark.parametrize(
    ("ports", "message"),
    [
        ('output_stream: "AT_ZERO:x" output_stream: "AT_PRESTREAM:y"', "Only one of AT_PRESTREAM"),
        ('output_stream: "OTHER:x"', "Only one of AT_PRESTREAM"),
        ('output_stream: "AT_TICK:x"', "Either both TICK input and tick"),
        ('output_stream: "AT_TIMESTAMP:x"', "Either both TIMESTAMP and AT_TIMESTAMP"),
        (
            'output_stream: "AT_ZERO:0:x" output_stream: "AT_ZERO:1:y"',
            "Same number of input side packets and output streams is required",
        ),
    ],
)
def test_ports_that_do_not_match_are_refused(ports: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        to_stream(f'input_side_packet: "a" {ports}', watch="")


def test_the_only_packet_of_a_stream_becomes_a_side_packet() -> None:
    running = Running(
        """input_stream: "in" input_stream: "tick"
        node { calculator: "StreamToSidePacketCalculator" input_stream: "in"
               output_side_packet: "side" }
        node { calculator: "SidePacketToStreamCalculator" input_stream: "TICK:tick"
               input_side_packet: "side" output_stream: "AT_TICK:out" }"""
    )
    running.send(*at("tick", 0))
    assert running.seen["out"] == [], "the node waits for its side packet"
    running.send(("in", 1, "value"), *at("tick", 5))
    assert running.seen["out"] == [(0, "value"), (5, "value")]
    running.finish()
    assert running.graph.get_output_side_packet("side").value == "value"


def test_a_second_packet_is_an_error() -> None:
    with pytest.raises(RunError, match="was already set"):
        run(
            'node { calculator: "StreamToSidePacketCalculator" input_stream: "in" '
            'output_side_packet: "side" }',
            packets("in", (1, "a"), (2, "b")),
            watch="",
        )


def test_a_side_packet_at_the_end_of_time_for_tools() -> None:
    seen = run(
        """node {
          calculator: "MediaPipeInternalSidePacketToPacketStreamCalculator"
          input_side_packet: "side" output_stream: "out"
        }""",
        side_packets={"side": 3},
    )
    assert seen["out"] == [(Timestamp.POSTSTREAM, 3)]


def from_side_packets(options: str, **side_packets: Any) -> dict[str, list[tuple[int, Any]]]:
    return run(
        f"""node {{
          calculator: "SidePacketsToStreamsCalculator"
          input_side_packet: "a" input_side_packet: "b" output_stream: "x" output_stream: "y"
          options {{ [mediapipe.SidePacketsToStreamsCalculatorOptions.ext] {{ {options} }} }}
        }}""",
        watch="x y",
        side_packets=side_packets,
    )


def test_lists_of_packets_become_streams() -> None:
    a, b = [Packet("a0", 5), Packet("a1", 7)], [Packet("b0", 6), Packet("b1", 8)]
    assert from_side_packets("", a=a, b=b) == {
        "x": [(0, "a0"), (1, "a1")],
        "y": [(0, "b0"), (1, "b1")],
    }
    assert from_side_packets("set_timestamp: NONE", a=a, b=b) == {
        "x": [(5, "a0"), (7, "a1")],
        "y": [(6, "b0"), (8, "b1")],
    }


@pytest.mark.parametrize(
    ("mode", "time"),
    [
        ("WHOLE_STREAM", Timestamp.POSTSTREAM),
        ("PRE_STREAM", Timestamp.PRESTREAM),
        ("VECTOR_INDEX", 0),
    ],
)
def test_single_values_become_streams(mode: str, time: int) -> None:
    options = f"vectors_of_packets: false set_timestamp: {mode}"
    assert from_side_packets(options, a=1, b="two") == {"x": [(time, 1)], "y": [(time, "two")]}


def test_lists_of_different_lengths_are_refused() -> None:
    with pytest.raises(RunError, match="vectors of different sizes: 1, 2"):
        from_side_packets("", a=[Packet(1)], b=[Packet(1), Packet(2)])
