"""The engine for log-probabilities of prompts: started once, ended when idle."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from calculators.llm.engine.engine import EngineDown, ProcessEngine
from calculators.llm.engine.messages import Add
from calculators.llm.engine.scoring_engine import ScoringEngine, scoring_settings
from calculators.llm.engine.settings import EngineSettings, GenerationSettings
from tests.calculators.llm.demo_model import DEMO
from tests.support.conditions import soon, until

PROMPT = Add(
    0,
    np.arange(5, 25, dtype=np.int64).tobytes(),
    GenerationSettings(max_new_tokens=0, echo=True, logprobs=True),
)


async def scores(engine: ScoringEngine) -> int:
    generation = await soon(engine.submit([PROMPT]))
    count = 0
    while not generation.is_finished:
        for _, tokens in await soon(generation.read()):
            count += len(tokens.logprobs)
    return count


def test_it_is_started_by_the_first_request_and_ends_when_idle() -> None:
    made: list[ProcessEngine] = []

    def make(settings: EngineSettings) -> ProcessEngine:
        made.append(ProcessEngine(settings, name="demo"))
        return made[-1]

    async def run() -> None:
        settings = EngineSettings(model_path=str(DEMO), enable_prefix_caching=True, cache_size=1)
        engine = ScoringEngine(settings, make, name="demo", idle_seconds=0.2)
        assert not made
        assert tuple(await asyncio.gather(scores(engine), scores(engine))) == (20, 20)
        assert len(made) == 1
        await until(lambda: engine.pid is None and made[0].pid is None)
        # The next request starts another one.
        assert await scores(engine) == 20
        assert len(made) == 2
        await engine.close()
        assert made[1].pid is None
        with pytest.raises(EngineDown, match="shut down"):
            await engine.submit([PROMPT])

    asyncio.run(run())


def test_an_engine_that_cannot_start_is_an_error_of_the_request() -> None:
    async def run() -> None:
        settings = EngineSettings(model_path="/nowhere", enable_prefix_caching=True)
        engine = ScoringEngine(settings, lambda each: ProcessEngine(each, name="x"), name="x")
        with pytest.raises(EngineDown, match="cannot be started"):
            await soon(engine.submit([PROMPT]))
        assert engine.unfinished == 0
        await engine.close()

    asyncio.run(run())


def test_nothing_is_kept_or_proposed() -> None:
    settings = EngineSettings(
        model_path="m",
        enable_prefix_caching=True,
        cache_size=4,
        plugin_config={"prompt_lookup": True, "KV_CACHE_PRECISION": "u8"},
    )

    found = scoring_settings(settings)

    assert not found.enable_prefix_caching
    assert found.decoding_mode == "standard"
    assert found.plugin_config == {"KV_CACHE_PRECISION": "u8"}
