"""Pollers: reading a stream packet by packet."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from graph_runtime import CalculatorGraph, Registry, RunError, Timestamp
from tests.graph_runtime.small_calculators import one_node
from tests.support.patience import PATIENCE

COUNTS = """
    node { calculator: "CountTo" input_side_packet: "N:n" output_stream: "numbers" }
    node { calculator: "Double" input_stream: "numbers" output_stream: "out" }
"""


@pytest.fixture
def counts(registry: Registry) -> CalculatorGraph:
    return CalculatorGraph(text_config=COUNTS, registry=registry)


@pytest.fixture
def doubles(registry: Registry) -> CalculatorGraph:
    return CalculatorGraph(text_config=one_node("Double"), registry=registry)


def test_a_poller_reads_to_the_end(counts: CalculatorGraph) -> None:
    poller = counts.add_output_stream_poller("out")
    for _ in range(2):
        counts.start_run({"n": 3})
        assert [packet.value for packet in poller] == [2, 4, 6]
        assert poller.next() is None
        counts.wait_until_done()


def test_packets_are_read_one_by_one(doubles: CalculatorGraph) -> None:
    poller = doubles.add_output_stream_poller("out")
    doubles.start_run()
    for value in (1, 2):
        doubles.add_packet_to_input_stream("in", value, value)
    assert poller.queue_size == 2
    first = poller.next()
    assert first is not None
    assert (first.timestamp, first.value, poller.queue_size) == (1, 2, 1)
    doubles.close()


def test_several_pollers_read_the_same_packets(counts: CalculatorGraph) -> None:
    pollers = [counts.add_output_stream_poller(name) for name in ("numbers", "out", "out")]
    counts.start_run({"n": 2})
    counts.wait_until_idle()

    assert [[packet.value for packet in poller] for poller in pollers] == [[1, 2], [2, 4], [2, 4]]
    counts.close()


def test_bounds_are_empty_packets(doubles: CalculatorGraph) -> None:
    poller = doubles.add_output_stream_poller("out", observe_timestamp_bounds=True)
    doubles.start_run()
    doubles.add_packet_to_input_stream("in", 1, 0)
    doubles.set_input_stream_timestamp_bound("in", 10)
    doubles.close_input_stream("in")

    assert [(packet.timestamp, packet.is_empty()) for packet in poller] == [(0, False)]
    doubles.wait_until_done()

    doubles.start_run()
    doubles.set_input_stream_timestamp_bound("in", 10)
    packet = poller.next()
    assert packet is not None
    assert (packet.timestamp, packet.is_empty()) == (9, True)
    doubles.close()


def test_a_reader_waits_for_a_packet_from_another_thread(doubles: CalculatorGraph) -> None:
    poller = doubles.add_output_stream_poller("out")
    doubles.start_run()
    seen: list[Any] = []
    reader = threading.Thread(target=lambda: seen.extend(packet.value for packet in poller))
    reader.start()
    for value in range(100):
        doubles.add_packet_to_input_stream("in", value, value)
    doubles.close_input_stream("in")
    reader.join(PATIENCE)

    assert seen == [2 * value for value in range(100)]
    doubles.wait_until_done()


def test_a_limit_holds_the_source_back_until_packets_are_read(counts: CalculatorGraph) -> None:
    poller = counts.add_output_stream_poller("numbers")
    poller.set_max_queue_size(2)
    counts.start_run({"n": 20})
    counts.wait_until_idle()
    assert poller.queue_size == 2
    assert counts.statistics().throttled == ("CountTo",)
    assert counts.statistics().node("CountTo").waits_for == ("room in a full queue downstream",)
    poller.next()
    counts.wait_until_idle()
    assert poller.queue_size == 2
    poller.set_max_queue_size(-1)
    counts.wait_until_idle()
    assert poller.queue_size == 19
    assert [packet.value for packet in poller] == list(range(2, 21))
    counts.close()


def test_an_invalid_limit_is_refused(counts: CalculatorGraph) -> None:
    with pytest.raises(ValueError, match="-1"):
        counts.add_output_stream_poller("out").set_max_queue_size(-2)


def test_queued_packets_can_be_read_after_an_error(registry: Registry) -> None:
    graph = CalculatorGraph(
        text_config=one_node(
            "FailAt", extra="node_options { [x/enginetest.FailOptions] { at: 2 } }"
        ),
        registry=registry,
    )
    poller = graph.add_output_stream_poller("out")
    graph.start_run()
    for time in range(3):
        graph.add_packet_to_input_stream("in", time, time)
    assert [packet.value for packet in poller] == [0, 1]
    with pytest.raises(RunError, match="as told"):
        graph.wait_until_done()


def test_a_poller_has_nothing_before_the_first_run(counts: CalculatorGraph) -> None:
    poller = counts.add_output_stream_poller("out")

    assert poller.next() is None
    assert poller.queue_size == 0


def test_a_poller_reads_on_an_event_loop(counts: CalculatorGraph) -> None:
    async def use() -> list[Any]:
        poller = counts.add_output_stream_poller("out")
        poller.set_max_queue_size(1)
        await counts.start_run_async({"n": 50})
        seen = [packet.value async for packet in poller]
        await counts.wait_until_done_async()
        return seen

    assert asyncio.run(use()) == [2 * value for value in range(1, 51)]


def test_readers_of_many_graphs_take_turns_on_one_loop(registry: Registry) -> None:
    graphs = [CalculatorGraph(text_config=COUNTS, registry=registry) for _ in range(20)]

    async def read(graph: CalculatorGraph, count: int) -> int:
        poller = graph.add_output_stream_poller("out")
        await graph.start_run_async({"n": count})
        total = 0
        async for packet in poller:
            total += packet.value
        await graph.wait_until_done_async()
        return total

    async def use() -> list[int]:
        return await asyncio.gather(*(read(graph, n) for n, graph in enumerate(graphs)))

    assert asyncio.run(use()) == [n * (n + 1) for n in range(20)]


@pytest.mark.parametrize("threads", [0, 2])
def test_a_poller_waits_no_longer_than_it_may(registry: Registry, threads: int) -> None:
    text = one_node("Double") + (f"num_threads: {threads}" if threads else "")
    graph = CalculatorGraph(text_config=text, registry=registry)
    poller = graph.add_output_stream_poller("out")
    graph.start_run()
    with pytest.raises(TimeoutError, match=r'no packet came on "out" within 0\.01 s'):
        poller.next(timeout=0.01)
    graph.add_packet_to_input_stream("in", 1, 1)
    found = poller.next(timeout=PATIENCE)
    assert found is not None
    assert found.value == 2
    graph.close()
    assert poller.next(timeout=PATIENCE) is None


def test_a_thread_waits_for_a_run_on_an_event_loop_no_longer_than_it_may(
    registry: Registry,
) -> None:
    async def scenario() -> None:
        graph = CalculatorGraph(text_config=one_node("Double"), registry=registry)
        poller = graph.add_output_stream_poller("out")
        await graph.start_run_async()
        with pytest.raises(TimeoutError):
            await asyncio.to_thread(poller.next, 0.01)
        graph.add_packet_to_input_stream("in", 1, 1)
        found = await asyncio.to_thread(poller.next, PATIENCE)
        assert found is not None
        assert found.value == 2
        graph.close_all_packet_sources()
        await graph.wait_until_done_async()

    asyncio.run(scenario())


def test_arguments_of_other_types_are_named(doubles: CalculatorGraph) -> None:
    poller: Any = doubles.add_output_stream_poller("out")
    graph: Any = doubles
    seconds: Any = "1.5"
    calls: dict[str, Callable[[], object]] = {
        "next: timeout must be a number of seconds or None, not '1'": lambda: poller.next("1"),
        "size must be an integer, not '2'": lambda: poller.set_max_queue_size("2"),
        "callback must be a function, not 1": lambda: graph.observe_output_stream("out", 1),
        "set_error_callback: callback must be a function": lambda: graph.set_error_callback("f"),
        "executor must be an Executor, not 4": lambda: graph.set_executor("", 4),
        "microseconds, not 1.5": lambda: graph.add_packet_to_input_stream("in", 1, 1.5),
        "from_seconds: seconds must be a number, not '1.5'": lambda: Timestamp.from_seconds(
            seconds
        ),
        "max_queue_size: size must be an integer, not None": lambda: (
            graph.set_input_stream_max_queue_size("in", None)
        ),
    }
    for wrong, call in calls.items():
        if "microseconds" in wrong:
            graph.start_run()
        with pytest.raises(TypeError, match=re.escape(wrong)):
            call()
        if "microseconds" in wrong:
            graph.close()
