"""Fair turns: the order of requests, one choice of each answer at a time."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from calculators.llm.engine.fair_queue import FairQueue
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.engine.messages import Add


def ask(request_id: int, group: int) -> Add:
    return Add(request_id, b"", GenerationSettings(), group=group)


def turn(queue: FairQueue) -> int:
    request = queue.take()
    queue.done()
    return request.request_id


def turns(queue: FairQueue) -> list[int]:
    taken = []
    while not queue.is_empty:
        taken.append(turn(queue))
    assert len(queue) == 0
    return taken


def test_requests_run_in_the_order_of_their_arrival() -> None:
    queue = FairQueue()
    for number in (3, 1, 2):
        queue.put(ask(number, number))
    assert turns(queue) == [3, 1, 2]


def test_an_answer_of_many_choices_lets_others_in_between() -> None:
    queue = FairQueue()
    for number in range(4):
        queue.put(ask(number, 0))
    queue.put(ask(10, 10))
    queue.put(ask(11, 11))
    assert turns(queue) == [0, 10, 11, 1, 2, 3]


def test_a_request_that_arrives_during_a_choice_runs_before_the_next_choice() -> None:
    queue = FairQueue()
    queue.put(ask(0, 0))
    queue.put(ask(1, 0))
    assert queue.take().request_id == 0
    assert queue.is_empty  # its own next choice has to wait
    assert len(queue) == 1
    queue.put(ask(5, 5))
    queue.put(ask(2, 0))
    queue.done()
    assert turns(queue) == [5, 1, 2]


def test_choices_added_during_the_first_ones_turn_wait_like_others() -> None:
    queue = FairQueue()
    queue.put(ask(0, 0))
    assert queue.take().request_id == 0
    queue.put(ask(1, 0))
    queue.put(ask(5, 5))
    queue.done()
    assert turns(queue) == [5, 1]


def test_a_removed_request_has_no_turn() -> None:
    queue = FairQueue()
    for number in range(3):
        queue.put(ask(number, 0))
    queue.put(ask(7, 7))
    queue.remove(7)
    assert queue.take().request_id == 0
    queue.remove(1)
    queue.remove(0)
    queue.done()
    assert turns(queue) == [2]


@given(st.lists(st.integers(0, 4), max_size=30))
def test_each_request_has_one_turn_and_waits_for_at_most_one_of_others(groups: list[int]) -> None:
    queue = FairQueue()
    for number, group in enumerate(groups):
        queue.put(ask(number, group))
    taken = turns(queue)
    assert sorted(taken) == list(range(len(groups)))
    for group in set(groups):
        own = [number for number in taken if groups[number] == group]
        assert own == sorted(own)
        # Between two of its turns, every other answer had at most one.
        places = [place for place, number in enumerate(taken) if groups[number] == group]
        for before, after in pairwise(places):
            between = [groups[number] for number in taken[before + 1 : after]]
            assert len(between) == len(set(between))
