"""Validation of graphs: all findings at once, with places and near names."""

from __future__ import annotations

from typing import Any

import pytest

from graph_runtime import (
    Calculator,
    Code,
    GraphConfigError,
    GraphError,
    In,
    NotFoundError,
    Registry,
    SideIn,
    SideOut,
    ValidatedGraph,
    ValidationError,
    parse_graph_text,
    validate_graph,
)
from graph_runtime.language.source_map import node_positions
from tests.graph_runtime.small_calculators import one_node


def plan(text: str, registry: Registry, **more: Any) -> ValidatedGraph:
    return validate_graph(parse_graph_text(text), registry=registry, **more)


def findings(text: str, registry: Registry, **more: Any) -> list[str]:
    """Return validation's findings, one text each."""
    with pytest.raises(ValidationError) as caught:
        plan(text, registry, **more)
    assert str(caught.value).startswith("ValidatedGraphConfig Initialization failed.\n")
    assert all(isinstance(finding, GraphError) for finding in caught.value.findings)
    return [str(finding) for finding in caught.value.findings]


# Everything at once -------------------------------------------------------------------------------

BROKEN = """
    input_stream: "in"
    packet_generator { packet_generator: "OldGenerator" }
    status_handler { status_handler: "OldHandler" }
    executor { name: "__mine" type: "ThreadPoolExecutor" }
    node { calculator: "Doubel" input_stream: "in" output_stream: "a" }
    node { calculator: "Double" input_stream: "in" input_stream: "in" output_stream: "b" }
    node { calculator: "Double" input_stream: "Bad Name" output_stream: "c" }
    node { calculator: "Double" input_stream: "nowhere" output_stream: "d"
           executor: "undeclared" }
    node { calculator: "Double" input_stream: "in" output_stream: "e"
           input_stream_handler { input_stream_handler: "ImediateInputStreamHandler" } }
"""


@pytest.mark.parametrize(
    "streams", ['input_stream: "T:1:a"', 'input_stream: "a" output_stream: "B"']
)
def test_wrong_names_are_reported_of_an_unknown_calculator_too(
    registry: Registry, streams: str
) -> None:
    found = findings(f'node {{ calculator: "Nothing" {streams} }}', registry)
    assert "Unable to initialize TagMaps for node." in found[0]
    assert 'Unable to find Calculator "Nothing"' in found[1]


def test_every_finding_is_reported_not_the_first_only(registry: Registry) -> None:
    text = "\n".join(findings(BROKEN, registry))

    for part in (
        'Unable to find PacketGenerator "OldGenerator"',
        'Unable to find StatusHandler "OldHandler"',
        '"__mine" is a reserved executor name.',
        'Unable to find Calculator "Doubel". Did you mean "Double"',
        "Double::GetContract failed to validate: \nFor input streams of Double_1",
        '"Bad Name" does not match',
        'Input Stream "nowhere" for node',
        'The executor "undeclared" is not declared in an ExecutorConfig.',
        '"ImediateInputStreamHandler" is not a registered input stream handler. Did you mean '
        '"ImmediateInputStreamHandler"',
    ):
        assert part in text


def test_findings_have_the_positions_of_their_nodes(registry: Registry) -> None:
    positions = [f"graph.pbtxt:{line}" for line, _ in node_positions(BROKEN)]
    told = findings(BROKEN, registry, positions=positions)

    assert [finding.partition(": ")[0] for finding in told if finding.startswith("graph")] == [
        f"graph.pbtxt:{line}" for line in (6, 7, 8, 9, 11, 9)
    ]


def test_the_code_of_several_findings_is_the_one_they_share(registry: Registry) -> None:
    with pytest.raises(ValidationError) as caught:
        plan('node { calculator: "A" } node { calculator: "B" }', registry)
    assert caught.value.code is Code.NOT_FOUND
    assert [type(finding) for finding in caught.value.findings] == [NotFoundError, NotFoundError]
    with pytest.raises(ValidationError) as caught:
        plan(BROKEN, registry)
    assert caught.value.code is Code.UNKNOWN


def test_warnings_do_not_stop_a_graph(registry: Registry) -> None:
    graph = plan(
        one_node("Forward", 'input_stream_info { tag_index: ":0" back_edge: true }'), registry
    )
    assert [str(warning) for warning in graph.warnings] == [
        'node "Forward": back_edge of input stream "in" is not needed, its producer comes earlier',
    ]


# Streams ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'node { calculator: "Forward" input_stream: "vidoe" output_stream: "x" }'
            'input_stream: "video"',
            'Input Stream "vidoe" for node with sorted index 0 name Forward does not have a '
            'corresponding output stream. Did you mean "video"?',
        ),
        (
            'input_stream: "a" node { calculator: "Forward" input_stream: "a" output_stream: "a" }',
            'Output Stream "a" defined twice.',
        ),
        (
            'node { calculator: "PlusOneSide" input_side_packet: "x" output_side_packet: "y" }'
            'node { calculator: "PlusOneSide" input_side_packet: "x" output_side_packet: "y" }',
            'Output Side Packet "y" defined twice.',
        ),
        (
            'input_stream: "a" node { calculator: "Join" input_stream: "LEFT:a" '
            'input_stream: "RIGHT:loop" output_stream: "b" '
            'input_stream_info { tag_index: "RIGHT" back_edge: true } }',
            'Unable to find upstream edge for back edge "loop"',
        ),
        (
            'input_stream: "a" node { name: "j" calculator: "Forward" input_stream: "a" '
            'output_stream: "b" input_stream_info { tag_index: "LOOP:1" back_edge: true } }',
            'Input stream with tag_index "LOOP:1" requested in InputStreamInfo but is not an '
            "input stream of the calculator. (node j: a)",
        ),
        (
            'input_stream: "a" node { calculator: "Forward" input_stream: "a" output_stream: "b" '
            'input_stream_info { tag_index: "" } input_stream_info { tag_index: ":0" } }',
            'Input stream with tag_index ":0" has more than one InputStreamInfo.',
        ),
    ],
)
def test_unconnected_streams_are_findings(registry: Registry, text: str, message: str) -> None:
    told = findings(text, registry)
    assert len(told) == 1
    assert message in told[0]


LOOP = """
    input_stream: "in"
    node { name: "a" calculator: "Join" input_stream: "LEFT:in" input_stream: "RIGHT:c"
           output_stream: "b" %s }
    node { name: "b" calculator: "Forward" input_stream: "b" output_stream: "bb" }
    node { name: "c" calculator: "Forward" input_stream: "bb" output_stream: "c" }
    node { name: "outside" calculator: "Forward" input_stream: "c" output_stream: "d" }
"""


def test_a_cycle_is_named_with_the_remedy(registry: Registry) -> None:
    [told] = findings(LOOP % "", registry)

    assert "stream cycle detected in graph: [a, b, c]" in told
    assert "back_edge: true" in told


def test_a_back_edge_makes_a_cycle_a_loop(registry: Registry) -> None:
    graph = plan(LOOP % 'input_stream_info { tag_index: "RIGHT" back_edge: true }', registry)

    assert [node.name for node in graph.nodes] == ["a", "b", "c", "outside"]
    assert [each.is_back_edge for each in graph.nodes[0].input_plans] == [False, True]


def test_nodes_are_sorted_only_if_necessary(
    registry: Registry,
) -> None:
    def order(*nodes: tuple[str, str, str]) -> list[str]:
        text = 'input_stream: "in" ' + " ".join(
            f'node {{ name: "{name}" calculator: "Forward" input_stream: "{source}" '
            f'output_stream: "{target}" }}'
            for name, source, target in nodes
        )
        return [node.name for node in plan(text, registry).nodes]

    assert order(("x", "in", "p"), ("y", "in", "q")) == ["x", "y"]
    assert order(("last", "b", "c"), ("first", "in", "a"), ("mid", "a", "b")) == [
        "first", "mid", "last",
    ]  # fmt: skip


# Handlers -----------------------------------------------------------------------------------------

SYNC_SETS = """
    input_stream: "x" input_stream: "y"
    node {{ name: "join" calculator: "Join" input_stream: "LEFT:x" input_stream: "RIGHT:y"
            output_stream: "out"
            input_stream_handler {{
              input_stream_handler: "SyncSetInputStreamHandler"
              options {{ [mediapipe.SyncSetInputStreamHandlerOptions.ext] {{ {} }} }} }} }}
"""


@pytest.mark.parametrize(
    ("sets", "message"),
    [
        ('sync_set { tag_index: "LEFTT" }', r'"LEFTT" is not found .* LEFT, RIGHT\. Did you mean'),
        ('sync_set { tag_index: "LEFT:1" }', '"LEFT:1" is not found'),
        ('sync_set { tag_index: "left" }', "TAG:index is invalid"),
        (
            'sync_set { tag_index: "LEFT" } sync_set { tag_index: "LEFT:0" }',
            '"LEFT:0" is in more than one sync set',
        ),
        ("sync_set { }", "sync_set 0 lists no tag_index"),
    ],
)
def test_sync_sets_name_streams_of_their_node(registry: Registry, sets: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message) as caught:
        plan(SYNC_SETS.format(sets), registry)
    assert 'node "join"' in str(caught.value)


def test_the_nodes_handler_wins_over_the_graphs_and_that_over_the_contracts(
    registry: Registry,
) -> None:
    class WantsImmediate(Calculator):
        value = In[Any]()
        input_stream_handler = "ImmediateInputStreamHandler"

    registry.register_calculator(WantsImmediate)
    text = 'input_stream: "in" {} node {{ calculator: "WantsImmediate" input_stream: "in" {} }}'
    given = 'input_stream_handler {{ input_stream_handler: "{}InputStreamHandler" }}'
    barrier, mux = given.format("Barrier"), given.format("EarlyClose")
    for graph, node, name in (
        ("", "", "Immediate"),
        (barrier, "", "Barrier"),
        (barrier, mux, "EarlyClose"),
        ("", mux, "EarlyClose"),
    ):
        handler = plan(text.format(graph, node), registry).nodes[0].handler_name
        assert handler == f"{name}InputStreamHandler"


# Executors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('executor { name: "default" }', '"default" is a reserved executor name.'),
        ('executor { name: "gpu" }', '"gpu" is a reserved executor name.'),
        (
            'executor { name: "x" type: "ApplicationThreadExecutor" } '
            'executor { name: "x" type: "ApplicationThreadExecutor" }',
            'ExecutorConfig for "x" is duplicate.',
        ),
        ("executor { } executor { }", "ExecutorConfig for the default executor is duplicate."),
        ("num_threads: 1 executor { }", "num_threads field should not both be specified"),
        ("num_threads: -2", "should be positive but is -2"),
        ('executor { name: "x" }', 'ExecutorConfig for "x" does not have a "type" field.'),
        (
            'executor { name: "x" type: "ThreadPoolExecutor" }',
            "num_threads is not specified in ThreadPoolExecutorOptions.",
        ),
        (
            'executor { name: "x" type: "ThreadPoolExecutor" options { '
            "[mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: -1 } } }",
            "should be positive but is -1",
        ),
        ('executor { name: "x" type: "Magic" }', '"Magic" is not a registered executor'),
    ],
)
def test_impossible_executors_are_refused(registry: Registry, text: str, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        plan(text, registry)
    assert message in str(caught.value)


def test_an_unknown_executor_has_a_near_name(registry: Registry) -> None:
    text = one_node(
        "Forward",
        'executor: "pol"',
        'executor { name: "pool" type: "ApplicationThreadExecutor" }',
    )
    assert 'Did you mean "pool"?' in findings(text, registry)[0]


def test_num_threads_becomes_an_executor_in_the_canonical_config(registry: Registry) -> None:
    config = plan("num_threads: 3", registry).config

    assert config.num_threads == 0
    assert [(each.name, each.HasField("options")) for each in config.executor] == [("", True)]


# Side packets and services ------------------------------------------------------------------------


def test_a_side_packet_of_two_types_is_refused(registry: Registry) -> None:
    class MakesText(Calculator):
        text = SideOut[str]()

    class NeedsNumber(Calculator):
        number = SideIn[int]()

    registry.register_calculator(MakesText)
    registry.register_calculator(NeedsNumber)
    [told] = findings(
        'node { calculator: "MakesText" output_side_packet: "x" } '
        'node { name: "n" calculator: "NeedsNumber" input_side_packet: "x" }',
        registry,
    )
    assert told == (
        'Input side packet "x" of Calculator "n" expected a packet of type "int" but the connected '
        'output side packet will be of type "string"; it is made by node "MakesText"\n'
        'hint: connect what carries "int", or put a node between that makes it from "string"'
    )


def test_the_plan_lists_required_side_packets(registry: Registry) -> None:
    graph = plan(
        'node { calculator: "CountTo" input_side_packet: "N:count" output_stream: "numbers" }',
        registry,
    )
    [(name, (packet_type, is_optional))] = graph.side_packet_types.items()
    assert (name, packet_type.name, is_optional) == ("count", "int", False)


def test_a_plan_is_frozen(registry: Registry) -> None:
    graph = plan(one_node("Forward"), registry)
    with pytest.raises(AttributeError):
        graph.max_queue_size = 5  # type: ignore[misc]
    with pytest.raises(AttributeError):
        graph.nodes[0].name = "x"  # type: ignore[misc]


def test_validation_does_not_change_the_config(registry: Registry) -> None:
    config = parse_graph_text(one_node("Forward", graph="num_threads: 2"))
    before = config.SerializeToString()
    validate_graph(config, registry=registry)
    assert config.SerializeToString() == before


def test_errors_are_value_errors_as_in_mediapipe(registry: Registry) -> None:
    with pytest.raises(ValueError, match="Unable to find Calculator"):
        plan('node { calculator: "Nothing" }', registry)
    with pytest.raises(GraphConfigError):
        plan('node { calculator: "Nothing" }', registry)


@pytest.mark.parametrize(
    ("graph", "node", "warns"),
    [
        ("", "max_in_flight: 4", True),
        ("", "max_in_flight: 1", False),
        ("num_threads: 1", "max_in_flight: 4", True),
        ("num_threads: 4", "max_in_flight: 4", False),
        ('executor { name: "a" type: "ApplicationThreadExecutor" }', 'executor: "a"', False),
        (
            'executor { name: "a" type: "ApplicationThreadExecutor" }',
            'executor: "a" max_in_flight: 2',
            True,
        ),
    ],
)
def test_parallel_calls_without_threads_are_warned_of(
    registry: Registry, graph: str, node: str, warns: bool
) -> None:
    streams = 'input_stream: "in" output_stream: "out"'
    passing = f'node {{ calculator: "PassThroughCalculator" {streams} {node} }}'
    text = f'input_stream: "in" {graph} {passing}'
    warnings = validate_graph(parse_graph_text(text), registry=registry).warnings
    assert any("max_in_flight" in each.message for each in warnings) is warns
