"""States, commands and errors of several workers, from the view of one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from graph_runtime import Code, GraphError, NotFoundError, UnavailableError
from servers.contract.data_plane import IndexEntry, ReloadError
from servers.server.workers.messages import Action, Entry, Outcome, State, WorkerFailure
from servers.server.workers.worker import SharedDataPlane, error_of, failure_of


class OwnPlane:
    """The states of one worker; a double, because only they matter here."""

    def __init__(self, states: dict[str, str], *, is_ready: bool = True) -> None:
        self._states = states
        self.is_ready = is_ready

    def is_model_ready(self, model: str, version: str = "") -> bool:
        if model not in self._states:
            raise NotFoundError(model)
        return self._states[model] == "READY"

    def index(self) -> Sequence[IndexEntry]:
        return [IndexEntry(name, "1", state) for name, state in self._states.items()]

    def statuses(self) -> dict[str, object]:
        return {
            name: {"model_version_status": [{"state": state.replace("READY", "AVAILABLE")}]}
            for name, state in self._states.items()
        }


def shared(own: OwnPlane, *others: OwnPlane, outcome: Outcome | None = None) -> SharedDataPlane:
    async def perform(action: Action, model: str) -> Outcome:
        assert outcome is not None
        return outcome

    def of(plane: Any) -> SharedDataPlane:
        return SharedDataPlane(plane, perform)

    made = of(own)
    made.peers = [of(other).state() for other in others]
    return made


def test_a_model_is_ready_when_it_is_in_each_worker() -> None:
    one = OwnPlane({"a": "READY", "b": "READY", "c": "LOADING"})
    plane = shared(one, OwnPlane({"a": "READY", "b": "LOADING", "c": "READY"}))
    assert plane.is_ready
    assert [plane.is_model_ready(name) for name in "abc"] == [True, False, False]
    assert plane.is_model_ready("a", "1")
    with pytest.raises(NotFoundError):
        plane.is_model_ready("d")
    assert not shared(one, OwnPlane({}, is_ready=False)).is_ready


def test_statuses_and_index_are_of_the_worker_that_is_furthest_behind() -> None:
    one = OwnPlane({"a": "READY", "b": "LOADING"})
    plane = shared(one, OwnPlane({"a": "UNAVAILABLE", "b": "READY", "c": "READY"}))
    assert {each.name: each.state for each in plane.index()} == {
        "a": "UNAVAILABLE",
        "b": "LOADING",
        "c": "READY",
    }
    states: Any = plane.statuses()
    assert {name: each["model_version_status"][0]["state"] for name, each in states.items()} == {
        "a": "UNAVAILABLE",
        "b": "LOADING",
        "c": "AVAILABLE",
    }


@pytest.mark.parametrize(
    "error",
    [
        NotFoundError("no such model"),
        UnavailableError("loading"),
        GraphError("broken", code=Code.FAILED_PRECONDITION),
        ReloadError("in part", ["a"], {"b": "broken"}),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_another_worker_arrives_as_it_was(error: GraphError) -> None:
    again = error_of(failure_of(error))
    assert (type(again), again.message, again.code) == (type(error), error.message, error.code)
    if isinstance(error, ReloadError) and isinstance(again, ReloadError):
        assert (again.reloaded, again.failed) == (error.reloaded, error.failed)
    failed = Outcome(0, failure=failure_of(error))
    plane = shared(OwnPlane({}), outcome=failed)
    with pytest.raises(type(error)):
        asyncio.run(plane.load("a"))


def test_a_reload_reports_whether_any_worker_has_changed() -> None:
    for has_changed in (True, False):
        plane = shared(OwnPlane({}), outcome=Outcome(0, has_changed))
        assert asyncio.run(plane.reload()) is has_changed


def test_a_state_is_a_message() -> None:
    state = shared(OwnPlane({"a": "READY"})).state()
    assert state == State(True, [Entry("a", "1", "READY", "")], state.statuses)
    assert WorkerFailure("text", "NOT_FOUND").failed is None
