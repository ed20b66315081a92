"""Runs that do not end: a call in a thread cannot be interrupted, only abandoned."""

from __future__ import annotations

import asyncio
import threading

import pytest

from calculators.kit.requests.http_payload import RequestError
from graph_runtime import (
    REGISTRY,
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    In,
    Out,
    Registry,
    UnavailableError,
)
from servers.serving.graph_runs import end_run, ending_of, stuck_nodes
from servers.serving.servable import UseCount
from tests.support.patience import PATIENCE

_GRAPH = """
input_stream: "in"
output_stream: "out"
executor { name: "pool" type: "ThreadPoolExecutor"
  options { [mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 1 } } }
node { name: "stuck" calculator: "Stuck" executor: "pool" input_stream: "in" output_stream: "out" }
"""


async def begun(go_on: threading.Event) -> CalculatorGraph:
    """Run a graph whose only node is called, and returns when ``go_on`` is set."""
    called = asyncio.Event()
    loop = asyncio.get_running_loop()

    class Stuck(Calculator):
        value = In[int]()
        out = Out[int]()

        def process(self, cc: CalculatorContext) -> None:
            loop.call_soon_threadsafe(called.set)
            assert go_on.wait(PATIENCE)

    registry = Registry(REGISTRY)
    registry.register_calculator(Stuck, "Stuck")
    graph = CalculatorGraph(text_config=_GRAPH, registry=registry)
    await graph.start_run_async()
    graph.add_packet_to_input_stream("in", 1, 0)
    graph.close_all_input_streams()
    await called.wait()
    return graph


def test_a_cancelled_run_is_abandoned_and_may_end_later() -> None:
    async def run() -> None:
        go_on = threading.Event()
        graph = await begun(go_on)
        await end_run(graph, seconds=0.05)
        ending = ending_of(graph)
        assert ending is not None
        assert stuck_nodes(graph) == ["stuck"]
        go_on.set()
        await asyncio.wait_for(ending, PATIENCE)
        assert stuck_nodes(graph) == []

    asyncio.run(run())


def test_the_waiter_may_be_cancelled_meanwhile() -> None:
    async def run() -> None:
        go_on = threading.Event()
        graph = await begun(go_on)
        waiting = asyncio.ensure_future(end_run(graph, seconds=20.0))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.sleep(0)
        assert not waiting.done(), "it waits for the run all the same"
        go_on.set()
        await asyncio.wait_for(waiting, PATIENCE)
        assert ending_of(graph) is None

    asyncio.run(run())


def test_an_abandoned_run_counts_until_it_has_ended() -> None:
    async def run() -> None:
        users = UseCount("model", 1)
        ending = asyncio.get_running_loop().create_future()
        with users:
            users.hold(ending)
        assert users.requests == 1
        with pytest.raises(RequestError, match="as many as it takes"), users:
            pass
        ending.set_result(None)
        await asyncio.wait_for(users.close(), PATIENCE)
        with pytest.raises(UnavailableError, match="not served any more"), users:
            pass

    asyncio.run(run())
