"""Calculators whose methods are coroutines, on every driver."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import Any

import pytest

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    Cancelled,
    Code,
    In,
    Out,
    Registry,
    RunError,
    StateError,
    Stop,
    Timestamp,
)
from graph_runtime.testing import Sink
from tests.graph_runtime.every_driver import DRIVERS, make_graph, run_graph
from tests.graph_runtime.small_calculators import Forward, one_node
from tests.support.patience import PATIENCE

CHAIN = """
    input_stream: "in"
    node { calculator: "SlowDouble" input_stream: "in" output_stream: "a" }
    node { calculator: "Double" input_stream: "a" output_stream: "b" }
    node { calculator: "SlowDouble" input_stream: "b" output_stream: "out" }
"""


class AllAsync(Calculator):
    """Every method is a coroutine."""

    value = In[int]()
    out = Out[int]()

    async def open(self, cc: CalculatorContext) -> None:
        await asyncio.sleep(0)
        self.total = 100

    async def process(self, cc: CalculatorContext) -> None:
        await asyncio.sleep(0)
        self.total += cc.get(self.value)

    async def close(self, cc: CalculatorContext) -> None:
        await asyncio.sleep(0)
        cc.emit(self.out, self.total, at=10)


class AsyncSource(Calculator):
    out = Out[int]()

    def open(self, cc: CalculatorContext) -> None:
        self.count = 0

    async def process(self, cc: CalculatorContext) -> None:
        await asyncio.sleep(0)
        if self.count == 5:
            raise Stop
        self.count += 1
        cc.emit(self.out, self.count, at=self.count)


class FinishInReverse(Calculator):
    """Calls overlap, and each ends only after the next one."""

    value = In[int]()
    out = Out[int]()
    calls = 4

    async def open(self, cc: CalculatorContext) -> None:
        self.done = [asyncio.Event() for _ in range(self.calls)]
        self.order: list[int] = []

    async def process(self, cc: CalculatorContext) -> None:
        place = cc.get(self.value)
        if place + 1 < self.calls:
            await self.done[place + 1].wait()
        self.order.append(place)
        self.done[place].set()
        cc.emit(self.out, place)

    def close(self, cc: CalculatorContext) -> None:
        assert self.order == [3, 2, 1, 0]


@pytest.mark.parametrize("driver", DRIVERS)
def test_coroutines_and_plain_methods_can_share_a_graph(registry: Registry, driver: str) -> None:
    graph = make_graph(CHAIN, registry, driver)
    sink = Sink(graph, "out")
    run_graph(graph, driver, [("in", value, value) for value in range(20)])

    assert sink.pairs == [(value, 8 * value) for value in range(20)]


@pytest.mark.parametrize("driver", DRIVERS)
def test_open_process_and_close_may_all_be_coroutines(registry: Registry, driver: str) -> None:
    registry.register_calculator(AllAsync)
    graph = make_graph(one_node("AllAsync"), registry, driver)
    sink = Sink(graph, "out")
    run_graph(graph, driver, [("in", 1, 1), ("in", 2, 2)])

    assert sink.values == [103]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_source_may_await(registry: Registry, driver: str) -> None:
    registry.register_calculator(AsyncSource)
    graph = make_graph('node { calculator: "AsyncSource" output_stream: "out" }', registry, driver)
    sink = Sink(graph, "out")
    run_graph(graph, driver, [])

    assert sink.values == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("driver", DRIVERS)
def test_parallel_calls_overlap_and_their_outputs_keep_the_order(
    registry: Registry, driver: str
) -> None:
    registry.register_calculator(FinishInReverse)
    graph = make_graph(one_node("FinishInReverse", extra="max_in_flight: 4"), registry, driver)
    sink = Sink(graph, "out")
    run_graph(graph, driver, [("in", place, place) for place in range(4)])

    assert sink.pairs == [(place, place) for place in range(4)]


@pytest.mark.parametrize("driver", DRIVERS)
def test_an_exception_after_an_await_is_an_error_of_the_node(
    registry: Registry, driver: str
) -> None:
    async def breaks(value: int) -> int:
        await asyncio.sleep(0)
        return 1 // value

    registry.register_calculator(breaks, "Breaks")
    graph = make_graph(one_node("Breaks"), registry, driver)
    with pytest.raises(RunError, match=r'"Breaks" failed: .* timestamp 7') as error:
        run_graph(graph, driver, [("in", 0, 7)])
    assert isinstance(error.value.errors[0].__cause__, ZeroDivisionError)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_coroutine_that_returns_a_value_fails_the_run(registry: Registry, driver: str) -> None:
    class Returns(Forward):
        async def process(self, cc: CalculatorContext) -> Any:  # type: ignore[override]
            return 5

    registry.register_calculator(Returns)
    graph = make_graph(one_node("Returns"), registry, driver)
    with pytest.raises(RunError, match="returned int; a calculator's methods return None"):
        run_graph(graph, driver, [("in", 1, 1)])


class Waits(Calculator):
    """Never ends by itself."""

    value = In[Any]()
    out = Out[Any]()
    started: threading.Event
    history: list[Any]

    async def process(self, cc: CalculatorContext) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.history.append("interrupted")

    async def close(self, cc: CalculatorContext) -> None:
        await asyncio.sleep(0)
        self.history.append(cc.graph_status.code if cc.graph_status else None)


@pytest.fixture
def waits() -> type[Waits]:
    return type("Waits", (Waits,), {"started": threading.Event(), "history": []})


@pytest.mark.parametrize("driver", DRIVERS)
def test_cancelling_interrupts_an_await(
    registry: Registry, waits: type[Waits], driver: str
) -> None:
    registry.register_calculator(waits)
    graph = make_graph(one_node("Waits"), registry, driver)

    async def use() -> None:
        await graph.start_run_async()
        graph.add_packet_to_input_stream("in", 1, 0)
        await asyncio.to_thread(waits.started.wait, 10)
        graph.cancel()
        await graph.wait_until_done_async()

    def cancel() -> None:
        waits.started.wait(PATIENCE)
        graph.cancel()

    def use_sync() -> None:
        graph.start_run()
        graph.add_packet_to_input_stream("in", 1, 0)
        threading.Thread(target=cancel).start()
        graph.wait_until_done()

    with pytest.raises(RunError) as caught:
        asyncio.run(use()) if driver == "event loop" else use_sync()
    assert [type(error) for error in caught.value.errors] == [Cancelled]
    assert waits.history == ["interrupted", Code.CANCELLED]


def test_cancelling_the_application_cancels_its_graph(
    registry: Registry, waits: type[Waits]
) -> None:
    registry.register_calculator(waits)
    graph = CalculatorGraph(text_config=one_node("Waits"), registry=registry)

    async def application() -> None:
        async with graph:
            await graph.start_run_async()
            graph.add_packet_to_input_stream("in", 1, 0)
            await graph.wait_until_idle_async()

    async def use() -> None:
        task = asyncio.create_task(application())
        await asyncio.to_thread(waits.started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(use())
    assert waits.history == ["interrupted", Code.CANCELLED]
    graph.start_run()
    graph.close()


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_calculator_that_waits_for_its_own_graph_is_refused(
    registry: Registry, driver: str
) -> None:
    refused: list[Timestamp] = []

    class WaitsForItself(Forward):
        async def process(self, cc: CalculatorContext) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            with pytest.raises(StateError, match="wait"):
                graph.wait_until_idle()
            with pytest.raises(StateError, match="it would wait for itself"):
                await graph.wait_until_done_async()
            refused.append(cc.input_timestamp)

    registry.register_calculator(WaitsForItself)
    graph = make_graph(one_node("WaitsForItself"), registry, driver)
    run_graph(graph, driver, [("in", 1, 3)])

    assert refused == [3]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_calculator_may_run_a_graph(registry: Registry, driver: str) -> None:
    async def nested(value: int) -> int:
        inner = CalculatorGraph(text_config=CHAIN, registry=registry)
        sink = Sink(inner, "out")
        async with inner:
            await inner.start_run_async()
            await inner.add_packet_to_input_stream_async("in", value, 0)
        result: int = sink.values[0]
        return result

    child = Registry(registry)
    child.register_calculator(nested, "Nested")
    graph = make_graph(one_node("Nested"), child, driver)
    sink = Sink(graph, "out")
    run_graph(graph, driver, [("in", 1, 0), ("in", 2, 1)])

    assert sink.values == [8, 16]


TURNS = 6
LOOP = """
    input_stream: "in"
    node {
      calculator: "Turns" input_stream: "REQUEST:in" input_stream: "LOOP:loop"
      output_stream: "TURN:turns" output_stream: "LOOP:loop"
      input_stream_info { tag_index: "LOOP" back_edge: true }
      input_stream_handler {
        input_stream_handler: "SyncSetInputStreamHandler"
        options {
          [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOP" } }
        }
      }
    }
    node { calculator: "Forward" input_stream: "turns" output_stream: "out" }
"""


class Turns(Calculator):
    """Sends the number of each turn of its loop, and what it sees of both inputs."""

    request = In[Any]("REQUEST")
    again = In[int]("LOOP")
    turn = Out[tuple[int, bool, bool]]("TURN")
    next_turn = Out[int]("LOOP")
    timestamp_offset = None
    tasks: set[Any]

    def open(self, cc: CalculatorContext) -> None:
        self.count = 0

    async def process(self, cc: CalculatorContext) -> None:
        await asyncio.sleep(0)
        self.tasks.add(asyncio.current_task())
        shown = (self.count, cc.is_empty(self.request), cc.inputs["REQUEST"].is_done)
        cc.emit(self.turn, shown, at=self.count)
        self.count += 1
        if self.count < TURNS:
            cc.emit(self.next_turn, self.count, at=self.count)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_loop_beside_an_input_that_has_ended(registry: Registry, driver: str) -> None:
    tasks: set[Any] = set()
    registry.register_calculator(type("Turns", (Turns,), {"tasks": tasks}))
    graph = make_graph(LOOP, registry, driver)
    sink = Sink(graph, "out")
    run_graph(graph, driver, [("in", "begin", 0)])

    assert [turn for turn, _, _ in sink.values] == list(range(TURNS))
    assert [empty for _, empty, _ in sink.values] == [False] + [True] * (TURNS - 1)
    ended = [done for _, _, done in sink.values]
    assert ended == sorted(ended)  # once the input has ended, it stays so


def test_a_loop_with_a_node_behind_it_stays_in_one_task_of_the_event_loop(
    registry: Registry,
) -> None:
    tasks: set[Any] = set()
    registry.register_calculator(type("Turns", (Turns,), {"tasks": tasks}))
    graph = make_graph(LOOP, registry, "event loop")
    sink = Sink(graph, "out")
    run_graph(graph, "event loop", [("in", "begin", 0)])

    assert [done for _, _, done in sink.values] == [True] * TURNS
    assert len(tasks) == 1


@pytest.mark.parametrize("driver", DRIVERS)
def test_coroutines_of_two_nodes_behind_a_third_overlap(registry: Registry, driver: str) -> None:
    arrived: list[str] = []
    met = asyncio.Event()

    class Meets(Forward):
        async def process(self, cc: CalculatorContext) -> None:  # type: ignore[override]
            arrived.append(cc.node_name)
            if len(arrived) == 2:
                met.set()
            await met.wait()
            cc.forward(self.same, cc.packet(self.value))

    registry.register_calculator(Meets)
    graph = make_graph(
        """
        input_stream: "in"
        node { calculator: "SlowDouble" input_stream: "in" output_stream: "a" }
        node { name: "one" calculator: "Meets" input_stream: "a" output_stream: "b" }
        node { name: "two" calculator: "Meets" input_stream: "a" output_stream: "c" }
        """,
        registry,
        driver,
    )
    sinks = Sink(graph, "b"), Sink(graph, "c")
    run_graph(graph, driver, [("in", 4, 0)])

    assert [sink.pairs for sink in sinks] == [[(0, 8)], [(0, 8)]]


def test_a_loop_goes_on_while_a_coroutine_behind_it_waits(registry: Registry) -> None:
    tasks: set[Any] = set()
    seen: list[int] = []
    last = asyncio.Event()

    class Behind(Calculator):
        """Waits in its first call until the loop has taken its last turn."""

        turn = In[Any]()

        async def process(self, cc: CalculatorContext) -> None:
            seen.append(cc.get(self.turn)[0])
            await last.wait()

    class Last(Calculator):
        turn = In[Any]()

        def process(self, cc: CalculatorContext) -> None:
            if cc.get(self.turn)[0] == TURNS - 1:
                last.set()

    registry.register_calculator(type("Turns", (Turns,), {"tasks": tasks}))
    registry.register_calculator(Behind)
    registry.register_calculator(Last)
    readers = (
        'node { calculator: "Behind" input_stream: "out" } '
        'node { calculator: "Last" input_stream: "out" }'
    )
    graph = make_graph(LOOP + readers, registry, "event loop")
    run_graph(graph, "event loop", [("in", "begin", 0)])

    assert seen == list(range(TURNS))


class Countdown(Calculator):
    """Sends numbers in one call, each after the one before has arrived."""

    value = In[int]()
    out = Out[int]()
    timestamp_offset = None
    arrivals: queue.SimpleQueue[int] = queue.SimpleQueue()

    async def process(self, cc: CalculatorContext) -> None:
        for number in range(cc.get(self.value), 0, -1):
            cc.emit(self.out, number, at=100 - number)
            cc.flush()
            assert await asyncio.to_thread(self.arrivals.get, timeout=PATIENCE) == number


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("stream", ["a", "b"])
def test_packets_leave_a_call_that_goes_on(registry: Registry, driver: str, stream: str) -> None:
    registry.register_calculator(Countdown)
    graph = make_graph(
        """
        input_stream: "in"
        node { calculator: "Countdown" input_stream: "in" output_stream: "a" }
        node { calculator: "Forward" input_stream: "a" output_stream: "b" }
        """,
        registry,
        driver,
    )
    graph.observe_output_stream(stream, lambda _, packet: Countdown.arrivals.put(packet.payload))
    run_graph(graph, driver, [("in", 3, 0)])
    assert Countdown.arrivals.empty()


class EarlyParallel(Calculator):
    """Tries to send early from one of several calls."""

    value = In[int]()
    out = Out[int]()

    async def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.out, cc.get(self.value))
        cc.flush()


def test_parallel_calls_cannot_send_before_their_turn(registry: Registry) -> None:
    registry.register_calculator(EarlyParallel)
    graph = make_graph(
        'input_stream: "in" node { calculator: "EarlyParallel" input_stream: "in" '
        'output_stream: "a" max_in_flight: 2 }',
        registry,
        "event loop",
    )
    with pytest.raises(RunError, match="max_in_flight"):
        run_graph(graph, "event loop", [("in", 1, 0)])
