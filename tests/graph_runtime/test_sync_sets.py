"""Sync sets and back edges that the contract of a calculator supplies."""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    In,
    Out,
    Registry,
    ValidationError,
)
from tests.graph_runtime.every_driver import DRIVERS, make_graph, run_graph


class CountDown(Calculator):
    """Counts each number down to 0, a turn of its loop for each."""

    start = In[int](multiple=True)
    turn = In[int]("LOOPBACK")
    number = Out[int]()
    next_turn = Out[int]("LOOPBACK")
    timestamp_offset = None
    sync_sets = (("LOOPBACK",),)

    def open(self, cc: CalculatorContext) -> None:
        self._time = 0

    def process(self, cc: CalculatorContext) -> None:
        for shard in cc.input_list:
            if not shard.is_empty():
                self._time = max(self._time + 1, cc.time)
                cc.emit(self.number, shard.value, at=self._time)
                if shard.value:
                    cc.emit(self.next_turn, shard.value - 1, at=self._time)


class Apart(CountDown):
    """Takes each of its inputs as it comes."""

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        contract.sync_sets = [[key] for key in contract.inputs]


@pytest.fixture
def nodes(registry: Registry) -> Registry:
    for each in (CountDown, Apart):
        registry.register_calculator(each)
    return registry


LOOP = """
    input_stream: "in"
    node { name: "count" calculator: "CountDown" input_stream: "in" input_stream: "LOOPBACK:again"
           output_stream: "out" output_stream: "LOOPBACK:again" %s }
"""


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_loop_needs_neither_a_handler_nor_a_back_edge(nodes: Registry, driver: str) -> None:
    graph = make_graph(LOOP % "", nodes, driver)
    seen: list[Any] = []
    graph.observe_output_stream("out", lambda _, packet: seen.append(packet.payload))
    run_graph(graph, driver, [("in", 3, 0)])
    assert seen == [3, 2, 1, 0]
    assert graph.plan.warnings == ()
    assert graph.plan.nodes[0].handler_name == "SyncSetInputStreamHandler"


class Watching(CountDown):
    """Counts down, and notes what each call sees of its inputs."""

    seen: ClassVar[list[list[tuple[object, bool]]]] = []

    def process(self, cc: CalculatorContext) -> None:
        self.seen.append(
            [(None if each.is_empty() else each.value, each.is_done) for each in cc.input_list]
        )
        super().process(cc)


class WatchingAsync(Watching):
    """Does so in coroutines."""

    async def process(self, cc: CalculatorContext) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        super().process(cc)


@pytest.mark.parametrize("kind", [Watching, WatchingAsync])
def test_a_loop_goes_on_without_the_input_that_has_ended(
    nodes: Registry, kind: type[Watching]
) -> None:
    nodes.register_calculator(kind)
    graph = make_graph((LOOP % "").replace("CountDown", kind.__name__), nodes, "default")
    out: list[Any] = []
    graph.observe_output_stream("out", lambda _, packet: out.append(packet.payload))
    kind.seen.clear()

    asyncio.run(graph.run_once_async([("in", 2)]))

    assert out == [2, 1, 0]
    assert kind.seen == [
        [(2, True), (None, False)],
        [(None, True), (1, False)],
        [(None, True), (0, False)],
    ]


def test_a_graph_may_spell_them_out(nodes: Registry) -> None:
    handler = (
        'input_stream_info { tag_index: "LOOPBACK" back_edge: true } '
        'input_stream_handler { input_stream_handler: "SyncSetInputStreamHandler" options { '
        "[mediapipe.SyncSetInputStreamHandlerOptions.ext] "
        '{ sync_set { tag_index: "LOOPBACK" } } } }'
    )
    for text in (
        handler,
        'input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" }',
    ):
        assert make_graph(LOOP % text, nodes, "default").plan.warnings == ()


def test_a_handler_that_would_wait_for_inputs_of_two_sets_is_refused(nodes: Registry) -> None:
    default = 'input_stream_handler { input_stream_handler: "DefaultInputStreamHandler" }'
    for text in (LOOP % default, f"{default} {LOOP % ''}"):
        with pytest.raises(ValidationError) as caught:
            make_graph(text, nodes, "default")
        told = str(caught.value)
        assert 'node "count": CountDown takes what comes on LOOPBACK without waiting for :0' in told
        assert "leave out the input_stream_handler" in told


def test_an_input_that_closes_a_loop_through_other_nodes_becomes_a_back_edge(
    nodes: Registry,
) -> None:
    text = """
        input_stream: "in"
        node { name: "a" calculator: "Apart" input_stream: "in" input_stream: "from_c"
               input_stream: "LOOPBACK:la" output_stream: "from_a" output_stream: "LOOPBACK:la" }
        node { name: "b" calculator: "Apart" input_stream: "from_a"
               input_stream: "LOOPBACK:lb" output_stream: "from_b" output_stream: "LOOPBACK:lb" }
        node { name: "c" calculator: "Forward" input_stream: "from_b" output_stream: "from_c" }
    """
    plan = make_graph(text, nodes, "default").plan
    back_edges = {
        (node.name, each.stream)
        for node in plan.nodes
        for each in node.input_plans
        if each.is_back_edge
    }
    assert back_edges == {("a", "la"), ("a", "from_c"), ("b", "lb")}
    assert [node.name for node in plan.nodes] == ["a", "b", "c"]
