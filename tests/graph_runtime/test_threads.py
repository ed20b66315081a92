"""Graphs and threads: overlapping pools, several feeding threads, work in the background."""

from __future__ import annotations

import asyncio
import threading
from asyncio import CancelledError
from typing import Any

import pytest

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorError,
    CalculatorGraph,
    In,
    Out,
    Packet,
    Registry,
    RunError,
    StateError,
    UnavailableError,
)
from graph_runtime.testing import Sink
from graphrt_base.interrupts import without_interrupts
from tests.graph_runtime.every_driver import DRIVERS, make_graph, run_graph
from tests.graph_runtime.small_calculators import Forward, one_node
from tests.support.patience import PATIENCE

POOL = """
    executor { name: "pool" type: "ThreadPoolExecutor" options {
      [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 3 } } }
"""


def test_blocking_calls_on_a_pool_overlap(registry: Registry) -> None:
    meeting = threading.Barrier(3, timeout=PATIENCE)

    def meets(value: int) -> int:
        meeting.wait()
        return value

    registry.register_calculator(meets, "Meets")
    nodes = "\n".join(
        f'node {{ calculator: "Meets" input_stream: "in" output_stream: "out{place}" '
        f'executor: "pool" }}'
        for place in range(3)
    )
    graph = CalculatorGraph(text_config=f'input_stream: "in" {POOL} {nodes}', registry=registry)
    sinks = [Sink(graph, f"out{place}") for place in range(3)]
    graph.start_run()
    for time in range(5):
        graph.add_packet_to_input_stream("in", time, time)
    graph.close()

    assert [sink.values for sink in sinks] == [[0, 1, 2, 3, 4]] * 3


def test_parallel_calls_of_one_node_overlap_and_keep_the_order(registry: Registry) -> None:
    class FinishInReverse(Calculator):
        value = In[int]()
        out = Out[int]()

        def open(self, cc: CalculatorContext) -> None:
            self.done = [threading.Event() for _ in range(3)]

        def process(self, cc: CalculatorContext) -> None:
            place = cc.get(self.value)
            if place + 1 < len(self.done):
                assert self.done[place + 1].wait(PATIENCE)
            finished.append(place)
            self.done[place].set()
            cc.emit(self.out, place)

    finished: list[int] = []
    registry.register_calculator(FinishInReverse)
    graph = CalculatorGraph(
        text_config=one_node("FinishInReverse", 'executor: "pool" max_in_flight: 3', POOL),
        registry=registry,
    )
    sink = Sink(graph, "out")
    graph.check_invariants()
    graph.start_run()
    for place in range(3):
        graph.add_packet_to_input_stream("in", place, place)
    graph.close()

    assert finished == [2, 1, 0]
    assert sink.pairs == [(0, 0), (1, 1), (2, 2)]


def test_nothing_is_sent_behind_a_parallel_call_that_failed(registry: Registry) -> None:
    class FailLast(Calculator):
        value = In[int]()
        out = Out[int]()

        def open(self, cc: CalculatorContext) -> None:
            self.sent = threading.Event()

        def process(self, cc: CalculatorContext) -> None:
            if cc.get(self.value) == 0:
                assert self.sent.wait(PATIENCE)
                raise ValueError("no")
            cc.emit(self.out, cc.get(self.value))
            self.sent.set()

    registry.register_calculator(FailLast)
    graph = CalculatorGraph(
        text_config=one_node("FailLast", 'executor: "pool" max_in_flight: 3', POOL),
        registry=registry,
    )
    sink = Sink(graph, "out")
    graph.check_invariants()
    graph.start_run()
    for place in range(2):
        graph.add_packet_to_input_stream("in", place, place)
    with pytest.raises(RunError, match="no"):
        graph.close()
    assert sink.pairs == []


def test_calls_of_a_serial_node_never_overlap(registry: Registry) -> None:
    class Alone(Forward):
        def open(self, cc: CalculatorContext) -> None:
            self.busy = threading.Lock()

        def process(self, cc: CalculatorContext) -> None:
            assert self.busy.acquire(blocking=False)
            cc.forward(self.same, cc.packet(self.value))
            self.busy.release()

    registry.register_calculator(Alone)
    graph = CalculatorGraph(
        text_config=one_node("Alone", graph="num_threads: 4 max_queue_size: -1"),
        registry=registry,
    )
    sink = Sink(graph, "out")
    graph.start_run()
    for time in range(500):
        graph.add_packet_to_input_stream("in", time, time)
    graph.close()
    assert sink.values == list(range(500))


@pytest.mark.parametrize("threads", [0, 2])
def test_several_threads_may_feed_one_graph(registry: Registry, threads: int) -> None:
    inputs = [f"in{place}" for place in range(4)]
    nodes = "\n".join(
        f'input_stream: "{name}" '
        f'node {{ calculator: "Double" input_stream: "{name}" output_stream: "{name}_out" }}'
        for name in inputs
    )
    pool = f"num_threads: {threads}" if threads else ""
    graph = CalculatorGraph(text_config=f"{pool} {nodes}", registry=registry)
    sinks = [Sink(graph, f"{name}_out") for name in inputs]
    graph.check_invariants()
    together = threading.Barrier(len(inputs), timeout=PATIENCE)

    def feed(name: str) -> None:
        together.wait()
        for time in range(200):
            graph.add_packet_to_input_stream(name, time, time)
        graph.close_input_stream(name)

    graph.start_run()
    feeders = [threading.Thread(target=feed, args=(name,)) for name in inputs]
    for feeder in feeders:
        feeder.start()
    graph.wait_until_done()
    for feeder in feeders:
        feeder.join(PATIENCE)
    assert [sink.values for sink in sinks] == [[2 * time for time in range(200)]] * 4


def test_adding_waits_for_room_in_another_thread(registry: Registry) -> None:
    started, go_on = threading.Event(), threading.Event()

    def holds(value: int) -> int:
        started.set()
        assert go_on.wait(PATIENCE)
        return value

    registry.register_calculator(holds, "Holds")
    graph = CalculatorGraph(
        text_config=one_node("Holds", graph="max_queue_size: 1 num_threads: 1"), registry=registry
    )
    sink = Sink(graph, "out")
    added: list[int] = []

    def feed() -> None:
        for value in range(5):
            graph.add_packet_to_input_stream("in", value, value)
            added.append(value)

    graph.start_run()
    feeder = threading.Thread(target=feed)
    feeder.start()
    assert started.wait(PATIENCE)
    assert len(added) < 3, "one call is held, one packet fills the queue"
    go_on.set()
    feeder.join(PATIENCE)
    graph.close()
    assert sink.values == added == list(range(5))


def test_sources_run_in_the_background_of_the_application(
    registry: Registry,
) -> None:
    last = threading.Event()
    graph = CalculatorGraph(
        text_config='node { calculator: "CountTo" input_side_packet: "N:n" output_stream: "out" }',
        registry=registry,
    )

    def observe(stream: str, packet: Packet) -> None:
        if packet.value == 100:
            last.set()

    graph.observe_output_stream("out", observe)
    graph.start_run({"n": 100})
    assert last.wait(PATIENCE)
    graph.wait_until_done()


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_source_makes_one_call_after_the_other(registry: Registry, driver: str) -> None:
    """Its calls have no inputs by which they could go side by side."""
    graph = make_graph(
        'node { calculator: "CountTo" max_in_flight: 3 input_side_packet: "N:n" '
        'output_stream: "out" }',
        registry,
        driver,
    )
    sink = Sink(graph, "out")
    run_graph(graph, driver, (), {"n": 5})
    assert sink.values == [1, 2, 3, 4, 5]


def test_a_calculator_cannot_wait_for_room_in_its_own_graph(registry: Registry) -> None:
    refused: list[str] = []

    class FeedsItself(Forward):
        def process(self, cc: CalculatorContext) -> None:
            if cc.input_timestamp == 0:
                for time in range(1, 4):
                    try:
                        graph.add_packet_to_input_stream("in", time, time)
                    except UnavailableError as error:
                        refused.append(str(error))

    registry.register_calculator(FeedsItself)
    for threads in ("", "num_threads: 2"):
        graph = CalculatorGraph(
            text_config=one_node("FeedsItself", graph=f"max_queue_size: 2 {threads}"),
            registry=registry,
        )
        graph.start_run()
        graph.add_packet_to_input_stream("in", 0, 0)
        graph.wait_until_idle()
        graph.close()
        assert len(refused) == 1
        assert "cannot wait for it" in refused.pop()


@pytest.mark.parametrize("threads", ["", "num_threads: 2"])
def test_a_calculator_cannot_wait_for_its_own_graph(registry: Registry, threads: str) -> None:
    refused: list[int] = []

    class WaitsForItself(Forward):
        def process(self, cc: CalculatorContext) -> None:
            for wait in (graph.wait_until_idle, graph.wait_until_done, graph.close):
                with pytest.raises(StateError, match="it would wait for itself"):
                    wait()
            refused.append(cc.input_timestamp)

    registry.register_calculator(WaitsForItself)
    graph = CalculatorGraph(
        text_config=one_node("WaitsForItself", graph=threads), registry=registry
    )
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, 3)
    graph.wait_until_done()
    assert refused == [3]


class Interrupts(Forward):
    def process(self, cc: CalculatorContext) -> None:
        raise KeyboardInterrupt


def test_an_interrupt_in_a_calculator_reaches_the_application(registry: Registry) -> None:
    registry.register_calculator(Interrupts)
    graph = CalculatorGraph(text_config=one_node("Interrupts"), registry=registry)
    graph.start_run()
    with pytest.raises(KeyboardInterrupt):
        graph.add_packet_to_input_stream("in", 1, 0)
    with pytest.raises(RunError, match='node "Interrupts" failed: KeyboardInterrupt') as caught:
        graph.close()
    assert isinstance(caught.value.errors[0].__cause__, KeyboardInterrupt)


class Odd(BaseException):
    pass


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("error", [SystemExit(3), GeneratorExit(), Odd("x"), CancelledError()])
def test_an_exception_that_is_no_interrupt_ends_the_run_and_no_more(
    registry: Registry, driver: str, error: BaseException
) -> None:
    class Fails(Forward):
        def process(self, cc: CalculatorContext) -> None:
            raise error

        def close(self, cc: CalculatorContext) -> None:
            raise error

    registry.register_calculator(Fails)
    graph = make_graph(one_node("Fails"), registry, driver)
    with pytest.raises(RunError, match=f'"Fails" failed: {type(error).__name__}') as caught:
        run_graph(graph, driver, [("in", 1, 0)])
    assert caught.value.errors[0].__cause__ is error


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_interrupt_is_an_authors_where_ctrl_c_raises_nothing(
    registry: Registry, driver: str
) -> None:
    registry.register_calculator(Interrupts)
    graph = make_graph(one_node("Interrupts"), registry, driver)
    with without_interrupts(), pytest.raises(RunError, match='"Interrupts" failed: Keyboard'):
        run_graph(graph, driver, [("in", 1, 0)])


def test_a_task_that_exits_stops_no_later_coroutine(registry: Registry) -> None:
    """Coroutines of graphs without an event loop share one."""

    class StartsTask(Calculator):
        value = In[int]()
        out = Out[int]()

        async def process(self, cc: CalculatorContext) -> None:
            async def leave() -> None:
                raise SystemExit

            task = asyncio.create_task(leave())
            await asyncio.wait([task])
            assert isinstance(task.exception(), SystemExit)
            cc.emit(self.out, cc.get(self.value))

    registry.register_calculator(StartsTask)
    for _ in range(2):
        graph = make_graph(one_node("StartsTask"), registry, "default")
        sink = Sink(graph, "out")
        run_graph(graph, "default", [("in", 1, 0)])
        assert sink.values == [1]


def test_an_interrupt_in_another_thread_is_an_error_of_the_run(registry: Registry) -> None:
    class InterruptingSource(Calculator):
        out = Out[int]()

        def process(self, cc: CalculatorContext) -> None:
            failed_in.append(threading.get_ident())
            raise KeyboardInterrupt

    failed_in: list[Any] = []
    failed = threading.Event()
    registry.register_calculator(InterruptingSource)
    graph = CalculatorGraph(
        text_config='node { calculator: "InterruptingSource" output_stream: "out" }',
        registry=registry,
    )
    graph.set_error_callback(lambda error: failed.set())
    graph.start_run()
    assert failed.wait(PATIENCE)
    with pytest.raises(RunError) as caught:
        graph.wait_until_done()
    assert isinstance(caught.value.errors[0], CalculatorError)
    assert failed_in != [threading.get_ident()]
