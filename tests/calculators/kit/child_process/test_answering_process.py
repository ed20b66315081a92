"""A child that answers questions: whatever one question raises, the next one is answered."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
import pytest

from calculators.kit.child_process.supervisor import SupervisedProcess
from tests.calculators.kit.child_process.raising_child import (
    MODULE,
    Answer,
    Load,
    Question,
    Ready,
    Refused,
    from_child,
)
from tests.support.conditions import soon


class _Child(SupervisedProcess[Ready]):
    def __init__(self) -> None:
        super().__init__(
            name="child",
            module=MODULE,
            load=Load(),
            decode=from_child.decode,
            ready=Ready,
            hang_seconds=60,
        )
        self.answers: asyncio.Queue[Any] = asyncio.Queue()

    def take(self, message: Any) -> None:
        self.answers.put_nowait(message)

    def down(self, reason: str) -> None:
        self.answers.put_nowait(reason)


async def answers_to(*questions: str) -> list[Any]:
    child = _Child()
    await soon(child.start())
    try:
        told = []
        for how in questions:
            child.send(msgspec.msgpack.encode(Question(how)))
            told.append(await soon(child.answers.get()))
        return told
    finally:
        await child.close()


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("no text", "the request has a text that is not Unicode (half of a surrogate pair)"),
        ("deep", "the request has values nested too deeply"),
        ("memory", "the request needs too much memory"),
        ("a secret of the client's", "the request cannot be handled"),
    ],
)
def test_an_exception_of_a_question_is_its_answer(
    how: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, logger="graphrt.child"):
        assert asyncio.run(answers_to(how, "fine")) == [Refused(reason), Answer("fine")]
    (line,) = [each.getMessage() for each in caplog.records]
    assert "Error" in line
    assert "secret" not in line
