"""States of runs and nodes: the tables, and what the application sees of them."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import pytest

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorGraph,
    Code,
    GraphError,
    In,
    Registry,
    RunError,
    SideOut,
)
from graph_runtime.engine.states import (
    NODE_TRANSITIONS,
    RUN_TRANSITIONS,
    NodeEvent,
    NodeState,
    RunEvent,
    RunState,
)
from tests.graph_runtime.small_calculators import one_node

TABLES: list[tuple[dict[Any, Any], type[IntEnum], type[IntEnum]]] = [
    (RUN_TRANSITIONS, RunState, RunEvent),
    (NODE_TRANSITIONS, NodeState, NodeEvent),
]
LEGAL = [
    (table, state, event, then) for table, _, _ in TABLES for (state, event), then in table.items()
]
ILLEGAL = [
    (table, state, event)
    for table, states, events in TABLES
    for state in states
    for event in events
    if (state, event) not in table
]


@pytest.mark.parametrize(("table", "state", "event", "then"), LEGAL)
def test_a_listed_event_leads_to_the_listed_state(
    table: Any, state: Any, event: Any, then: Any
) -> None:
    assert table[state, event] is then


@pytest.mark.parametrize(("table", "state", "event"), ILLEGAL)
def test_any_other_event_raises(table: Any, state: Any, event: Any) -> None:
    before = dict(table)

    with pytest.raises(GraphError, match=rf"{event.name}.*not allowed in.*{state.name}") as caught:
        table[state, event]
    assert caught.value.code is Code.INTERNAL
    assert table == before


def test_an_illegal_event_changes_nothing(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=one_node("Forward"), registry=registry)
    graph.start_run()
    run = graph._run
    assert run is not None
    scheduler, node = run.scheduler, run.scheduler.nodes[0]

    with pytest.raises(GraphError, match="RESUME"):
        scheduler.move(RunEvent.RESUME)
    with pytest.raises(GraphError, match="OPEN_RETURNED"):
        node.move(NodeEvent.OPEN_RETURNED)
    assert (scheduler.state, node.state) == (RunState.RUNNING, NodeState.OPENED)
    graph.close()


@pytest.mark.parametrize(("table", "states", "events"), TABLES)
def test_every_state_is_reached_and_every_event_is_used(
    table: dict[Any, Any], states: type[IntEnum], events: type[IntEnum]
) -> None:
    first = next(iter(states))
    assert set(table.values()) | {first} == set(states)
    assert {event for _, event in table} == set(events)


def test_the_application_sees_the_states_of_a_run(registry: Registry) -> None:
    graph = CalculatorGraph(text_config=one_node("Forward"), registry=registry)
    seen = [graph.statistics().state]
    graph.start_run()
    seen.append(graph.statistics().state)
    graph.pause()
    seen.append(graph.statistics().state)
    graph.resume()
    seen.append(graph.statistics().state)
    graph.cancel()
    seen.append(graph.statistics().state)
    with pytest.raises(RunError):
        graph.wait_until_done()
    seen.append(graph.statistics().state)

    assert [RunState(state).name for state in seen] == [
        "NOT_STARTED",
        "RUNNING",
        "PAUSED",
        "RUNNING",
        "TERMINATED",
        "NOT_STARTED",
    ]


class SideAtPacket(Calculator):
    value = In[int]()
    made = SideOut[int]()

    def process(self, cc: CalculatorContext) -> None:
        cc.set_side(self.made, cc.get(self.value))


def test_the_application_sees_the_states_of_nodes(registry: Registry) -> None:
    registry.register_calculator(SideAtPacket)
    graph = CalculatorGraph(
        text_config="""
            input_stream: "in"
            node { name: "forward" calculator: "Forward" input_stream: "in" output_stream: "out" }
            node { name: "source" calculator: "CountTo" input_side_packet: "N:n"
                   output_stream: "numbers" }
            node { name: "late" calculator: "Forward" input_stream: "after" output_stream: "x" }
            node { name: "waits" calculator: "CountTo" input_side_packet: "N:m"
                   output_stream: "after" }
            node { name: "makes" calculator: "SideAtPacket" input_stream: "in"
                   output_side_packet: "m" }
            executor { type: "ApplicationThreadExecutor" }
        """,
        registry=registry,
    )
    graph.start_run({"n": 1})

    def states() -> dict[str, str]:
        return {node.name: node.state.name for node in graph.statistics().nodes}

    assert states() == {
        "forward": "OPENING",
        "source": "OPENING",
        "late": "PREPARED",
        "waits": "PREPARED",
        "makes": "OPENING",
    }
    graph.wait_until_idle()
    assert states() == {
        "forward": "OPENED",
        "source": "CLOSED",
        "late": "PREPARED",
        "waits": "PREPARED",
        "makes": "OPENED",
    }
    graph.add_packet_to_input_stream("in", 1, 0)
    graph.wait_until_idle()
    assert states()["waits"] == states()["late"] == "CLOSED"
    graph.close()
