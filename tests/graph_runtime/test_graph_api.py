"""`CalculatorGraph` call by call: the right order of calls, and the errors of any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graph_runtime import (
    CalculatorContext,
    CalculatorGraph,
    Code,
    GraphConfigError,
    NotFoundError,
    PacketTypeError,
    Registry,
    RunError,
    StateError,
    Timestamp,
    TimestampError,
    graph_to_binary,
    parse_graph_text,
    validate_graph,
)
from graph_runtime.testing import Sink
from tests.graph_runtime.small_calculators import Forward, one_node


@pytest.fixture
def graph(registry: Registry) -> CalculatorGraph:
    return CalculatorGraph(text_config=one_node("Forward"), registry=registry)


def run_once(graph: CalculatorGraph, value: Any = "x") -> None:
    graph.start_run()
    graph.add_packet_to_input_stream("in", value, 0)
    graph.close()


# Making -------------------------------------------------------------------------------------------


def test_a_graph_is_made_from_text_a_message_a_file_or_a_plan(
    registry: Registry, tmp_path: Path
) -> None:
    text = one_node("Forward")
    config = parse_graph_text(text)
    (tmp_path / "graph.pbtxt").write_text(text)
    (tmp_path / "graph.binarypb").write_bytes(graph_to_binary(config))
    plan = validate_graph(config, registry=registry)
    for graph in (
        CalculatorGraph(text, registry=registry),
        CalculatorGraph(config, registry=registry),
        CalculatorGraph(text_config=text, registry=registry),
        CalculatorGraph(binary_graph_path=tmp_path / "graph.pbtxt", registry=registry),
        CalculatorGraph(binary_graph_path=tmp_path / "graph.binarypb", registry=registry),
        CalculatorGraph(validated_graph=plan),
        CalculatorGraph(plan),
    ):
        sink = Sink(graph, "out")
        run_once(graph)
        assert sink.values == ["x"]


def test_exactly_one_description_is_needed(registry: Registry) -> None:
    with pytest.raises(GraphConfigError, match=r"exactly one .*, not 0"):
        CalculatorGraph()
    with pytest.raises(GraphConfigError, match=r"exactly one .*, not 2"):
        CalculatorGraph("", text_config="", registry=registry)


def test_the_canonical_config_makes_the_same_graph(
    graph: CalculatorGraph, registry: Registry
) -> None:
    again = CalculatorGraph(text_config=graph.text_config, registry=registry)
    assert again.text_config == graph.text_config
    assert parse_graph_text(graph.text_config).SerializeToString() == graph.binary_config
    assert graph.max_queue_size == 100


# The right moment ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda graph: graph.add_packet_to_input_stream("in", 1, 0),
        lambda graph: graph.set_input_stream_timestamp_bound("in", 1),
        lambda graph: graph.wait_for_observed_output(),
    ],
)
def test_calls_that_need_a_run_are_refused_without_one(
    graph: CalculatorGraph, call: Callable[..., None]
) -> None:
    for _ in range(2):
        with pytest.raises(StateError, match=r"before StartRun\(\).*call start_run\(\) first"):
            call(graph)
        run_once(graph)


@pytest.mark.parametrize(
    "call",
    [
        lambda graph: graph.close_input_stream("in"),
        lambda graph: graph.close_all_input_streams(),
        lambda graph: graph.close_all_packet_sources(),
        lambda graph: graph.wait_until_idle(),
        lambda graph: asyncio.run(graph.wait_until_idle_async()),
    ],
)
def test_calls_that_end_a_run_or_wait_for_it_do_nothing_after_it(
    graph: CalculatorGraph, call: Callable[..., None]
) -> None:
    with pytest.raises(StateError, match=r"before StartRun\(\).*call start_run\(\) first"):
        call(graph)
    for _ in range(2):
        run_once(graph)
        call(graph)


def test_waiting_for_a_run_that_never_began_is_refused(graph: CalculatorGraph) -> None:
    with pytest.raises(StateError, match=r"wait_until_done\(\) needs a run"):
        graph.wait_until_done()
    run_once(graph)
    graph.wait_until_done()
    graph.close()
    graph.cancel()


@pytest.mark.parametrize(
    "call",
    [
        lambda graph: graph.observe_output_stream("out", print),
        lambda graph: graph.add_output_stream_poller("out"),
        lambda graph: graph.set_error_callback(print),
        lambda graph: graph.set_executor("", None),
    ],
)
def test_calls_that_must_precede_the_run_are_refused_in_it(
    graph: CalculatorGraph, call: Callable[..., None]
) -> None:
    graph.start_run()
    with pytest.raises(StateError, match="can only be called while no run is going on"):
        call(graph)
    graph.close()


def test_starting_twice_is_refused(graph: CalculatorGraph) -> None:
    graph.start_run()
    with pytest.raises(StateError, match="a run is already going on"):
        graph.start_run()
    sink = graph.statistics()
    assert sink.errors == ()
    graph.close()
    run_once(graph)


# Names --------------------------------------------------------------------------------------------


def test_unknown_streams_are_refused_with_near_names(graph: CalculatorGraph) -> None:
    with pytest.raises(NotFoundError, match=r'"ot".*Did you mean "out"'):
        graph.observe_output_stream("ot", print)
    with pytest.raises(NotFoundError, match="doesn't exist"):
        graph.add_output_stream_poller("nothing")
    with pytest.raises(NotFoundError, match="Graph input streams: in"):
        graph.set_input_stream_max_queue_size("out", 1)
    graph.start_run()
    with pytest.raises(NotFoundError, match='"out" which is not a graph input') as caught:
        graph.add_packet_to_input_stream("out", 1, 0)
    assert caught.value.code is Code.NOT_FOUND
    with pytest.raises(NotFoundError, match='"out" which is not a graph input'):
        graph.set_input_stream_timestamp_bound("out", 1)
    with pytest.raises(NotFoundError, match='"out" which is not a graph input'):
        graph.close_input_stream("out")
    graph.close()


# Packets that do not fit --------------------------------------------------------------------------


def test_a_timestamp_that_goes_back_fails_the_run_at_the_next_call(graph: CalculatorGraph) -> None:
    graph.start_run()
    graph.add_packet_to_input_stream("in", "x", 5)
    graph.add_packet_to_input_stream("in", "x", 5)
    assert graph.has_error()
    message = r'stream "in".*minimum expected timestamp is 6 but received 5.*the application'
    with pytest.raises(RunError, match=message):
        graph.add_packet_to_input_stream("in", "x", 6)
    with pytest.raises(RunError, match=message) as caught:
        graph.wait_until_done()
    assert isinstance(caught.value.errors[0], TimestampError)
    assert not graph.has_error()
    run_once(graph)


@pytest.mark.parametrize(
    ("packet", "message", "kind"),
    [
        (("x", None), 'stream "in", timestamp not specified', TimestampError),
        (("x", Timestamp.UNSTARTED), r"illegal value: Timestamp::Unstarted\(\)", TimestampError),
        (("x", Timestamp.DONE), r"illegal value: Timestamp::Done\(\)", TimestampError),
        ((1.5, 0), 'stream "in": The Packet stores "float", but "int"', PacketTypeError),
    ],
)
def test_wrong_packets_are_refused(
    registry: Registry, packet: tuple[Any, Any], message: str, kind: type[Exception]
) -> None:
    graph = CalculatorGraph(text_config=one_node("Double"), registry=registry)
    graph.start_run()
    with pytest.raises(RunError, match=message):
        graph.add_packet_to_input_stream("in", *packet)
    with pytest.raises(RunError, match=message) as caught:
        graph.close()
    assert isinstance(caught.value.errors[0], kind)
    run_once(graph, 3)


def test_an_invalid_timestamp_is_refused_and_the_run_continues(
    graph: CalculatorGraph,
) -> None:
    graph.start_run()
    with pytest.raises(ValueError, match="not an ordinary timestamp"):
        graph.add_packet_to_input_stream("in", "x", 2**63)
    with pytest.raises(TimestampError, match="illegal value"):
        graph.set_input_stream_timestamp_bound("in", Timestamp.DONE)
    assert not graph.has_error()
    graph.close()


def test_headers_are_available_in_open(registry: Registry) -> None:
    seen = []

    class ReadsHeader(Forward):
        def open(self, cc: CalculatorContext) -> None:
            seen.append(cc.inputs[0].header.payload)

    registry.register_calculator(ReadsHeader)
    graph = CalculatorGraph(text_config=one_node("ReadsHeader"), registry=registry)
    graph.start_run(stream_headers={"in": "head", "unknown": "ignored"})
    graph.close()
    assert seen == ["head"]
