"""The attacks of the hostile command: their requests, and the report of their outcome."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.reliability.hostile.__main__ import ATTACKS, Watched
from tests.reliability.hostile.attack import Attack, chat, posts, send_all, send_one
from tests.reliability.hostile.report import Round, table
from tests.reliability.hostile.request_attacks import REQUEST_ATTACKS
from tests.reliability.hostile.watch import Memory, Seen

CALM = Seen(
    waits={"chat": 0.1, "structured": 0.3, "infer": 0.0, "health": 0.01},
    bad=Counter(),
    stall=0.01,
    memory={"server": Memory(100.0, 140.0, 110.0), "engine": Memory(150.0, 150.0, 150.0)},
)


def seen(**different: Any) -> Seen:
    return Seen(**{**CALM.__dict__, **different})


def attack(**members: Any) -> Attack:
    return Attack("an attack", posts(lambda: [chat()]), **members)


def problems(of: Attack, answers: dict[str, int], what: Seen = CALM, slack: float = 1) -> list[str]:
    return Round(of, Counter(answers), 1.0, what).problems(slack)


def test_each_attack_has_a_name_of_its_own() -> None:
    names = [each.name for each in ATTACKS]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("each", REQUEST_ATTACKS, ids=lambda each: each.name)
def test_the_requests_of_each_attack_can_be_made(each: Attack) -> None:
    each.prepare()


def test_allowed_answers_are_no_problem() -> None:
    assert problems(attack(), {"400": 3}) == []


def test_memory_that_is_not_given_back_is_reported() -> None:
    assert problems(attack(most_growth=50.0, most_left=20.0), {"400": 1}) == []
    assert problems(attack(most_growth=30.0, most_left=5.0), {"400": 1}) == [
        "the server grew by 40 MiB, at most 30",
        "the server kept 10 MiB, at most 5",
    ]


def test_other_answers_are_reported() -> None:
    assert problems(attack(), {"400": 1, "500": 2}) == ["answered 500, 2 times"]
    assert (
        problems(attack(normal=frozenset({503})), {"400": 1}, seen(bad=Counter({("chat", 503): 1})))
        == []
    )
    assert problems(attack(), {"400": 1}, seen(bad=Counter({("chat", 503): 1}))) == [
        "the normal client got chat 503, 1 times"
    ]


def test_waits_and_stalls_have_bounds() -> None:
    slow = seen(waits={"chat": 1.4}, stall=0.25)
    assert problems(attack(), {"400": 1}, slow) == [
        "chat took 1.4 s, at most 1",
        "the loop stood still for 250 ms, at most 200",
    ]
    assert problems(attack(), {"400": 1}, slow, slack=2) == []


def test_the_table_has_a_row_for_each() -> None:
    *_, row = table([Round(attack(), Counter({"400": 2}), 1.0, CALM)]).splitlines()
    assert row == "| an attack | 2 x 400 | 0.30 | 10 | 250, +40, 260 |"


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with Watched() as watched:
        yield watched


def test_a_server_is_watched_while_it_is_attacked(watched: Watched) -> None:
    harmless = Attack("harmless", posts(lambda: [chat()] * 3), frozenset({"200"}))
    done, is_well = watched.endure(harmless)
    assert is_well
    assert done.answers == {"200": 3}
    assert set(done.seen.waits) == {"chat", "structured", "infer", "health"}
    assert all(wait > 0 for wait in done.seen.waits.values())
    assert {"server", "engine", "prompt"} <= set(done.seen.memory)
    assert done.seen.memory["server"].peak > 10
    assert not done.seen.bad


def test_a_client_that_leaves_has_no_answer(watched: Watched) -> None:
    answers = asyncio.run(send_all(watched.target.port, [chat()] * 2, leaves=True))
    assert answers == {"left": 2}


def test_an_unanswered_request_is_reported() -> None:
    async def ask() -> str:
        silent = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        async with silent:
            return await send_one(silent.sockets[0].getsockname()[1], chat())

    assert asyncio.run(ask()) == "closed without an answer"


def test_a_server_that_is_stopped_has_to_end(watched: Watched) -> None:
    ending = Attack("ending", posts(lambda: [chat()]), frozenset({"200"}), ends_server=True)
    done, goes_on = watched.endure(ending)
    assert (done.faults, goes_on) == ([], False)
