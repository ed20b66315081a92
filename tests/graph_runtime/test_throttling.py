"""Full queues hold the application back: waiting, refusing, deadlocks."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    Code,
    GraphInputStreamAddMode,
    In,
    Out,
    Packet,
    Registry,
    RunError,
    Stop,
    UnavailableError,
)
from graph_runtime.testing import Sink
from tests.graph_runtime.every_driver import make_graph, run_graph
from tests.graph_runtime.small_calculators import one_node
from tests.support.patience import PATIENCE


class Held(Calculator):
    """Runs only when both inputs have a packet."""

    value = In[Any]("VALUE")
    go = In[Any]("GO")
    out = Out[Any]()

    def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.value):
            cc.emit(self.out, cc.get(self.value))


def held(registry: Registry, size: int) -> CalculatorGraph:
    registry.register_calculator(Held)
    return CalculatorGraph(
        text_config=f"""
            input_stream: "in" input_stream: "go" max_queue_size: {size} report_deadlock: true
            node {{ calculator: "Held" input_stream: "VALUE:in" input_stream: "GO:go"
                    output_stream: "out" }}
        """,
        registry=registry,
    )


def test_add_if_not_full_refuses_until_there_is_room(registry: Registry) -> None:
    registry.register_calculator(Blocking)
    graph = CalculatorGraph(
        text_config=one_node("Blocking", graph="max_queue_size: 2 num_threads: 1"),
        registry=registry,
    )
    sink = Sink(graph, "out")
    graph.graph_input_stream_add_mode = GraphInputStreamAddMode.ADD_IF_NOT_FULL
    Blocking.started.clear()
    Blocking.go_on.clear()
    graph.start_run()
    graph.add_packet_to_input_stream("in", 0, 0)
    assert Blocking.started.wait(PATIENCE)
    graph.add_packet_to_input_stream("in", 1, 1)
    graph.add_packet_to_input_stream("in", 2, 2)
    with pytest.raises(UnavailableError, match=r"Graph is throttled\."):
        graph.add_packet_to_input_stream("in", 3, 3)
    Blocking.go_on.set()
    graph.wait_until_idle()
    graph.add_packet_to_input_stream("in", 4, 4)
    graph.close()

    assert sink.values == [0, 1, 2, 4]


class Blocking(Calculator):
    """Reports that it has started, and waits for its release."""

    value = In[Any]()
    same = Out[Any](same_as=value)
    started = threading.Event()
    go_on = threading.Event()

    def process(self, cc: CalculatorContext) -> None:
        self.started.set()
        assert self.go_on.wait(PATIENCE)
        cc.forward(self.same, cc.packet(self.value))


def test_a_deadlock_of_full_queues_is_reported_on_request(registry: Registry) -> None:
    graph = held(registry, 2)
    graph.start_run()
    graph.add_packet_to_input_stream("in", 0, 0)
    graph.add_packet_to_input_stream("in", 1, 1)
    with pytest.raises(RunError, match=r'deadlock.*input stream: "in" of a node') as caught:
        graph.add_packet_to_input_stream("in", 2, 2)
    assert caught.value.code is Code.UNAVAILABLE
    with pytest.raises(RunError):
        graph.close()


class TwoStreams(Calculator):
    """A source of two packets on A, and then of four later ones on B."""

    first = Out[int]("A")
    second = Out[int]("B")
    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self._count = 0

    def process(self, cc: CalculatorContext) -> None:
        count = self._count
        self._count += 1
        if count < 2:
            cc.emit(self.first, count, at=count)
        elif count < 6:
            cc.emit(self.second, 100 + count, at=3 + count)
        else:
            raise Stop


class SelectSecond(Calculator):
    """A source of four ones at the timestamps of `TwoStreams`' second stream."""

    selected = Out[int]()
    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self._count = 0

    def process(self, cc: CalculatorContext) -> None:
        if self._count == 4:
            raise Stop
        cc.emit(self.selected, 1, at=5 + self._count)
        self._count += 1


@pytest.mark.parametrize("driver", ["default", "application thread", "thread pool"])
@pytest.mark.parametrize("reports", ["true", "false"])
def test_packets_that_a_handler_drops_hold_no_source_back(
    registry: Registry, driver: str, reports: str
) -> None:
    for each in (TwoStreams, SelectSecond):
        registry.register_calculator(each)
    graph = make_graph(
        f"""
        max_queue_size: 2 report_deadlock: {reports}
        node {{ calculator: "TwoStreams" output_stream: "A:a" output_stream: "B:b" }}
        node {{ calculator: "SelectSecond" output_stream: "selected" }}
        node {{ calculator: "MuxCalculator" input_stream: "INPUT:0:a" input_stream: "INPUT:1:b"
                input_stream: "SELECT:selected" output_stream: "OUTPUT:out" }}
        """,
        registry,
        driver,
    )
    sink = Sink(graph, "out")
    limits: set[int] = set()

    def look(stream: str, packet: Packet) -> None:
        for node in graph.statistics().nodes:
            limits.update(each.max_queue_size for each in node.inputs)

    graph.observe_output_stream("out", look)
    run_graph(graph, driver, ())
    assert sink.values == [102, 103, 104, 105]
    assert limits == {2}


def test_packets_that_nothing_selects_any_more_hold_nothing_back(registry: Registry) -> None:
    registry.register_calculator(BlockingSelection)
    graph = CalculatorGraph(
        text_config="""
            input_stream: "in" input_stream: "select" max_queue_size: 1 num_threads: 2
            node { calculator: "BlockingSelection" input_stream: "INPUT:in" max_in_flight: 2
                   input_stream: "SELECT:select" output_stream: "out"
                   input_stream_handler { input_stream_handler: "MuxInputStreamHandler" } }
        """,
        registry=registry,
    )
    graph.check_invariants()
    sink = Sink(graph, "out")
    graph.graph_input_stream_add_mode = GraphInputStreamAddMode.ADD_IF_NOT_FULL
    Blocking.started.clear()
    Blocking.go_on.clear()
    graph.start_run()
    graph.add_packet_to_input_stream("in", 10, 0)
    graph.add_packet_to_input_stream("select", 0, 0)
    assert Blocking.started.wait(PATIENCE)
    graph.add_packet_to_input_stream("in", 15, 5)
    with pytest.raises(UnavailableError, match=r"Graph is throttled\."):
        graph.add_packet_to_input_stream("in", 16, 6)
    graph.close_input_stream("select")
    graph.add_packet_to_input_stream("in", 17, 7)
    Blocking.go_on.set()
    graph.close()

    assert sink.values == [10]


class BlockingSelection(Calculator):
    """`Blocking`, for the handler that reads one of its inputs."""

    value = In[Any]("INPUT")
    select = In[int]("SELECT")
    same = Out[Any]()

    def process(self, cc: CalculatorContext) -> None:
        Blocking.started.set()
        assert Blocking.go_on.wait(PATIENCE)
        cc.emit(self.same, cc.get(self.value))


def test_one_input_may_have_a_queue_limit(registry: Registry) -> None:
    graph = held(registry, 1)
    graph.set_input_stream_max_queue_size("in", -1)
    sink = Sink(graph, "out")
    graph.start_run()
    for time in range(50):
        graph.add_packet_to_input_stream("in", time, time)
    graph.set_input_stream_timestamp_bound("go", 50)
    graph.close()
    assert sink.values == list(range(50))


def test_a_waiting_add_continues_as_soon_as_there_is_room(registry: Registry) -> None:
    async def scenario() -> None:
        free = asyncio.Semaphore(0)

        async def hold(value: int) -> int:
            await free.acquire()
            return value

        registry.register_calculator(hold)
        graph = CalculatorGraph(
            text_config=one_node("hold", graph="max_queue_size: 2"), registry=registry
        )
        sink = Sink(graph, "out")
        sent = []

        async def send() -> None:
            for each in range(8):
                await graph.add_packet_to_input_stream_async("in", each, each)
                sent.append(each)

        async with graph:
            await graph.start_run_async()
            sending = asyncio.create_task(send())
            for expected in (3, 4, 5):
                for _ in range(50):
                    await asyncio.sleep(0)
                # One in the node and two in its queue, besides those that have passed.
                assert len(sent) == expected
                free.release()
            for _ in range(5):
                free.release()
            await sending
        assert sink.values == list(range(8))

    asyncio.run(scenario())
