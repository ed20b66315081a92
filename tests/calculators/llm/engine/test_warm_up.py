"""Options that only a step refuses fail the load: else the engine would restart for ever."""

from __future__ import annotations

import asyncio

import pytest

from calculators.kit.child_process.supervisor import LoadError
from calculators.llm.engine.engine import ProcessEngine
from calculators.llm.engine.settings import EngineSettings
from tests.calculators.llm.demo_model import DEMO


def test_options_that_the_first_step_refuses_fail_the_load() -> None:
    # The default inference precision is bf16 or f32, depending on the machine; the cache must match
    # it.
    async def load(precision: str) -> str:
        settings = EngineSettings(
            model_path=str(DEMO),
            device="CPU",
            plugin_config={"KV_CACHE_PRECISION": "f32", "INFERENCE_PRECISION_HINT": precision},
        )
        engine = ProcessEngine(settings, name="demo")
        try:
            await engine.start()
        except LoadError as error:
            return str(error)
        finally:
            await engine.close()
        return ""

    reason = asyncio.run(load("bf16"))
    if not reason:
        pytest.skip("this machine computes everything in f32")
    assert "cache" in reason
    assert ".cpp" not in reason
