"""The states of a served graph: what leads where, and what clients see."""

from __future__ import annotations

import pytest

from graph_runtime import GraphError
from graph_runtime.states import next_state
from servers.graph_states import GRAPH_TRANSITIONS, SHOWN, GraphEvent, GraphState


def test_every_state_is_reached_left_and_shown() -> None:
    assert set(SHOWN) == set(GraphState)
    reached = set(GRAPH_TRANSITIONS.values()) | {GraphState.START}
    assert reached == set(GraphState)
    assert {state for state, _ in GRAPH_TRANSITIONS} == set(GraphState)


def test_what_the_table_does_not_list_raises() -> None:
    listed = set(GRAPH_TRANSITIONS)
    for state in GraphState:
        for event in GraphEvent:
            if (state, event) not in listed:
                with pytest.raises(GraphError, match="is not allowed in"):
                    next_state(GRAPH_TRANSITIONS, state, event)
