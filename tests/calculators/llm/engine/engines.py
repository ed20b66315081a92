"""Both kinds of engine, and readers of their generations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from calculators.llm.engine.engine import Engine, EngineGeneration, ProcessEngine
from calculators.llm.engine.messages import Add
from calculators.llm.engine.settings import EngineSettings, GenerationSettings
from tests.calculators.llm.demo_model import DEMO, ids_of
from tests.calculators.llm.engine.in_process_engine import InProcessEngine
from tests.calculators.llm.engine.scripted_pipeline import ScriptedPipeline
from tests.support.conditions import soon

PROMPT = ids_of(*range(40, 60))
#: More tokens than any test waits for.
ENDLESS = 1_000_000


def part(
    tokens: int = 8, *, prompt: bytes = PROMPT, choices: int = 1, beams: int = 1, **more: object
) -> Add:
    """Return a greedy part that does not end before its length."""
    return Add(
        0,
        prompt,
        GenerationSettings(
            max_new_tokens=tokens,
            ignore_eos=beams == 1,
            num_return_sequences=choices,
            num_beams=beams,
            **more,  # type: ignore[arg-type]
        ),
    )


@dataclass
class Gained:
    """The tokens of a choice, and how it ended."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


async def read_all(generation: EngineGeneration, choices: int = 1) -> list[Gained]:
    """Read a generation to its end."""
    gained = [Gained() for _ in range(choices)]
    while not generation.is_finished:
        for choice, tokens in await soon(generation.read()):
            gained[choice].ids += tokens.token_ids
            gained[choice].logprobs += tokens.logprobs
            if tokens.finish_reason is not None:
                gained[choice].reasons.append(tokens.finish_reason)
    return gained


async def generate(engine: Engine, asked: Add, *, choices: int = 1) -> list[Gained]:
    """Submit one part and read its generation to the end."""
    return await read_all(engine.submit([asked]), choices)


async def read_for_ever(generation: EngineGeneration) -> None:
    """Read a generation until it raises."""
    while True:
        await soon(generation.read())


async def demo_engine(*, hang_seconds: float = 120, **settings: object) -> ProcessEngine:
    engine = ProcessEngine(
        EngineSettings(model_path=str(DEMO), device="CPU", **settings),  # type: ignore[arg-type]
        name="demo",
        hang_seconds=hang_seconds,
    )
    await soon(engine.start())
    return engine


async def scripted_engine() -> InProcessEngine:
    await asyncio.sleep(0)
    return InProcessEngine(ScriptedPipeline())


ENGINES: dict[str, Callable[[], Awaitable[Engine]]] = {
    "scripted": scripted_engine,
    "process": demo_engine,
}

__all__ = [
    "ENDLESS",
    "ENGINES",
    "PROMPT",
    "Engine",
    "Gained",
    "demo_engine",
    "generate",
    "part",
    "read_all",
    "read_for_ever",
]
