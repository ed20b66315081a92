"""Streams of a model: the order of batches, answers, failures of one, and dropped requests."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from calculators.text.text_models.batch_runner import BatchRunner
from calculators.text.text_models.messages import Computed, EncoderAnswer, EncoderRefused
from calculators.text.text_models.text_tokenizer import Encoded, TextTokens
from tests.support.patience import PATIENCE

BROKEN = 13


class SteppedForms:
    """One stream whose batches are computed when the test says so.

    The row of a sequence is its first token; a batch with the token `BROKEN` fails.
    """

    streams = 1

    def __init__(self) -> None:
        self._allowed: queue.SimpleQueue[None] = queue.SimpleQueue()
        #: The sequences of each batch that has begun, by their first tokens.
        self.begun: queue.SimpleQueue[list[int]] = queue.SimpleQueue()
        self.lone: list[bool] = []

    def runner(self) -> SteppedForms:
        return self

    def compute(self, batch: Sequence[TextTokens], pad: int, *, is_lone: bool) -> Any:
        firsts = [int(tokens.ids[0]) for tokens in batch]
        self.lone.append(is_lone)
        self.begun.put(firsts)
        self._allowed.get(timeout=PATIENCE)
        if BROKEN in firsts:
            raise RuntimeError("/build/path/op.cpp:5: no such token")
        return np.array(firsts, np.float32)[:, np.newaxis]

    def next_batch(self) -> list[int]:
        """Wait for the beginning of a batch."""
        return self.begun.get(timeout=PATIENCE)

    def step(self) -> None:
        """Let the batch that has begun end."""
        self._allowed.put(None)


class Running:
    """A `BatchRunner` over `SteppedForms`, and what it sends."""

    def __init__(self) -> None:
        self.forms = SteppedForms()
        self.sent: queue.SimpleQueue[Computed] = queue.SimpleQueue()
        self.logged: list[str] = []
        forms: Any = self.forms
        self.runner = BatchRunner(forms, 0, self.sent.put, self.logged.append)

    def add(self, number: int, *firsts: int, client: str = "", length: int = 8) -> None:
        ids = [np.full(length, first, np.int64) for first in firsts]
        self.runner.add(number, client, Encoded([TextTokens(each) for each in ids], number))

    def computed(self) -> Computed:
        return self.sent.get(timeout=PATIENCE)


@pytest.fixture
def running() -> Running:
    return Running()


def test_a_large_request_does_not_hold_single_texts_up(running: Running) -> None:
    running.add(1, *range(100, 2148), client="large")
    assert set(running.forms.next_batch()) <= set(range(100, 2148))
    for number in range(2, 12):
        running.add(number, number, client=f"client {number}")
    running.forms.step()
    second = running.forms.next_batch()
    assert set(range(2, 12)) <= set(second)  # all of them in the very next batch
    running.forms.step()
    running.computed()
    answered = [answer.number for answer in running.computed().answers]
    assert sorted(answered) == list(range(2, 12))


def test_a_long_text_waits_for_its_turn_only(running: Running) -> None:
    running.add(1, *range(100, 400), client="large")
    running.forms.next_batch()
    running.add(2, 7, client="other", length=300)
    running.forms.step()
    between = running.forms.next_batch()
    running.forms.step()
    assert 7 not in between
    assert running.forms.next_batch() == [7]
    running.forms.step()


def test_rows_come_in_the_order_of_the_sequences(running: Running) -> None:
    firsts = list(range(20, 60))
    running.add(1, *firsts)
    while True:
        running.forms.next_batch()
        running.forms.step()
        computed = running.computed()
        assert computed.tokens == computed.padded == 8 * len(computed.waits)
        if computed.answers:
            break
    (answer,) = computed.answers
    assert isinstance(answer, EncoderAnswer)
    assert np.frombuffer(answer.values, "<f4").tolist() == firsts
    assert (answer.tokens, answer.note) == ([8] * 40, 1)
    assert not running.runner.is_busy


def test_a_lone_sequence_is_known_as_such(running: Running) -> None:
    running.add(1, 20)
    running.forms.next_batch()
    running.forms.step()
    running.computed()
    running.add(2, 21, 22)
    running.forms.next_batch()
    assert running.forms.lone == [True, False]
    running.forms.step()


def test_only_the_request_at_fault_fails(running: Running) -> None:
    running.add(1, 20)
    running.forms.next_batch()
    running.add(2, BROKEN, client="broken")
    running.add(3, 21, client="fine")
    running.forms.step()
    running.computed()
    for batch in ([BROKEN, 21], [BROKEN], [21]):  # together, then each alone
        assert running.forms.next_batch() == batch
        running.forms.step()
    computed = running.computed()
    refused, answered = sorted(computed.answers, key=lambda each: each.number)
    assert refused == EncoderRefused(2, "the request cannot be handled", None, "INTERNAL")
    assert isinstance(answered, EncoderAnswer)
    assert len(running.logged) == 1
    assert "op.cpp" not in running.logged[0]


def test_dropped_requests_are_not_computed(running: Running) -> None:
    running.add(1, *range(100, 200))
    running.forms.next_batch()
    running.add(2, 20, client="other")
    running.runner.drop(1)
    running.forms.step()
    assert running.forms.next_batch() == [20]
    running.forms.step()
    assert running.computed().answers == []
    (answer,) = running.computed().answers
    assert answer.number == 2
