"""Observers: their streams, the order of their calls, and failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    Code,
    GraphError,
    NotFoundError,
    Out,
    Packet,
    Registry,
    RunError,
    StateError,
    Stop,
    ThreadPoolExecutor,
    Timestamp,
    TimestampError,
)
from graph_runtime.testing import Sink
from tests.graph_runtime.every_driver import make_graph
from tests.graph_runtime.small_calculators import Forward, one_node

TWO_NODES = """
    input_stream: "in"
    node { calculator: "Double" input_stream: "in" output_stream: "middle" }
    node { calculator: "Double" input_stream: "middle" output_stream: "out" }
"""


@pytest.fixture
def graph(registry: Registry) -> CalculatorGraph:
    return CalculatorGraph(text_config=TWO_NODES, registry=registry)


def test_any_stream_can_be_observed_by_several(graph: CalculatorGraph) -> None:
    sinks = {name: [Sink(graph, name), Sink(graph, name)] for name in ("in", "middle", "out")}
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, 3)
    graph.close()

    for name, value in (("in", 1), ("middle", 2), ("out", 4)):
        assert [sink.pairs for sink in sinks[name]] == [[(3, value)]] * 2


def test_observers_are_called_in_the_order_of_events(graph: CalculatorGraph) -> None:
    events: list[tuple[str, int]] = []
    for name in ("out", "in", "middle"):
        graph.observe_output_stream(
            name, lambda stream, packet: events.append((stream, packet.value))
        )
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, 0)
    graph.add_packet_to_input_stream("in", 10, 1)
    graph.close()

    assert events == [
        ("in", 1), ("middle", 2), ("out", 4), ("in", 10), ("middle", 20), ("out", 40),
    ]  # fmt: skip


def test_bounds_are_observed_on_request_as_empty_packets(graph: CalculatorGraph) -> None:
    seen: list[Packet] = []
    graph.observe_output_stream("out", lambda _, packet: seen.append(packet), True)
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, 0)
    graph.set_input_stream_timestamp_bound("in", 10)
    graph.set_input_stream_timestamp_bound("in", 10)
    graph.close()

    assert [(packet.timestamp, packet.is_empty()) for packet in seen] == [(0, False), (9, True)]


def test_observers_are_kept_for_later_runs(graph: CalculatorGraph) -> None:
    sink = Sink(graph, "out")
    for value in (1, 2):
        graph.start_run()
        graph.add_packet_to_input_stream("in", value, 0)
        graph.close()

    assert sink.values == [4, 8]


def test_an_observer_that_raises_fails_the_run_and_is_not_called_again(
    graph: CalculatorGraph,
) -> None:
    calls: list[int] = []

    def raises(stream: str, packet: Packet) -> None:
        calls.append(packet.value)
        raise KeyError("lost")

    others = Sink(graph, "out")
    graph.observe_output_stream("out", raises)
    for _ in range(2):
        calls.clear()
        graph.start_run()
        graph.add_packet_to_input_stream("in", 1, 5)
        with pytest.raises(RunError, match="has errors"):
            graph.add_packet_to_input_stream("in", 2, 6)
        with pytest.raises(RunError) as caught:
            graph.wait_until_done()
        assert [str(error) for error in caught.value.errors] == [
            "The observer of stream \"out\" failed at timestamp 5: KeyError: 'lost'"
        ]
        assert isinstance(caught.value.errors[0].__cause__, KeyError)
        assert calls == [4]
    assert others.values == [4, 4]


def test_a_graph_error_of_an_observer_is_not_wrapped(graph: CalculatorGraph) -> None:
    def refuses(stream: str, packet: Packet) -> None:
        raise GraphError("no more, please", code=Code.OUT_OF_RANGE)

    graph.observe_output_stream("in", refuses)
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, 0)
    with pytest.raises(RunError, match="no more, please") as caught:
        graph.close()
    assert caught.value.code is Code.OUT_OF_RANGE


@pytest.mark.parametrize("threads", [0, 2])
def test_waiting_inside_an_observer_is_refused(graph: CalculatorGraph, threads: int) -> None:
    refused: list[str] = []

    def waits(stream: str, packet: Packet) -> None:
        for wait in (graph.wait_until_idle, graph.wait_until_done, poller.next):
            with pytest.raises(StateError, match="it would wait for itself") as caught:
                wait()
            refused.append(str(caught.value).partition("(")[0])

    if threads:
        graph.set_executor("", ThreadPoolExecutor(threads))
    poller = graph.add_output_stream_poller("out")
    graph.observe_output_stream("middle", waits)
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, 0)
    graph.close()

    assert refused == ["wait_until_idle", "wait_until_done", "OutputStreamPoller.next"]


def test_an_observer_may_add_packets_and_close_inputs(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=one_node("Double"), registry=registry)
    sink = Sink(graph, "out")

    def feeds_back(stream: str, packet: Packet) -> None:
        if packet.value < 100:
            graph.add_packet_to_input_stream("in", packet.value, packet.timestamp + 1)
        else:
            graph.close_input_stream("in")

    graph.observe_output_stream("out", feeds_back)
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, 0)
    graph.wait_until_done()

    assert sink.values == [2, 4, 8, 16, 32, 64, 128]


def test_an_observer_may_cancel(graph: CalculatorGraph) -> None:
    graph.observe_output_stream("middle", lambda stream, packet: graph.cancel())
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, 0)
    with pytest.raises(RunError) as caught:
        graph.wait_until_done()
    assert caught.value.code is Code.CANCELLED


def test_the_next_observed_packet_can_be_waited_for(registry: Registry) -> None:
    graph = CalculatorGraph(
        text_config="""
            node { calculator: "CountTo" input_side_packet: "N:n" output_stream: "out" }
        """,
        registry=registry,
    )
    sink = Sink(graph, "out")
    graph.start_run({"n": 5})
    while len(sink) < 5:
        before = len(sink)
        graph.wait_for_observed_output()
        assert len(sink) > before
    graph.wait_until_idle()
    with pytest.raises(GraphError, match="Graph is done") as caught:
        graph.wait_for_observed_output()
    assert caught.value.code is Code.OUT_OF_RANGE
    assert sink.values == [1, 2, 3, 4, 5]
    graph.wait_until_done()


@pytest.mark.parametrize("driver", ["default", "application thread"])
def test_the_graph_is_not_idle_while_sources_wait_for_their_turn(
    registry: Registry, driver: str
) -> None:
    class LastWord(Calculator):
        word = Out[str]()

        def process(self, cc: CalculatorContext) -> None:
            raise Stop

        def close(self, cc: CalculatorContext) -> None:
            cc.emit(self.word, "last", at=1)

    registry.register_calculator(LastWord)
    graph = make_graph(
        """
        node { calculator: "LastWord" output_stream: "first" source_layer: 0 }
        node { calculator: "LastWord" output_stream: "second" source_layer: 1 }
        """,
        registry,
        driver,
    )
    sinks = [Sink(graph, name) for name in ("first", "second")]
    graph.start_run()
    graph.wait_for_observed_output()
    graph.wait_until_idle()
    assert [sink.values for sink in sinks] == [["last"], ["last"]]
    graph.close()


def test_the_next_observed_packet_can_be_awaited_on_an_event_loop(graph: CalculatorGraph) -> None:
    sink = Sink(graph, "out")

    async def use() -> list[Any]:
        seen = []
        async with graph:
            await graph.start_run_async()
            for value in (1, 2):
                graph.add_packet_to_input_stream("in", value, value)
                await graph.wait_for_observed_output_async()
                seen.append(list(sink.values))
            graph.close_all_input_streams()
            with pytest.raises(GraphError, match="Graph is done"):
                await graph.wait_for_observed_output_async()
        return seen

    assert asyncio.run(use()) == [[4], [4, 8]]


def test_a_poststream_packet_is_observed_once_and_alone(graph: CalculatorGraph) -> None:
    sink = Sink(graph, "in")
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, Timestamp.POSTSTREAM)
    graph.add_packet_to_input_stream("in", 2, 5)
    with pytest.raises(RunError, match=r'stream "in".*received 5'):
        graph.wait_until_idle()
    with pytest.raises(RunError):
        graph.close()
    assert sink.values == [1]


def test_a_packet_out_of_order_is_a_single_error(registry: Registry) -> None:
    class Backwards(Forward):
        def process(self, cc: CalculatorContext) -> None:
            cc.emit(self.same, 0, at=10 - cc.input_timestamp.value)

    registry.register_calculator(Backwards)
    graph = CalculatorGraph(text_config=one_node("Backwards"), registry=registry)
    sink = Sink(graph, "out")
    graph.start_run()
    for time in range(2):
        graph.add_packet_to_input_stream("in", 0, time)
    with pytest.raises(RunError) as caught:
        graph.close()
    assert [type(error) for error in caught.value.errors] == [TimestampError]
    assert sink.pairs == [(10, 0)]


def test_unknown_streams_are_refused(graph: CalculatorGraph) -> None:
    with pytest.raises(NotFoundError, match=r'"midle".*Did you mean "middle"'):
        graph.observe_output_stream("midle", print)
