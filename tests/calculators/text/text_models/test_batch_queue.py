"""The choice of batches, as pure logic: bounds that always hold, and the order of turns."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from calculators.text.text_models.batch_runner import BUDGET, WASTE, BatchQueue, QueuePlace

LENGTHS = st.lists(st.integers(1, 600), min_size=1, max_size=40)
#: Requests: a client, and the lengths of its sequences.
REQUESTS = st.lists(st.tuples(st.sampled_from("abc"), LENGTHS), min_size=1, max_size=12)
STREAMS = st.integers(1, 4)


def queue_of(streams: int, requests: list[tuple[str, list[int]]]) -> BatchQueue:
    queue = BatchQueue(streams)
    for number, (client, lengths) in enumerate(requests):
        queue.add(number, client, lengths)
    return queue


def all_batches(queue: BatchQueue) -> list[list[QueuePlace]]:
    batches = []
    while len(queue):
        batches.append(queue.take())
    assert queue.take() == []
    return batches


def padded(batch: list[QueuePlace]) -> int:
    return len(batch) * max(place.length for place in batch)


@given(STREAMS, REQUESTS)
def test_every_sequence_is_in_exactly_one_batch(
    streams: int, requests: list[tuple[str, list[int]]]
) -> None:
    taken = [place for batch in all_batches(queue_of(streams, requests)) for place in batch]
    wanted = [
        QueuePlace(number, index, length)
        for number, (_, lengths) in enumerate(requests)
        for index, length in enumerate(lengths)
    ]
    assert sorted(taken) == wanted


@given(STREAMS, REQUESTS)
def test_a_batch_is_within_the_budget_and_wastes_little(
    streams: int, requests: list[tuple[str, list[int]]]
) -> None:
    for batch in all_batches(queue_of(streams, requests)):
        if len(batch) > 1:
            assert padded(batch) <= BUDGET
            assert padded(batch) <= WASTE * sum(place.length for place in batch)


@given(STREAMS, REQUESTS)
def test_other_streams_are_left_their_share(
    streams: int, requests: list[tuple[str, list[int]]]
) -> None:
    queue = queue_of(streams, requests)
    while waiting := len(queue):
        assert 1 <= len(queue.take()) <= -(-waiting // streams)


@given(STREAMS, REQUESTS)
def test_a_batch_begins_with_the_client_whose_turn_it_is(
    streams: int, requests: list[tuple[str, list[int]]]
) -> None:
    queue = queue_of(streams, requests)
    turns = list(dict.fromkeys(client for client, _ in requests))
    left = dict.fromkeys(turns, 0)
    for client, lengths in requests:
        left[client] += len(lengths)
    while len(queue):
        batch = queue.take()
        turns = [client for client in turns if left[client]]
        assert requests[batch[0].request][0] == turns[0]
        turns.append(turns.pop(0))
        for place in batch:
            left[requests[place.request][0]] -= 1


@given(STREAMS, st.lists(st.integers(1, 600), min_size=1, max_size=300), st.integers(1, 600))
def test_a_single_text_waits_for_at_most_one_batch_of_a_large_request(
    streams: int, lengths: list[int], single: int
) -> None:
    queue = BatchQueue(streams)
    queue.add(1, "large", lengths)
    queue.take()
    queue.add(2, "single", [single])
    batches = [queue.take(), queue.take()]
    assert any(place.request == 2 for batch in batches for place in batch)


@given(st.integers(1, 30))
def test_single_texts_come_before_a_second_one_of_a_large_request(singles: int) -> None:
    queue = BatchQueue(1)
    queue.add(0, "large", [8] * 2000)
    queue.take()
    for number in range(1, singles + 1):
        queue.add(number, f"client {number}", [8])
    batch = queue.take()
    assert {place.request for place in batch} >= set(range(1, singles + 1))


def test_requests_of_one_client_take_turns() -> None:
    queue = BatchQueue(1)
    queue.add(1, "a", [200] * 3)
    queue.add(2, "a", [200] * 3)
    assert [batch[0].request for batch in all_batches(queue)] == [1, 2, 1, 2, 1, 2]


def test_short_texts_are_joined_and_long_ones_are_not() -> None:
    queue = BatchQueue(1)
    queue.add(1, "a", [8] * 64)
    queue.add(2, "b", [147, 147])
    sizes = [(batch[0].length, len(batch)) for batch in all_batches(queue)]
    assert sizes == [(8, 32), (147, 1), (8, 32), (147, 1)]


@given(REQUESTS, st.integers(0, 11))
def test_nothing_of_a_dropped_request_is_taken(
    requests: list[tuple[str, list[int]]], dropped: int
) -> None:
    queue = queue_of(2, requests)
    queue.take()
    queue.drop(dropped)
    assert all(place.request != dropped for batch in all_batches(queue) for place in batch)
