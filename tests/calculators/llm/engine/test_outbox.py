"""When tokens leave the engine: first and last at once, others at a pace."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from calculators.llm.engine.messages import Tokens
from calculators.llm.engine.outbox import LONGEST, Outbox


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def step(number: int, streams: int) -> list[Tokens]:
    return [Tokens(stream, 0, [number]) for stream in range(streams)]


def test_without_a_pace_every_step_goes_out_as_it_is() -> None:
    outbox = Outbox(0.0)
    gained = step(1, 3)
    assert outbox.take(gained) is gained


def test_the_first_tokens_go_at_once_and_the_next_wait() -> None:
    clock = Clock()
    outbox = Outbox(0.01, clock)
    assert outbox.take(step(1, 3)) == step(1, 3)
    clock.now += 0.02
    assert outbox.take(step(2, 3)) == []
    clock.now += 0.02
    assert outbox.take(step(3, 3)) == [Tokens(stream, 0, [2, 3]) for stream in range(3)]


def test_one_stream_of_slow_steps_is_told_of_each() -> None:
    clock = Clock()
    outbox = Outbox(0.0005, clock)
    for number in range(5):
        assert outbox.take(step(number, 1)) == step(number, 1)
        clock.now += 0.001


def test_the_last_tokens_go_at_once_with_what_was_held() -> None:
    clock = Clock()
    outbox = Outbox(1.0, clock)
    outbox.take(step(1, 2))
    assert outbox.take([Tokens(0, 0, [2], [-0.5]), Tokens(1, 0, [2], [-0.5])]) == []
    last = Tokens(0, 0, [3], [-1.0], "stop")
    assert outbox.take([last]) == [Tokens(0, 0, [2, 3], [-0.5, -1.0], "stop")]


def test_no_token_waits_longer_than_the_longest() -> None:
    clock = Clock()
    outbox = Outbox(1.0, clock)
    outbox.take(step(1, 100))
    assert outbox.take(step(2, 1)) == []
    clock.now += LONGEST + 0.001
    # Not only the streams of this step.
    assert sorted(tokens.request_id for tokens in outbox.take(step(3, 2))) == [0, 1]


def test_what_was_cancelled_is_forgotten() -> None:
    clock = Clock()
    outbox = Outbox(1.0, clock)
    outbox.take(step(1, 2))
    outbox.take(step(2, 2))
    outbox.forget(0)
    clock.now += LONGEST + 0.001
    assert outbox.take([]) == [Tokens(1, 0, [2])]


@given(st.lists(st.tuples(st.floats(0, 0.1), st.sets(st.integers(0, 4))), max_size=40))
def test_nothing_is_lost_and_the_order_stays(steps: list[tuple[float, set[int]]]) -> None:
    clock = Clock()
    outbox = Outbox(0.01, clock)
    seen: dict[int, list[int]] = {}
    given_out: dict[int, list[int]] = {}

    def take(gained: list[Tokens]) -> None:
        for tokens in outbox.take(gained):
            given_out.setdefault(tokens.request_id, []).extend(tokens.token_ids)

    for number, (seconds, streams) in enumerate(steps):
        clock.now += seconds
        for stream in streams:
            seen.setdefault(stream, []).append(number)
        take([Tokens(stream, 0, [number]) for stream in sorted(streams)])
    take([Tokens(stream, 0, [-1], [], "length") for stream in seen])
    assert given_out == {stream: [*ids, -1] for stream, ids in seen.items()}
