"""The states of graphs and versions of models: what leads where, and what clients see."""

from __future__ import annotations

from typing import Any

import pytest

from graph_runtime import GraphError
from graph_runtime.engine.states import next_state
from servers.contract.servable_states import (
    SERVABLE_TRANSITIONS,
    SHOWN,
    ServableEvent,
    ServableState,
)
from servers.serving.servable_status import version_status


def test_every_state_is_reached_left_and_shown() -> None:
    assert set(SHOWN) == set(ServableState)
    reached = set(SERVABLE_TRANSITIONS.values()) | {ServableState.START}
    assert reached == set(ServableState)
    assert {state for state, _ in SERVABLE_TRANSITIONS} == set(ServableState)


def test_what_the_table_does_not_list_raises() -> None:
    listed = set(SERVABLE_TRANSITIONS)
    for state in ServableState:
        for event in ServableEvent:
            if (state, event) not in listed:
                with pytest.raises(GraphError, match="is not allowed in"):
                    next_state(SERVABLE_TRANSITIONS, state, event)


@pytest.mark.parametrize("state", ServableState)
def test_every_state_is_told_in_plain_words(state: ServableState) -> None:
    reason = "no memory is left" if state is ServableState.FAILED else ""
    told: Any = version_status("1", state, reason)["status"]
    if state is ServableState.AVAILABLE:
        assert told == {"error_code": "OK", "error_message": "OK"}
    else:
        assert told["error_message"] != told["error_code"]
        assert told["error_message"] == told["error_message"].lower()
