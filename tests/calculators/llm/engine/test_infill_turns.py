"""A newer request to fill in text takes the place of its client's older ones."""

from __future__ import annotations

from calculators.llm.engine.core import MOST_INFILL_CLIENTS, InfillTurns
from calculators.llm.engine.messages import InfillTurn


def test_a_newer_request_ends_all_choices_of_the_older_one() -> None:
    turns = InfillTurns()
    assert turns.begin(InfillTurn("ann", 1), 10) == []
    assert turns.begin(InfillTurn("ann", 1), 11) == []  # another choice of the same answer
    assert turns.begin(InfillTurn("bob", 2), 12) == []
    assert turns.begin(InfillTurn("ann", 3), 13) == [10, 11]


def test_an_older_request_that_comes_late_ends_itself() -> None:
    turns = InfillTurns()
    assert turns.begin(InfillTurn("ann", 5), 1) == []
    assert turns.begin(InfillTurn("ann", 4), 2) == [2]
    assert turns.begin(InfillTurn("ann", 6), 3) == [1]


def test_the_client_that_has_not_asked_for_longest_is_forgotten() -> None:
    turns = InfillTurns()
    for number in range(MOST_INFILL_CLIENTS):
        turns.begin(InfillTurn(str(number), 1), number)
    turns.begin(InfillTurn("0", 2), MOST_INFILL_CLIENTS)
    turns.begin(InfillTurn("new", 2), MOST_INFILL_CLIENTS + 1)
    assert turns.begin(InfillTurn("1", 3), MOST_INFILL_CLIENTS + 2) == []  # forgotten
    assert turns.begin(InfillTurn("0", 3), MOST_INFILL_CLIENTS + 3) == [MOST_INFILL_CLIENTS]
