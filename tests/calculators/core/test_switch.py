"""SwitchContainer, and the demux and mux it is made of."""

from __future__ import annotations

from typing import Any

import pytest

from graph_runtime import CalculatorGraph, GraphConfigError
from tests.calculators.core.running import CLOSE, Running, at, core_registry, packets, run


def container(ports: str, options: str = "", nodes: str = "") -> str:
    """Return a container; by default channel 0 drops everything and channel 1 passes it on."""
    nodes = nodes or (
        'contained_node { calculator: "GateCalculator" } '
        'contained_node { calculator: "PassThroughCalculator" }'
    )
    return f"""node {{
      calculator: "SwitchContainer" {ports} input_stream: "in" output_stream: "out"
      options {{ [mediapipe.SwitchContainerOptions.ext] {{ {nodes} {options} }} }}
    }}
    node {{
      calculator: "PassThroughCalculator" input_stream: "in" input_stream: "out"
      output_stream: "in_joined" output_stream: "joined"
    }}"""


@pytest.mark.parametrize(
    ("options", "passes"),
    [("", False), ("select: 0", False), ("select: 1", True), ("enable: true", True)],
)
def test_options_choose_the_channel(options: str, passes: bool) -> None:
    seen = run(container("", options), at("in", 1, 2), watch="out in_joined")
    assert seen["out"] == ([(1, 1), (2, 2)] if passes else [])
    assert seen["in_joined"] == [(1, 1), (2, 2)], "what is joined with the output never waits"


@pytest.mark.parametrize(("tag", "value"), [("SELECT", 1), ("ENABLE", True)])
def test_side_packets_choose_the_channel(tag: str, value: Any) -> None:
    seen = run(
        container(f'input_side_packet: "{tag}:choice"', "select: 0"),
        at("in", 1, 2),
        side_packets={"choice": value},
    )
    assert seen["out"] == [(1, 1), (2, 2)]


def test_a_stream_switches_while_the_graph_runs() -> None:
    running = Running(
        'input_stream: "in" input_stream: "on"'
        + container('input_stream: "ENABLE:on"', "async_selection: true"),
        "joined in_joined",
    )
    running.send(*at("in", 10), ("on", 15, True), *at("in", 20, 30), ("on", 35, False))
    running.send(*at("in", 40), ("on", 45, True), *at("in", 50))
    running.finish()
    assert running.seen["joined"] == [(20, 20), (30, 30), (50, 50)]
    assert [time for time, _ in running.seen["in_joined"]] == [10, 20, 30, 40, 50]


@pytest.mark.parametrize("options", ["", "synchronize_io: true"])
def test_a_synchronised_selection_counts_for_its_own_timestamp(options: str) -> None:
    running = Running(
        'input_stream: "in" input_stream: "which"'
        + container('input_stream: "SELECT:which"', options),
        "joined",
    )
    for time, which in [(10, 1), (20, 1), (30, 0), (40, 1)]:
        running.send(("in", time, time), ("which", time, which))
    running.finish()
    assert running.seen["joined"] == [(10, 10), (20, 20), (40, 40)]


def test_only_the_named_inputs_time_the_selection() -> None:
    running = Running(
        """input_stream: "in" input_stream: "other" input_stream: "on"
        node {
          calculator: "SwitchContainer" input_stream: "ENABLE:on"
          input_stream: "A:in" input_stream: "B:other" output_stream: "A:a" output_stream: "B:b"
          options { [mediapipe.SwitchContainerOptions.ext] {
            contained_node {
              calculator: "BypassCalculator" options { [mediapipe.BypassCalculatorOptions.ext] {
                pass_input_stream: "B" pass_output_stream: "B"
              } }
            }
            contained_node { calculator: "PassThroughCalculator" }
            async_selection: true
            tick_input_stream: "A"
          } }
        }""",
        "a b",
    )
    running.send(*at("in", 10), *at("other", 100), ("on", 0, True), *at("in", 20))
    running.send(*at("other", 110))
    running.finish()
    assert running.seen["a"] == [(20, 20)]
    assert running.seen["b"] == [(100, 100), (110, 110)]


def test_side_packets_go_to_all_channels_and_come_from_the_chosen_one() -> None:
    text = """node {
      calculator: "SwitchContainer" input_side_packet: "SELECT:which" input_side_packet: "text"
      output_side_packet: "number"
      options { [mediapipe.SwitchContainerOptions.ext] {
        contained_node { calculator: "StringToIntCalculator" }
        contained_node { calculator: "PassThroughCalculator" }
      } }
    }"""
    for which, value in [(0, 42), (1, "42")]:
        graph = CalculatorGraph(text_config=text, registry=core_registry())
        graph.start_run({"which": which, "text": "42"})
        graph.wait_until_done()
        assert graph.get_output_side_packet("number").value == value


def test_a_container_becomes_a_demux_its_nodes_and_a_mux() -> None:
    graph = CalculatorGraph(
        text_config='input_stream: "in" input_stream: "on"'
        + container('input_stream: "ENABLE:on"'),
        registry=core_registry(),
    )
    assert [node.name for node in graph.plan.config.node][:-1] == [
        "switchcontainer__PacketSequencerCalculator",
        "switchcontainer__SwitchDemuxCalculator",
        "switchcontainer__GateCalculator",
        "switchcontainer__PassThroughCalculator",
        "switchcontainer__SwitchMuxCalculator",
    ]


def test_the_switches_have_their_options_where_the_container_has_them() -> None:
    text = 'input_stream: "in"' + container("", "select: 1")
    of_type = "node_options { [type.googleapis.com/mediapipe.SwitchContainerOptions]"
    for given, field in (
        (text, "options"),
        (text.replace("options { [mediapipe.SwitchContainerOptions.ext]", of_type), "node_options"),
    ):
        graph = CalculatorGraph(text_config=given, registry=core_registry())
        switches = [node for node in graph.plan.config.node if "Switch" in node.calculator]
        assert len(switches) == 2
        for node in switches:
            found = {each.name for each, _ in node.ListFields()} & {"options", "node_options"}
            assert found == {field}


def test_the_same_stream_can_be_connected_twice() -> None:
    seen = run(
        """node {
          calculator: "SwitchContainer" input_stream: "A:in" input_stream: "B:in"
          output_stream: "A:x" output_stream: "B:y"
          options { [mediapipe.SwitchContainerOptions.ext] {
            contained_node { calculator: "PassThroughCalculator" }
          } }
        }""",
        at("in", 1),
        watch="x y",
    )
    assert seen == {"x": [(1, 1)], "y": [(1, 1)]}


def test_containers_nest() -> None:
    inner = """contained_node { calculator: "GateCalculator" }
    contained_node {
      calculator: "SwitchContainer" options { [mediapipe.SwitchContainerOptions.ext] {
        contained_node { calculator: "GateCalculator" }
        contained_node { calculator: "PassThroughCalculator" }
        select: 1
      } }
    }"""
    assert run(container("", "select: 1", inner), at("in", 1))["out"] == [(1, 1)]


@pytest.mark.parametrize(
    ("ports", "options", "message"),
    [
        ("", "select: 1 enable: true", "options 'enable' and 'select'"),
        ('input_stream: "SELECT:a" input_stream: "ENABLE:b"', "", "inputs 'ENABLE' and 'SELECT'"),
        (
            'input_side_packet: "SELECT:a" input_side_packet: "ENABLE:b"',
            "",
            "inputs 'ENABLE' and 'SELECT'",
        ),
    ],
)
def test_two_ways_to_choose_are_refused(ports: str, options: str, message: str) -> None:
    with pytest.raises(GraphConfigError, match=message):
        run(container(ports, options), at("in", 1))


DEMUX = """
input_stream: "select" input_stream: "frame" input_stream: "mask"
node {
  calculator: "SwitchDemuxCalculator"
  input_stream: "SELECT:select" input_stream: "FRAME:frame" input_stream: "MASK:mask"
  output_stream: "C0__FRAME:frame_0" output_stream: "C0__MASK:mask_0"
  output_stream: "C1__FRAME:frame_1"
}
"""


def test_demux_sends_packets_to_the_channel_of_their_timestamp() -> None:
    running = Running(DEMUX, "frame_0 frame_1 mask_0")
    running.send(*packets("select", (1, 0), (11, 1), (20, 1)))
    running.send(*packets("frame", (15, "f15"), (20, "f20"), (25, "f25")), ("mask", 20, "m20"))
    assert running.seen["frame_1"] == [(15, "f15"), (20, "f20")]
    running.send(("select", 30, 0))
    assert running.seen["frame_1"] == [(15, "f15"), (20, "f20"), (25, "f25")]
    running.send(("frame", 30, "f30"), ("mask", 30, "m30"))
    running.finish()
    assert running.seen["frame_0"] == [(30, "f30")]
    assert running.seen["mask_0"] == [(30, "m30")], "channel 1 has no mask: m20 is dropped"


MUX = """
input_stream: "select" input_stream: "f0" input_stream: "f1" input_stream: "m0" input_stream: "m1"
node {
  calculator: "SwitchMuxCalculator" input_stream: "SELECT:select"
  input_stream: "C0__FRAME:f0" input_stream: "C0__MASK:m0"
  input_stream: "C1__FRAME:f1" input_stream: "C1__MASK:m1"
  output_stream: "FRAME:frame" output_stream: "MASK:mask"
}
"""


def muxing() -> Running:
    running = Running(MUX, "frame")
    running.send(("m0", CLOSE), ("m1", CLOSE))
    return running


def test_mux_waits_for_the_selection() -> None:
    running = muxing()
    running.send(*at("f0", 10), *at("f1", 20), *at("f0", 30))
    assert running.seen["frame"] == []
    running.send(*packets("select", (1, 0), (10, 0)))
    assert running.seen["frame"] == [(10, 10)]
    running.send(*packets("select", (11, 1), (20, 1), (21, 0), (30, 0)))
    assert running.seen["frame"] == [(10, 10), (20, 20), (30, 30)]
    running.finish()


def test_mux_waits_for_the_old_channel_to_settle() -> None:
    running = muxing()
    running.send(*packets("select", (1, 0), (11, 1), (20, 1)), *at("f1", 20))
    assert running.seen["frame"] == []
    running.send(*at("f0", 10, 15))
    running.finish()
    assert running.seen["frame"] == [(10, 10), (20, 20)]


def test_mux_drops_packets_of_other_channels() -> None:
    running = muxing()
    running.send(("select", 1, 0), *at("f0", 5), *at("f1", 5), ("select", 10, 0))
    running.send(*at("f1", 11), *at("f0", 11), ("select", 20, 0))
    running.finish()
    assert running.seen["frame"] == [(5, 5), (11, 11)]
