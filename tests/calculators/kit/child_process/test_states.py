"""The states of a supervised child: every event is either in the table or refused."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from calculators.kit.child_process.supervisor import TRANSITIONS, ChildEvent, ChildState
from tests.calculators.kit.child_process.supervised import Supervised
from tests.support.conditions import until

PAIRS = list(itertools.product(ChildState, ChildEvent))


@pytest.mark.parametrize(("state", "event"), PAIRS, ids=[f"{a} {b}" for a, b in PAIRS])
def test_every_event_in_every_state_is_in_the_table_or_refused(
    state: ChildState, event: ChildEvent
) -> None:
    supervisor = Supervised()
    supervisor.state = state
    if (state, event) in TRANSITIONS:
        supervisor._move(event)
        assert supervisor.state is TRANSITIONS[state, event]
    else:
        with pytest.raises(RuntimeError, match=f"{event} in state {state}"):
            supervisor._move(event)
        assert supervisor.state is state


def test_a_closed_child_stays_closed() -> None:
    from_closed = {event: to for (state, event), to in TRANSITIONS.items() if state == "CLOSED"}
    assert from_closed == {ChildEvent.CLOSE: ChildState.CLOSED}


def test_every_state_can_be_reached_and_closed() -> None:
    reached = {ChildState.STOPPED}
    for _ in ChildState:
        reached |= {to for (state, _), to in TRANSITIONS.items() if state in reached}
    assert reached == set(ChildState)
    assert all(TRANSITIONS[state, ChildEvent.CLOSE] is ChildState.CLOSED for state in ChildState)


@pytest.mark.parametrize(
    ("stall_seconds", "reason"), [(0.0, 'the child of "test" has not answered for 0 s'), (60.0, "")]
)
def test_a_child_that_owes_an_answer_for_too_long_is_unavailable(
    stall_seconds: float, reason: str
) -> None:
    async def run() -> None:
        client = Supervised(stall_seconds=stall_seconds)
        await client.start()
        try:
            client.say("sleep")
            begun = asyncio.get_running_loop().time()
            await until(lambda: asyncio.get_running_loop().time() > begun)
            assert client.unavailable_reason == reason
        finally:
            await client.close()

    asyncio.run(run())


def test_the_reason_for_not_working_is_reported() -> None:
    supervisor = Supervised()
    assert supervisor.unavailable_reason == 'the child of "test" is not loaded'
    supervisor._move(ChildEvent.CLOSE)
    assert supervisor.unavailable_reason == 'the child of "test" is shut down'
