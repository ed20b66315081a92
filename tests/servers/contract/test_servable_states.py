"""States of graphs and versions of models: the transitions, and what clients see."""

from __future__ import annotations

from typing import Any

import pytest

from graph_runtime import GraphError
from servers.contract.data_plane import (
    SERVABLE_TRANSITIONS,
    SHOWN,
    ServableEvent,
    ServableState,
)
from servers.serving.servable import version_status


def test_every_state_is_reached_left_and_shown() -> None:
    assert set(SHOWN) == set(ServableState)
    reached = set(SERVABLE_TRANSITIONS.values()) | {ServableState.START}
    assert reached == set(ServableState)
    assert {state for state, _ in SERVABLE_TRANSITIONS} == set(ServableState)


def test_an_event_that_the_table_does_not_list_raises() -> None:
    listed = set(SERVABLE_TRANSITIONS)
    for state in ServableState:
        for event in ServableEvent:
            if (state, event) not in listed:
                with pytest.raises(GraphError, match="is not allowed in"):
                    SERVABLE_TRANSITIONS[state, event]


@pytest.mark.parametrize("state", ServableState)
def test_every_state_has_a_plain_description(state: ServableState) -> None:
    reason = "no memory is left" if state is ServableState.FAILED else ""
    told: Any = version_status("1", state, reason)["status"]
    if state is ServableState.AVAILABLE:
        assert told == {"error_code": "OK", "error_message": "OK"}
    else:
        assert told["error_message"] != told["error_code"]
        assert told["error_message"] == told["error_message"].lower()
