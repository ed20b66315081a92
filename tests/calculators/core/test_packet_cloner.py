"""PacketClonerCalculator."""

from __future__ import annotations

import pytest

from graph_runtime import ValidationError
from tests.calculators.core.running import Feed, at, packets, run

IMMEDIATE = 'input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" }'


def cloner(options: str = "", handler: str = "") -> str:
    return f"""node {{
      calculator: "PacketClonerCalculator"
      input_stream: "a" input_stream: "b" input_stream: "TICK:tick"
      output_stream: "x" output_stream: "y" {handler}
      options {{ [mediapipe.PacketClonerCalculatorOptions.ext] {{ {options} }} }}
    }}"""


def test_ticks_repeat_the_latest_packets() -> None:
    seen = run(
        cloner(handler=IMMEDIATE),
        [
            *at("tick", 0),
            ("a", 10, 1),
            ("b", 10, 2.0),
            *at("tick", 10, 15),
            ("a", 16, 3),
            *at("tick", 20),
        ],
        watch="x y",
    )
    assert seen == {
        "x": [(10, 1), (15, 1), (20, 3)],
        "y": [(10, 2.0), (15, 2.0), (20, 2.0)],
    }


@pytest.mark.parametrize("tick", ["tick", "TICK:tick"])
def test_the_tick_is_tagged_or_last(tick: str) -> None:
    seen = run(
        f"""node {{
          calculator: "PacketClonerCalculator" input_stream: "in" input_stream: "{tick}"
          output_stream: "out"
        }}""",
        [*at("in", 5), *at("tick", 10, 11, 12), *at("in", 15)],
    )
    assert seen["out"] == [(10, 5), (11, 5), (12, 5)]


SPARSE: list[Feed] = [
    *at("tick", 1),
    *packets("a", (2, "a2")),
    *at("tick", 3),
    *packets("b", (4, "b4")),
    *at("tick", 5),
]


@pytest.mark.parametrize(
    ("options", "x"),
    [
        ("", [(1, None), (3, "a2"), (5, "a2")]),
        ("output_only_when_all_inputs_received: true", [(5, "a2")]),
        (
            "output_packets_only_when_all_inputs_received: true",
            [(1, None), (3, None), (5, "a2")],
        ),
    ],
)
def test_ticks_before_all_inputs_have_arrived_follow_the_option(
    options: str, x: list[tuple[int, str | None]]
) -> None:
    assert run(cloner(options, IMMEDIATE), SPARSE, watch="x", bounds=True)["x"] == x


def gated(feeds: list[Feed]) -> list[tuple[int, int | None]]:
    return run(
        """
        node {
          calculator: "GateCalculator" input_stream: "tick" input_stream: "ALLOW:tick_on"
          output_stream: "tick_gated"
        }
        node {
          calculator: "GateCalculator" input_stream: "in" input_stream: "ALLOW:in_on"
          output_stream: "in_gated"
        }
        node {
          calculator: "PacketClonerCalculator" input_stream: "in_gated"
          input_stream: "TICK:tick_gated" output_stream: "out"
        }
        """,
        feeds,
        bounds=True,
    )["out"]


def test_bounds_follow_the_tick() -> None:
    assert gated(
        [
            ("in_on", 100, True),
            ("in", 100, 1),
            ("tick_on", 100, True),
            ("tick", 100, 0),
            ("tick_on", 110, False),
            ("tick", 110, 0),
            ("in_on", 200, False),
            ("in", 200, 2),
        ]
    ) == [(100, 1), (110, None)]


def test_a_node_without_a_tick_is_refused() -> None:
    with pytest.raises(ValidationError, match="there must be a tick"):
        run('node { calculator: "PacketClonerCalculator" input_stream: "X:in" }', at("in", 0))
