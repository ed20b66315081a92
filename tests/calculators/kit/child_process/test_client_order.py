"""The order of clients whose work waits: turns, shares, and nothing that waits for ever."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.kit.child_process.fair_turns import ClientOrder
from calculators.kit.requests.client_identity import ClientIdentity

ANN, BOB, EVE = (ClientIdentity(name) for name in ("ann", "bob", "eve"))


@dataclass(eq=False)
class Work:
    number: int
    client: ClientIdentity
    rank: float = 0.0


class Line:
    """Work that is taken when it is its turn."""

    def __init__(self) -> None:
        self.order: ClientOrder[Work] = ClientOrder(lambda work: work.rank)
        self._numbers = count()

    def put(self, client: ClientIdentity, rank: float = 0.0) -> Work:
        work = Work(next(self._numbers), client, rank)
        self.order.put(work)
        return work

    def take(self, cost: float = 1.0) -> Work:
        work = self.order.next()
        self.order.take(work, cost)
        return work

    def names(self, times: int) -> list[str]:
        return [self.take().client.name for _ in range(times)]


def test_who_arrives_comes_before_the_second_piece_of_everybody_else() -> None:
    line = Line()
    for client in (ANN, ANN, ANN, BOB, BOB):
        line.put(client)
    assert line.names(2) == ["ann", "bob"]
    line.put(EVE)
    assert line.names(4) == ["eve", "ann", "bob", "ann"]
    assert len(line.order) == 0


def test_a_client_that_was_silent_has_saved_nothing_up() -> None:
    line = Line()
    for _ in range(20):
        line.put(ANN)
    line.names(10)
    for _ in range(10):
        line.put(BOB)
    assert Counter(line.names(10)) == {"ann": 5, "bob": 5}


@pytest.mark.parametrize("priority", [5, 20, 100])
def test_shares_are_in_proportion_to_priorities(priority: int) -> None:
    line = Line()
    for _ in range(200):
        line.put(ANN)
        line.put(ClientIdentity("bob", priority=priority))
    taken = Counter(line.names(110))
    assert taken["bob"] == pytest.approx(110 * priority / (10 + priority), abs=2)


def test_who_takes_much_at_a_time_waits_longer() -> None:
    line = Line()
    for _ in range(30):
        line.put(ANN)
        line.put(BOB)
    taken = [line.take(cost=4.0 if line.order.next().client is ANN else 1.0) for _ in range(20)]
    assert Counter(work.client.name for work in taken) == {"ann": 4, "bob": 16}


def test_work_that_began_without_waiting_counts() -> None:
    line = Line()
    for _ in range(3):
        line.order.begin(ANN)
    line.put(ANN)
    line.put(BOB)
    assert line.names(2) == ["bob", "ann"]


def test_removed_work_has_no_turn() -> None:
    line = Line()
    first, second = line.put(ANN), line.put(ANN)
    other = line.put(BOB)
    line.order.remove(first)
    line.order.remove(other)
    line.order.remove(other)
    assert line.take() is second
    assert len(line.order) == 0


def test_the_work_that_is_refused_is_the_dearest_of_the_client_with_most() -> None:
    line = Line()
    line.put(BOB, rank=9)
    line.put(ANN, rank=1)
    dear = line.put(ANN, rank=2)
    assert line.order.last() is dear


@given(st.lists(st.tuples(st.sampled_from([ANN, BOB, EVE]), st.integers(0, 9)), max_size=60))
def test_nobody_gets_two_turns_more_than_another_who_waits(
    asked: list[tuple[ClientIdentity, int]],
) -> None:
    line = Line()
    for client, rank in asked:
        line.put(client, rank)
    waiting = Counter(client.name for client, _ in asked)
    had: Counter[str] = Counter()
    while len(line.order):
        name = line.take().client.name
        had[name] += 1
        waiting[name] -= 1
        for other, left in waiting.items():
            assert not left or had[name] - had[other] <= 1
    assert sum(had.values()) == len(asked)


def test_of_one_client_the_lowest_rank_comes_first_and_every_eighth_turn_is_the_oldests() -> None:
    line = Line()
    oldest = line.put(ANN, rank=5)
    cheap = [line.put(ANN, rank=1) for _ in range(20)]
    assert [line.take() for _ in range(8)] == [*cheap[:7], oldest]
