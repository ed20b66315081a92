"""GateCalculator."""

from __future__ import annotations

import pytest

from graph_runtime import ValidationError
from tests.calculators.core.running import Feed, at, run

GATE = 'node {{ calculator: "GateCalculator" input_stream: "in" output_stream: "out" {} }}'


def controlled(times: dict[int, bool]) -> list[Feed]:
    """Data and control at the same timestamps."""
    feeds: list[Feed] = []
    for time, control in times.items():
        feeds += [("in", time, time), ("c", time, control)]
    return feeds


@pytest.mark.parametrize(("allow", "times"), [("true", [1, 2]), ("false", [])])
def test_the_option_decides_when_nothing_else_is_connected(allow: str, times: list[int]) -> None:
    options = f"options {{ [mediapipe.GateCalculatorOptions.ext] {{ allow: {allow} }} }}"
    seen = run(GATE.format(options), at("in", 1, 2))
    assert [time for time, _ in seen["out"]] == times


def test_a_shut_gate_still_settles_its_output() -> None:
    assert run(GATE.format(""), at("in", 42), bounds=True)["out"] == [(42, None)]


@pytest.mark.parametrize(
    ("tag", "side", "times"),
    [("ALLOW", True, [1]), ("ALLOW", False, []), ("DISALLOW", False, [1]), ("DISALLOW", True, [])],
)
def test_side_packets_decide_for_the_whole_run(tag: str, side: bool, times: list[int]) -> None:
    seen = run(
        GATE.format(f'input_side_packet: "{tag}:side"'), at("in", 1), side_packets={"side": side}
    )
    assert [time for time, _ in seen["out"]] == times


def test_a_gate_shut_by_side_packet_closes_its_output() -> None:
    """A join behind the gate then does not wait for it."""
    seen = run(
        GATE.format('input_side_packet: "ALLOW:side"')
        + """node {
          calculator: "PassThroughCalculator" input_stream: "out" input_stream: "other"
          output_stream: "x" output_stream: "y"
        }""",
        [("in", 1, 1), ("other", 50, "late")],
        watch="y",
        side_packets={"side": False},
    )
    assert seen["y"] == [(50, "late")]


@pytest.mark.parametrize(("tag", "times"), [("ALLOW", [2, 3]), ("DISALLOW", [1, 4])])
def test_streams_decide_for_their_timestamp(tag: str, times: list[int]) -> None:
    seen = run(
        GATE.format(f'input_stream: "{tag}:c"'),
        controlled({1: False, 2: True, 3: True, 4: False}),
    )
    assert [time for time, _ in seen["out"]] == times


@pytest.mark.parametrize(("as_allow", "times"), [("false", [2]), ("true", [1, 2])])
@pytest.mark.parametrize(("tag", "control"), [("ALLOW", True), ("DISALLOW", False)])
def test_an_option_decides_for_timestamps_without_a_control_packet(
    as_allow: str, times: list[int], tag: str, control: bool
) -> None:
    options = (
        "options { [mediapipe.GateCalculatorOptions.ext] "
        f"{{ empty_packets_as_allow: {as_allow} }} }}"
    )
    seen = run(
        GATE.format(f'input_stream: "{tag}:c" {options}'), [*at("in", 1, 2), ("c", 2, control)]
    )
    assert [time for time, _ in seen["out"]] == times


def changes(options: str = "") -> list[tuple[int, bool]]:
    return run(
        f"""node {{
          calculator: "GateCalculator" input_stream: "ALLOW:c" output_stream: "STATE_CHANGE:out"
          {options}
        }}""",
        [("c", 1, False), ("c", 2, True), ("c", 3, True), ("c", 4, False)],
    )["out"]


def test_state_changes_are_reported_without_any_data() -> None:
    assert changes() == [(2, True), (4, False)]


@pytest.mark.parametrize(("state", "first"), [("GATE_ALLOW", [(1, False)]), ("GATE_DISALLOW", [])])
def test_with_an_initial_state_the_first_decision_can_be_a_change(
    state: str, first: list[tuple[int, bool]]
) -> None:
    options = (
        f"options {{ [mediapipe.GateCalculatorOptions.ext] {{ initial_gate_state: {state} }} }}"
    )
    assert changes(options) == [*first, (2, True), (4, False)]


def test_two_controls_are_refused() -> None:
    with pytest.raises(ValidationError, match="at most one of ALLOW and DISALLOW"):
        run(
            GATE.format('input_stream: "ALLOW:c" input_stream: "DISALLOW:d"'),
            [("in", 1, 1), ("c", 1, True), ("d", 1, True)],
        )


def test_data_outputs_must_match_data_inputs() -> None:
    with pytest.raises(ValidationError, match="must match with data input streams"):
        run(GATE.format('input_stream: "more"'), [("in", 1, 1), ("more", 1, 1)])
