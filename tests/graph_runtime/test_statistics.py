"""Statistics: a snapshot that shows why a graph does not proceed."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    In,
    NodeStatistics,
    Out,
    Registry,
    RunError,
    SideOut,
    Timestamp,
)
from graph_runtime.engine.states import RunState
from tests.graph_runtime.small_calculators import one_node
from tests.support.patience import PATIENCE

JOIN = """
    input_stream: "left" input_stream: "right" max_queue_size: 2
    node { name: "join" calculator: "Join" input_stream: "LEFT:left" input_stream: "RIGHT:right"
           output_stream: "out" }
    node { calculator: "Forward" input_stream: "out" output_stream: "end" }
"""


def waits_for(graph: CalculatorGraph, node: str) -> tuple[str, ...]:
    return graph.statistics().node(node).waits_for


def test_there_are_statistics_before_and_after_a_run(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=JOIN, registry=registry)
    before = graph.statistics()
    graph.start_run()
    graph.close()

    assert before == graph.statistics()
    assert before.state is RunState.NOT_STARTED
    assert before.nodes == ()


def test_a_snapshot_has_queues_bounds_and_calls(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=JOIN, registry=registry)
    graph.start_run()
    graph.add_packet_to_input_stream("left", "a", 5)
    graph.add_packet_to_input_stream("right", "b", 5)
    graph.add_packet_to_input_stream("left", "c", 7)
    statistics = graph.statistics()
    join = statistics.node("join")

    assert (join.calculator, join.state.name, join.in_flight, join.calls) == (
        "Join", "OPENED", 0, 2,
    )  # fmt: skip
    assert 0 < join.time < 10
    left, right = join.inputs
    assert (left.stream, left.queue_size, left.max_queue_size, left.bound) == ("left", 1, 2, 8)
    assert (left.is_full, left.is_done, right.queue_size, right.bound) == (False, False, 0, 6)
    assert statistics.streams["out"].packets == 1
    assert statistics.streams["end"].bound == 6
    assert statistics.streams["left"].packets == 2
    assert not statistics.streams["left"].is_closed
    with pytest.raises(KeyError):
        statistics.node("nobody")
    graph.close()


def test_a_snapshot_has_what_a_node_waits_for(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=JOIN, registry=registry)
    graph.start_run()
    assert waits_for(graph, "join") == ('a packet on "left"', 'a packet on "right"')
    graph.add_packet_to_input_stream("left", "a", 5)
    assert waits_for(graph, "join") == (
        'a packet or bound on "right" (settled below Timestamp::PreStream(), needed: above 5)',
    )
    graph.set_input_stream_timestamp_bound("right", 4)
    assert waits_for(graph, "join") == (
        'a packet or bound on "right" (settled below 4, needed: above 5)',
    )
    graph.set_input_stream_timestamp_bound("right", 6)
    assert waits_for(graph, "join") == ('a packet on "left"', 'a packet on "right"')
    graph.close_all_input_streams()
    assert waits_for(graph, "join") == ()
    graph.wait_until_done()


def test_a_snapshot_has_full_queues_and_the_sources_they_hold_back(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=JOIN, registry=registry)
    graph.start_run()
    graph.pause()
    graph.add_packet_to_input_stream("left", "a", 0)
    graph.add_packet_to_input_stream("left", "b", 1)
    statistics = graph.statistics()

    assert statistics.state is RunState.PAUSED
    assert statistics.node("join").inputs[0].is_full
    assert statistics.throttled == ("left",)
    graph.resume()
    graph.close()


class WaitsForSide(Calculator):
    value = In[Any]("VALUE", optional=True)
    made = SideOut[int]("MADE", optional=True)
    out = Out[Any](optional=True)


def test_a_snapshot_has_what_an_unopened_node_waits_for(registry: Registry) -> None:
    registry.register_calculator(WaitsForSide)
    graph = CalculatorGraph(
        text_config="""
            input_stream: "in"
            node { calculator: "WaitsForSide" input_stream: "VALUE:in"
                   output_side_packet: "MADE:n" }
            node { name: "source" calculator: "CountTo" input_side_packet: "N:n"
                   output_stream: "numbers" }
            node { name: "late" calculator: "Forward" input_stream: "numbers" output_stream: "x" }
        """,
        registry=registry,
    )
    graph.start_run()

    assert waits_for(graph, "source") == ('side packet "n"',)
    assert waits_for(graph, "late") == ("the nodes that produce its inputs to open",)
    graph.cancel()
    with pytest.raises(RunError):
        graph.wait_until_done()


def test_a_source_waits_for_its_layer(registry: Registry) -> None:
    go_on = threading.Event()

    class Slow(Calculator):
        out = Out[int]()

        def process(self, cc: CalculatorContext) -> None:
            go_on.wait(PATIENCE)

    registry.register_calculator(Slow)
    graph = CalculatorGraph(
        text_config="""
            num_threads: 1
            node { name: "first" calculator: "Slow" output_stream: "a" }
            node { name: "second" calculator: "Endless" output_stream: "b" source_layer: 1 }
        """,
        registry=registry,
    )
    poller = graph.add_output_stream_poller("a", observe_timestamp_bounds=True)
    graph.start_run()
    go_on.set()
    assert poller.next() is not None
    assert waits_for(graph, "second") == ("its source layer",)
    assert waits_for(graph, "first") == ()
    graph.cancel()
    with pytest.raises(RunError):
        graph.wait_until_done()


def test_a_node_that_runs_is_in_flight(registry: Registry) -> None:
    seen: list[NodeStatistics] = []

    class Looks(Calculator):
        value = In[int]()

        def process(self, cc: CalculatorContext) -> None:
            seen.append(graph.statistics().node(cc.node_name))

    registry.register_calculator(Looks)
    graph = CalculatorGraph(
        text_config='input_stream: "in" node { calculator: "Looks" input_stream: "in" }',
        registry=registry,
    )
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, 0)
    graph.close()

    assert (seen[0].in_flight, seen[0].waits_for) == (1, ())


def test_counters_are_named_after_their_node_and_outlive_the_run(registry: Registry) -> None:
    class Counts(Calculator):
        value = In[int]()

        def process(self, cc: CalculatorContext) -> None:
            cc.get_counter("packets").increment()
            cc.get_counter("sum").increment(cc.get(self.value))

    registry.register_calculator(Counts)
    graph = CalculatorGraph(
        text_config="""
            input_stream: "in"
            node { name: "a" calculator: "Counts" input_stream: "in" }
            node { name: "b" calculator: "Counts" input_stream: "in" }
        """,
        registry=registry,
    )
    graph.start_run()
    for value in (10, 20):
        graph.add_packet_to_input_stream("in", value, value)
    graph.close()

    assert graph.statistics().counters == {
        "a-packets": 2, "a-sum": 30, "b-packets": 2, "b-sum": 30,
    }  # fmt: skip


def test_a_snapshot_has_the_errors(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=one_node("FailAt"), registry=registry)
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, 0)
    statistics = graph.statistics()

    assert statistics.errors == (
        'Calculator::Process() for node "FailAt" failed: ValueError: as told '
        "(at input timestamp 0)",
    )
    with pytest.raises(RunError):
        graph.close()


def test_a_snapshot_does_not_change(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=one_node("Forward"), registry=registry)
    graph.start_run()
    before = graph.statistics()
    graph.add_packet_to_input_stream("in", 1, 0)

    assert before.streams["in"].packets == 0
    assert before.streams["in"].bound == Timestamp.PRESTREAM
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.streams["in"].packets = 5  # type: ignore[misc]
    graph.close()
