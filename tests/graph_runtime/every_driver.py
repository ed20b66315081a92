"""The same run on every driver of a graph."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from graph_runtime import ApplicationThreadExecutor, CalculatorGraph, Registry, ThreadPoolExecutor

DRIVERS = ("default", "application thread", "thread pool", "event loop")

Feed = Iterable[tuple[str, Any, int]]


def make_graph(text: str, registry: Registry, driver: str) -> CalculatorGraph:
    """Make a graph for this driver; the engine's invariants are checked after every step."""
    graph = CalculatorGraph(text_config=text, registry=registry)
    if driver == "application thread":
        graph.set_executor("", ApplicationThreadExecutor())
    elif driver == "thread pool":
        graph.set_executor("", ThreadPoolExecutor(4))
    graph.check_invariants()
    return graph


def run_graph(
    graph: CalculatorGraph, driver: str, feed: Feed, side_packets: Mapping[str, Any] | None = None
) -> None:
    """Start, add (stream, value, timestamp) in order, close everything, wait for the end."""
    if driver == "event loop":
        asyncio.run(_run_async(graph, feed, side_packets))
        return
    graph.start_run(side_packets)
    for stream, value, time in feed:
        graph.add_packet_to_input_stream(stream, value, time)
    graph.close_all_input_streams()
    graph.wait_until_done()


async def _run_async(
    graph: CalculatorGraph, feed: Feed, side_packets: Mapping[str, Any] | None
) -> None:
    await graph.start_run_async(side_packets)
    for stream, value, time in feed:
        await graph.add_packet_to_input_stream_async(stream, value, time)
    graph.close_all_input_streams()
    await graph.wait_until_done_async()
