"""The outcome of an engine's steps for its generations."""

from __future__ import annotations

import asyncio

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.engine import Requests
from calculators.llm.engine.messages import Add, CancelGeneration, FailedGeneration, NewTokens, Step
from graph_runtime import Code
from tests.calculators.llm.engine.engines import part

FULL = NewTokens(0, 0, [], [], "cache")


def test_a_prompt_for_which_there_was_no_room_is_an_error() -> None:
    async def run() -> None:
        sent: list[Add | CancelGeneration] = []
        requests = Requests(sent.append)
        generation = requests.submit([part(), part()])
        requests.take(Step([FULL]))
        with pytest.raises(RequestError, match="no room for the prompt") as caught:
            await generation.read()
        assert (caught.value.code, caught.value.retry_after) == (Code.RESOURCE_EXHAUSTED, 1)
        # The other parts of the request are cancelled.
        assert sent[2:] == [CancelGeneration(1)]
        assert (len(requests.open), requests.cache_full) == (0, 1)

    asyncio.run(run())


def test_an_answer_that_has_begun_ends_with_its_length() -> None:
    async def run() -> None:
        requests = Requests(lambda message: None)
        generation = requests.submit([part()])
        requests.take(Step([NewTokens(0, 0, [7])]))
        requests.take(Step([FULL]))
        assert [tokens for _, tokens in await generation.read()] == [NewTokens(0, 0, [7]), FULL]
        assert generation.is_finished
        assert (len(requests.open), requests.cache_full) == (0, 1)

    asyncio.run(run())


def test_a_request_for_which_memory_is_missing_may_be_sent_again() -> None:
    async def run() -> None:
        requests = Requests(lambda message: None)
        generation = requests.submit([part()])
        requests.take(Step([], [FailedGeneration(0, "std::bad_alloc", lacks_memory=True)]))
        with pytest.raises(RequestError, match="not enough memory") as caught:
            await generation.read()
        assert (caught.value.code, caught.value.retry_after) == (Code.UNAVAILABLE, 1)
        assert "bad_alloc" not in str(caught.value)

    asyncio.run(run())
