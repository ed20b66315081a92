"""The real model one request at a time, in the engine's process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.engine import EngineDown, EngineGeneration, ProcessEngine
from graph_runtime import Code
from tests.calculators.llm.engine.engines import (
    ENDLESS,
    demo_engine,
    generate,
    part,
    read_all,
    read_for_ever,
)
from tests.calculators.llm.graph_runs import Asking
from tests.support.conditions import signal_process, soon, until


@pytest.fixture(scope="module")
def engine(runner: asyncio.Runner) -> Iterator[ProcessEngine]:
    engine = runner.run(demo_engine(pipeline_type="LM"))
    yield engine
    runner.run(engine.close())


@pytest.mark.parametrize(
    ("asked", "choices"),
    [
        ({"tokens": 60}, 1),
        ({"tokens": 12, "echo": True}, 1),
        ({"tokens": 0, "echo": True}, 1),
        ({"tokens": 12, "beams": 4, "choices": 3}, 3),
        ({"tokens": 12, "stop_token_ids": (15, 39), "min_new_tokens": 5}, 1),
        ({"tokens": 20, "repetition_penalty": 1.5, "frequency_penalty": 0.5}, 1),
        ({"tokens": 20, "presence_penalty": 1.0}, 1),
        ({"tokens": 12, "beams": 2, "stop_strings": ("a", "e")}, 1),
        # Few: the pipelines round differently, and far on a sampled token may fall elsewhere.
        ({"tokens": 8, "do_sample": True, "temperature": 1.5, "rng_seed": 5}, 1),
    ],
    ids=lambda value: "-".join(map(str, value)) if isinstance(value, dict) else "",
)
def test_answers_are_those_of_continuous_batching(
    engine: ProcessEngine,
    ask: Asking,
    runner: asyncio.Runner,
    asked: dict[str, Any],
    choices: int,
) -> None:
    expected = runner.run(generate(ask.servable.engine, part(**asked), choices=choices))
    assert runner.run(generate(engine, part(**asked), choices=choices)) == expected


def test_a_seed_makes_sampling_repeatable(engine: ProcessEngine, runner: asyncio.Runner) -> None:
    async def sample(seed: int) -> list[int]:
        asked = part(30, do_sample=True, temperature=1.5, rng_seed=seed)
        return (await generate(engine, asked))[0].ids

    first = runner.run(sample(1))
    assert runner.run(sample(1)) == first
    assert any(runner.run(sample(seed)) != first for seed in range(2, 6))


def test_a_cancelled_request_makes_room_at_once(
    engine: ProcessEngine, runner: asyncio.Runner
) -> None:
    async def run() -> None:
        endless = engine.submit([part(ENDLESS)])
        await soon(endless.read())
        next_one = engine.submit([part(2)])
        endless.cancel()
        (gained,) = await soon(read_all(next_one))
        assert len(gained.ids) == 2
        assert engine.unfinished == 0
        await until(lambda: (engine.metrics.running, engine.metrics.waiting) == (0, 0))

    runner.run(run())


def test_the_choices_of_one_request_do_not_starve_another(
    engine: ProcessEngine, runner: asyncio.Runner
) -> None:
    async def run() -> None:
        # Long enough that the other one has arrived before the first choice has ended.
        many = engine.submit([part(1500) for _ in range(4)])
        other = engine.submit([part(5)])
        await soon(read_all(other))
        gained = await soon(many.read())
        ended = sum(tokens.finish_reason is not None for _, tokens in gained)
        assert ended <= 1
        many.cancel()

    runner.run(run())


def test_an_unsupported_request_is_refused_and_disturbs_no_other(
    engine: ProcessEngine, runner: asyncio.Runner
) -> None:
    async def run() -> None:
        before = engine.submit([part(20)])
        for bad in (part(3, logprobs=True), part(prompt=b""), part(repetition_penalty=-1.0)):
            with pytest.raises(RequestError) as caught:
                await read_for_ever(engine.submit([bad]))
            assert caught.value.code is Code.INVALID_ARGUMENT
            assert not any(word in str(caught.value) for word in (".cpp", "Check '", "/"))
        after = engine.submit([part(20)])
        assert (await read_all(before)) == (await read_all(after))
        assert engine.restarts == 0

    runner.run(run())


def test_a_killed_engine_fails_running_and_waiting_requests_and_is_restarted() -> None:
    async def end(generation: EngineGeneration) -> EngineDown:
        with pytest.raises(EngineDown) as caught:
            await read_for_ever(generation)
        return caught.value

    async def run() -> None:
        engine = await demo_engine(pipeline_type="LM")
        running = engine.submit([part(ENDLESS)])
        waiting = engine.submit([part(5), part(5)])
        await soon(running.read())
        signal_process(engine.pid, signal.SIGKILL)
        for failure in (await end(running), await end(waiting)):
            assert failure.code is Code.UNAVAILABLE
            assert str(failure) == 'the engine of "demo" stopped; it is being started again'
        await until(lambda: not engine.unavailable_reason)
        assert len((await generate(engine, part(5)))[0].ids) == 5
        await engine.close()

    asyncio.run(run())
