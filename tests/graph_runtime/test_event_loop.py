"""Graphs on an event loop: many at once, calls from other threads, room, fairness."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    In,
    NotFoundError,
    Out,
    Registry,
    RunError,
    StateError,
    UnavailableError,
    parse_graph_text,
    validate_graph,
)
from graph_runtime.testing import Sink
from tests.graph_runtime.small_calculators import Forward, one_node
from tests.support.patience import PATIENCE


class Gate(Calculator):
    """Lets a packet through on command."""

    value = In[Any]()
    same = Out[Any](same_as=value)
    started: asyncio.Event
    go_on: asyncio.Event

    async def process(self, cc: CalculatorContext) -> None:
        self.started.set()
        await self.go_on.wait()
        cc.forward(self.same, cc.packet(self.value))


def gate() -> type[Gate]:
    return type("Gate", (Gate,), {"started": asyncio.Event(), "go_on": asyncio.Event()})


async def some_turns() -> None:
    """Give all tasks several turns."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.unmeasured
def test_thousands_of_small_graphs_live_on_one_loop(registry: Registry) -> None:
    arrived: list[int] = []
    all_there = asyncio.Event()
    count = 2000

    async def meets_everybody(value: int) -> int:
        arrived.append(value)
        if len(arrived) == count:
            all_there.set()
        await all_there.wait()
        return value + 1

    registry.register_calculator(meets_everybody, "Meets")
    plan = validate_graph(parse_graph_text(one_node("Meets")), registry=registry)

    async def one(number: int) -> Any:
        async with CalculatorGraph(plan) as graph:
            sink = Sink(graph, "out")
            await graph.start_run_async()
            graph.add_packet_to_input_stream("in", number, 0)
            await graph.wait_until_idle_async()
            return sink.values[0]

    async def use() -> list[Any]:
        return await asyncio.gather(*map(one, range(count)))

    threads = threading.active_count()
    assert asyncio.run(use()) == [number + 1 for number in range(count)]
    assert threading.active_count() <= threads


def test_plain_calculators_run_on_the_loops_own_thread(registry: Registry) -> None:
    class KnowsItsLoop(Forward):
        def process(self, cc: CalculatorContext) -> None:
            seen.append((asyncio.get_running_loop(), threading.get_ident()))

    seen: list[Any] = []
    registry.register_calculator(KnowsItsLoop)

    async def use() -> None:
        async with CalculatorGraph(one_node("KnowsItsLoop"), registry=registry) as graph:
            await graph.start_run_async()
            graph.add_packet_to_input_stream("in", 1, 0)
            await asyncio.to_thread(graph.add_packet_to_input_stream, "in", 2, 1)
        assert seen == [(asyncio.get_running_loop(), threading.get_ident())] * 2

    asyncio.run(use())


def test_a_blocking_call_on_a_pool_does_not_stop_the_loop(registry: Registry) -> None:
    released = threading.Event()

    def blocks(value: int) -> int:
        assert released.wait(PATIENCE)
        return value

    registry.register_calculator(blocks, "Blocks")

    async def use() -> list[Any]:
        text = one_node(
            "Blocks",
            extra='executor: "pool"',
            graph="""executor { name: "pool" type: "ThreadPoolExecutor" options {
                [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 1 } } }""",
        )
        async with CalculatorGraph(text, registry=registry) as graph:
            sink = Sink(graph, "out")
            await graph.start_run_async()
            graph.add_packet_to_input_stream("in", 7, 0)
            await some_turns()  # the loop runs while the pool's thread waits
            released.set()
            await graph.wait_until_idle_async()
            return sink.values

    assert asyncio.run(use()) == [7]


def test_adding_a_packet_waits_for_room(registry: Registry) -> None:
    async def use() -> None:
        gated = gate()
        child = Registry(registry)
        child.register_calculator(gated)
        graph = CalculatorGraph(one_node("Gate", graph="max_queue_size: 1"), registry=child)
        sink = Sink(graph, "out")
        async with graph:
            await graph.start_run_async()
            await graph.add_packet_to_input_stream_async("in", 0, 0)
            await gated.started.wait()
            await graph.add_packet_to_input_stream_async("in", 1, 1)
            third = asyncio.create_task(graph.add_packet_to_input_stream_async("in", 2, 2))
            await some_turns()
            assert not third.done()
            with pytest.raises(UnavailableError, match="add_packet_to_input_stream_async"):
                graph.add_packet_to_input_stream("in", 2, 2)
            gated.go_on.set()
            await third
        assert sink.values == [0, 1, 2]

    asyncio.run(use())


def test_adding_from_another_thread_waits_for_room(registry: Registry) -> None:
    async def use() -> None:
        gated = gate()
        child = Registry(registry)
        child.register_calculator(gated)
        graph = CalculatorGraph(one_node("Gate", graph="max_queue_size: 1"), registry=child)
        sink = Sink(graph, "out")

        def feed() -> None:
            for value in range(10):
                graph.add_packet_to_input_stream("in", value, value)

        async with graph:
            await graph.start_run_async()
            feeding = asyncio.create_task(asyncio.to_thread(feed))
            await gated.started.wait()
            await some_turns()
            assert not feeding.done()
            gated.go_on.set()
            await feeding
        assert sink.values == list(range(10))

    asyncio.run(use())


def test_a_waiting_add_raises_the_runs_error(registry: Registry) -> None:
    async def use() -> None:
        gated = gate()
        child = Registry(registry)
        child.register_calculator(gated)
        graph = CalculatorGraph(one_node("Gate", graph="max_queue_size: 1"), registry=child)
        async with graph:
            await graph.start_run_async()
            graph.add_packet_to_input_stream("in", 0, 0)
            await gated.started.wait()
            graph.add_packet_to_input_stream("in", 1, 1)
            third = asyncio.create_task(graph.add_packet_to_input_stream_async("in", 2, 2))
            await some_turns()
            graph.cancel()
            with pytest.raises(RunError):
                await third
            with pytest.raises(RunError):
                await graph.wait_until_done_async()

    asyncio.run(use())


def test_calls_that_would_block_the_loop_are_refused(registry: Registry) -> None:
    async def use() -> None:
        graph = CalculatorGraph(one_node("Forward"), registry=registry)
        poller = graph.add_output_stream_poller("out")
        async with graph:
            await graph.start_run_async()
            for wait in (
                graph.wait_until_idle,
                graph.wait_until_done,
                graph.wait_for_observed_output,
                graph.close,
                poller.next,
            ):
                with pytest.raises(StateError, match="would block the event loop"):
                    wait()

    asyncio.run(use())


def test_an_endless_source_leaves_turns_to_others(registry: Registry) -> None:
    async def use() -> None:
        graph = CalculatorGraph(
            'node { calculator: "Endless" output_stream: "out" }', registry=registry
        )
        sink = Sink(graph, "out")
        async with graph:
            await graph.start_run_async()
            for _ in range(3):
                count = len(sink)
                await graph.wait_for_observed_output_async()
                assert len(sink) > count

    asyncio.run(use())


@pytest.mark.parametrize(("packets", "turns"), [(1, 1), (1000, 5)])
def test_runs_leave_turns_to_others(registry: Registry, packets: int, turns: int) -> None:
    """A short run takes one turn of the loop; a long one lets others run in between."""

    async def use() -> int:
        count = 0

        async def others() -> None:
            nonlocal count
            while True:
                count += 1
                await asyncio.sleep(0)

        text = one_node("Forward", graph="max_queue_size: -1")
        graph = CalculatorGraph(text, registry=registry)
        turning = asyncio.create_task(others())
        for _ in range(3):
            await graph.start_run_async()
            for time in range(packets):
                graph.add_packet_to_input_stream("in", time, time)
            graph.close_all_input_streams()
            await graph.wait_until_done_async()
        turning.cancel()
        return count

    count = asyncio.run(use())
    assert count == 3 if packets == 1 else count >= 3 * turns


def test_a_run_started_without_the_loop_can_be_awaited(registry: Registry) -> None:
    async def use() -> list[Any]:
        graph = CalculatorGraph(
            'node { calculator: "CountTo" input_side_packet: "N:n" output_stream: "out" }',
            registry=registry,
        )
        sink = Sink(graph, "out")
        graph.start_run({"n": 3})
        await graph.wait_until_idle_async()
        await graph.wait_until_done_async()
        return sink.values

    assert asyncio.run(use()) == [1, 2, 3]


def test_a_graph_can_run_on_one_loop_after_another(registry: Registry) -> None:
    graph = CalculatorGraph(one_node("SlowDouble"), registry=registry)
    sink = Sink(graph, "out")

    async def use(value: int) -> None:
        async with graph:
            await graph.start_run_async()
            graph.add_packet_to_input_stream("in", value, 0)

    for value in (1, 2):
        asyncio.run(use(value))
    with graph:
        graph.start_run()
        graph.add_packet_to_input_stream("in", 3, 0)
    assert sink.values == [2, 4, 6]


def test_an_interrupt_in_a_calculator_reaches_the_application(registry: Registry) -> None:
    class Interrupts(Forward):
        def process(self, cc: CalculatorContext) -> None:
            raise KeyboardInterrupt

    registry.register_calculator(Interrupts)

    async def use() -> None:
        async with CalculatorGraph(one_node("Interrupts"), registry=registry) as graph:
            await graph.start_run_async()
            graph.add_packet_to_input_stream("in", 1, 0)
            await graph.wait_until_idle_async()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(use())


def test_a_run_ends_with_its_event_loop(registry: Registry) -> None:
    registry.register_calculator(Forward)
    graph = CalculatorGraph(text_config=one_node("Forward"), registry=registry)
    seen = Sink(graph, "out")
    asyncio.run(graph.start_run_async())

    with pytest.raises(StateError, match="event loop that this run belonged to is closed"):
        graph.add_packet_to_input_stream("in", "late", 0)
    with pytest.raises(StateError, match="start_run begins a new one"):
        graph.wait_until_idle()
    graph.close()

    graph.start_run()
    graph.add_packet_to_input_stream("in", "again", 0)
    graph.close()
    assert seen.values == ["again"]


def test_a_run_with_one_packet_per_input_needs_one_call(registry: Registry) -> None:
    registry.register_calculator(Forward)
    graph = CalculatorGraph(
        text_config=one_node("Forward") + ' output_stream: "out"', registry=registry
    )
    shown: list[tuple[Any, int]] = []
    graph.observe_output_stream("out", lambda _, packet: shown.append((packet.value, packet.time)))

    async def run() -> None:
        packets = [("in", "once")]
        await graph.run_once_async(packets, at=3)
        assert not packets
        await graph.run_once_async([("in", "more")])
        with pytest.raises(NotFoundError, match='"elsewhere" which is not a graph input'):
            await graph.run_once_async([("elsewhere", "none")])
        await graph.close_async()
        # The second packet does not come after the first, so the run fails before any call.
        with pytest.raises(RunError, match="minimum expected timestamp"):
            await graph.run_once_async([("in", "twice"), ("in", "too often")])

    asyncio.run(run())
    assert shown == [("once", 3), ("more", 0)]
