"""`Calculator.on_idle`: a last call when nothing can happen any more."""

from __future__ import annotations

from typing import Any

import pytest

from graph_runtime import Calculator, CalculatorContext, In, Out, Registry, RunError
from tests.graph_runtime.every_driver import DRIVERS, make_graph, run_graph

CALLS: list[str] = []


class Asleep(Calculator):
    """Feeds itself, so that it is open when the run is idle; sends nothing."""

    value = In[int]()
    again = In[int]("LOOPBACK")
    out = Out[int]()
    next_turn = Out[int]("LOOPBACK")
    timestamp_offset = None
    sync_sets = (("LOOPBACK",),)

    def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.value):
            cc.emit(self.out, cc.get(self.value))


class Hold(Calculator):
    """Sends what it got when nothing more can come."""

    value = In[int]()
    out = Out[int]()
    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self._sum = 0

    def process(self, cc: CalculatorContext) -> None:
        CALLS.append(f"{cc.node_name} process")
        self._sum += cc.get(self.value)

    def on_idle(self, cc: CalculatorContext) -> None:
        CALLS.append(f"{cc.node_name} idle")
        assert cc.input_list[0].is_empty()
        cc.emit(self.out, self._sum, at=100)


class HoldAsync(Hold):
    async def on_idle(self, cc: CalculatorContext) -> None:  # type: ignore[override]
        Hold.on_idle(self, cc)


@pytest.fixture
def nodes(registry: Registry) -> Registry:
    CALLS.clear()
    for each in (Asleep, Hold, HoldAsync):
        registry.register_calculator(each)
    return registry


def text(hold: str) -> str:
    return f"""
        input_stream: "in"
        node {{ calculator: "Asleep" input_stream: "in" input_stream: "LOOPBACK:loop"
               output_stream: "a" output_stream: "LOOPBACK:loop" }}
        node {{ name: "first" calculator: "{hold}" input_stream: "a" output_stream: "b" }}
        node {{ name: "second" calculator: "{hold}" input_stream: "b" output_stream: "c" }}
    """


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("hold", ["Hold", "HoldAsync"])
def test_nodes_send_what_they_held_and_the_run_goes_on(
    nodes: Registry, hold: str, driver: str
) -> None:
    graph = make_graph(text(hold), nodes, driver)
    seen: list[Any] = []
    graph.observe_output_stream("c", lambda _, packet: seen.append((packet.time, packet.payload)))
    run_graph(graph, driver, [("in", 1, 0), ("in", 2, 1)])
    assert seen == [(100, 3)]
    assert CALLS == [
        "first process", "first process", "first idle", "second process", "second idle",
    ]  # fmt: skip


def test_a_node_that_closes_with_its_inputs_is_not_called(nodes: Registry) -> None:
    graph = make_graph(
        'input_stream: "in" node { name: "only" calculator: "Hold" input_stream: "in" '
        'output_stream: "out" }',
        nodes,
        "default",
    )
    run_graph(graph, "default", [("in", 1, 0)])
    assert CALLS == ["only process"]


def test_a_run_that_failed_calls_nobody(nodes: Registry) -> None:
    graph = make_graph(text("Hold"), nodes, "default")
    graph.start_run()
    graph.add_packet_to_input_stream("in", 1, 0)
    graph.cancel()
    with pytest.raises(RunError):
        graph.wait_until_done()
    assert not any("idle" in call for call in CALLS)
