"""Turns of the loop: one per piece of a stream, with OpenVINO Model Server's timestamps."""

from __future__ import annotations

import asyncio
import itertools
import time

from tests.calculators.llm.graph_runs import CHAT, COMPLETIONS, Asking, SlowClient, request
from tests.support.conditions import until
from tests.support.patience import PATIENCE


def test_a_whole_answer_is_one_packet_and_takes_no_turn(ask: Asking) -> None:
    answered = ask(CHAT)
    assert answered.times == [0]
    assert answered.turns == []


def test_pieces_and_turns_share_timestamps_that_increase(ask: Asking) -> None:
    before = time.time_ns() // 1000
    # Tokens that follow each other closely are one piece; this many give several.
    answered = ask(COMPLETIONS, stream=True, ignore_eos=True, max_tokens=300)
    after = time.time_ns() // 1000
    assert len(answered.times) > 1  # how many depends on the machine's speed
    assert answered.times[0] == 0
    assert all(earlier < later for earlier, later in itertools.pairwise(answered.times))
    assert all(before <= each <= after for each in answered.times[1:])
    # Every turn that sent something is followed by another, except for the last.
    assert answered.turns[0] == 0
    assert set(answered.times[:-1]) <= set(answered.turns)
    assert answered.times[-1] not in answered.turns
    assert all(earlier < later for earlier, later in itertools.pairwise(answered.turns))


def test_no_piece_is_made_for_a_client_that_does_not_read(ask: Asking) -> None:
    async def run() -> None:
        client = SlowClient()
        slow = ask.new_run()
        await slow.start(CHAT, request(CHAT, stream=True), client)
        # Other requests are answered meanwhile, and the engine has finished this answer.
        await ask.answer(CHAT, request(CHAT, stream=True))
        await until(lambda: ask.servable.engine.unfinished == 0)
        assert slow.answered.values == []
        client.reads.set()
        answered = await slow.end()
        # All that was generated meanwhile is one packet.
        assert len(answered.values) == 1
        assert answered.events

    ask.runner.run(asyncio.wait_for(run(), PATIENCE))
