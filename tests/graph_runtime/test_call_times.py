"""Times of a run's calls, one entry per node."""

from __future__ import annotations

import asyncio
from time import perf_counter_ns

from graph_runtime import (
    REGISTRY,
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    In,
    Out,
    Packet,
    Registry,
)
from graph_runtime.observe.call_times import CallTimes


class Add(Calculator):
    """Adds one."""

    number = In[int]("IN")
    sum = Out[int]("OUT")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.sum, cc.get(self.number) + 1)


class AddLater(Calculator):
    """Adds one after a turn of the event loop."""

    number = In[int]("IN")
    sum = Out[int]("OUT")

    async def process(self, cc: CalculatorContext) -> None:
        await asyncio.sleep(0)
        cc.emit(self.sum, cc.get(self.number) + 1)


GRAPH = """
input_stream: "in"
node { name: "first" calculator: "Add" input_stream: "IN:in" output_stream: "OUT:mid" }
node { name: "second" calculator: "AddLater" input_stream: "IN:mid" output_stream: "OUT:out" }
"""


def test_a_run_has_one_entry_per_node() -> None:
    registry = Registry(REGISTRY)
    registry.register_calculator(Add)
    registry.register_calculator(AddLater)
    times = CallTimes()
    assert (times.started, times.last_end, times.nodes) == (0, 0, [])
    before = perf_counter_ns()

    async def run() -> None:
        graph = CalculatorGraph(text_config=GRAPH, registry=registry)
        graph.trace(times)
        await graph.start_run_async({})
        for time in range(3):
            graph.add_packet_to_input_stream("in", Packet(time), time)
        graph.close_all_input_streams()
        await graph.wait_until_done_async()

    asyncio.run(run())
    first, second = times.nodes
    assert (first.name, first.calculator) == ("first", "Add")
    assert (second.name, second.calculator) == ("second", "AddLater")
    # open and close may be left out if they do nothing
    assert 3 <= first.calls <= 5
    assert 3 <= second.calls <= 5
    for node in times.nodes:
        assert before <= times.started <= node.first_start <= node.last_end <= times.last_end
        assert node.busy_ns > 0
    assert first.first_start < second.first_start
    assert times.last_end <= perf_counter_ns()
