"""Departures: a client that leaves, or a cancelled graph, stops the generation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from graph_runtime import Cancelled, GraphError
from tests.calculators.llm.graph_runs import COMPLETIONS, Asking, LeavingClient, Run, request
from tests.support.conditions import soon, until

ENDLESS: dict[str, Any] = {"max_tokens": 2000, "ignore_eos": True}


async def running(ask: Asking, client: Any = None, **more: Any) -> Run:
    """Return a run on which the engine is working."""
    run = ask.new_run()
    await run.start(COMPLETIONS, request(COMPLETIONS, **ENDLESS, **more), client)
    await until(lambda: ask.servable.engine.unfinished > 0)
    if more.get("stream"):
        await until(lambda: len(run.answered.values) > 2)
    return run


async def assert_engine_is_free(ask: Asking) -> None:
    engine = ask.servable.engine
    steps = engine.metrics.steps
    seconds = await until(lambda: engine.unfinished == 0)
    free = await until(
        lambda: (
            engine.metrics.steps > steps
            and engine.metrics.running == 0
            and engine.metrics.cache_usage == 0
        )
    )
    print(f"cancelled after {1000 * seconds:.0f} ms, free after {1000 * (seconds + free):.0f} ms")


@pytest.mark.parametrize("more", [{"stream": True}, {}, {"n": 3, "temperature": 1}])
def test_a_client_that_leaves_ends_the_generation_and_the_run(
    ask: Asking, more: dict[str, Any]
) -> None:
    async def run() -> None:
        client = LeavingClient()
        at_work = await running(ask, client, **more)
        client.leave()
        await assert_engine_is_free(ask)
        with pytest.raises(Cancelled):
            await at_work.end()

    ask.runner.run(run())


def test_a_client_that_left_before_the_generation_is_not_answered(ask: Asking) -> None:
    async def run() -> None:
        client = LeavingClient()
        client.leave()
        with pytest.raises(GraphError):
            await ask.answer(COMPLETIONS, request(COMPLETIONS), client)
        assert ask.servable.engine.unfinished == 0

    ask.runner.run(run())


@pytest.mark.parametrize("more", [{"stream": True}, {}])
def test_a_cancelled_graph_ends_the_generation(ask: Asking, more: dict[str, Any]) -> None:
    async def run() -> None:
        at_work = await running(ask, **more)
        at_work.graph.cancel()
        ending = asyncio.create_task(at_work.end())
        await assert_engine_is_free(ask)
        with pytest.raises(Cancelled):
            await soon(ending)

    ask.runner.run(run())


def test_a_client_that_leaves_does_not_disturb_others(ask: Asking) -> None:
    async def run() -> None:
        alone = await ask.answer(COMPLETIONS, request(COMPLETIONS, ignore_eos=True))
        client = LeavingClient()
        leaving = await running(ask, client, stream=True)
        staying = ask.new_run()
        await staying.start(COMPLETIONS, request(COMPLETIONS, ignore_eos=True))
        client.leave()
        answered = await staying.end()
        assert answered.body["choices"] == alone.body["choices"]
        with pytest.raises(Cancelled):
            await leaving.end()

    ask.runner.run(run())
