"""`Trial`: an engine with the settings of one candidate, and its rounds."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Sequence
from statistics import median
from time import perf_counter
from typing import NamedTuple, Self

import msgspec

from calculators.llm.engine.engine import Part
from calculators.llm.engine.engine_settings import EngineSettings
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.engine.process_engine import ProcessEngine
from calculators.llm.requests.sampling import read_assisted_decoding
from calculators.llm.tuning.loads import Conversation


class Round(NamedTuple):
    """The measurements of one round.

    Attributes:
        seconds: from the first request to the last token.
        first_token: seconds from a request to its first token; the median.
        tokens: generated.
    """

    seconds: float
    first_token: float
    tokens: int


class _Answer(NamedTuple):
    tokens: list[int]
    first_token: float


class Trial:
    """A running engine process, as a server has it: the same module, environment and protocol."""

    def __init__(self, engine: ProcessEngine, settings: EngineSettings) -> None:
        self._engine = engine
        tokens, threshold, ngram = read_assisted_decoding({}, settings.decoding_mode)
        self._generation = GenerationSettings(
            ignore_eos=True,
            num_assistant_tokens=tokens,
            assistant_confidence_threshold=threshold,
            max_ngram_size=ngram,
        )

    @classmethod
    async def open(cls, settings: EngineSettings, name: str) -> Self:
        """Start the process and load the model.

        Raises:
            LoadError: the library cannot load it with these settings; the text says why.
        """
        engine = ProcessEngine(settings, name=name)
        try:
            await engine.start()
        except BaseException:
            await engine.close()
            raise
        return cls(engine, settings)

    @property
    def pid(self) -> int | None:
        """The id of the process, while there is one."""
        return self._engine.pid

    async def close(self) -> None:
        await self._engine.close()

    async def answers(self, prompts: Sequence[bytes], tokens: int) -> list[list[int]]:
        """Return the greedy answers to prompts, one after the other, as tokens.

        Raises:
            RequestError: the engine refuses a prompt, or is gone.
        """
        return [(await self._ask(prompt, tokens)).tokens for prompt in prompts]

    async def run(self, clients: Sequence[Sequence[Conversation]]) -> Round:
        """Hold conversations: those of different clients at once.

        Raises:
            RequestError: the engine refuses a prompt, or is gone.
        """
        first_tokens: list[float] = []
        tokens = 0

        async def converse(conversations: Sequence[Conversation]) -> None:
            nonlocal tokens
            for each in conversations:
                prompt = each.prompt
                for follow_up in (*each.follow_ups, b""):
                    answer = await self._ask(prompt, each.output_tokens)
                    first_tokens.append(answer.first_token)
                    tokens += len(answer.tokens)
                    prompt += array("q", answer.tokens).tobytes() + follow_up

        start = perf_counter()
        async with asyncio.TaskGroup() as group:
            for conversations in clients:
                group.create_task(converse(conversations))
        return Round(perf_counter() - start, median(first_tokens), tokens)

    async def _ask(self, prompt: bytes, tokens: int) -> _Answer:
        settings = msgspec.structs.replace(self._generation, max_new_tokens=tokens)
        start = perf_counter()
        first = 0.0
        found: list[int] = []
        generation = self._engine.submit([Part(prompt, settings)])
        while not generation.is_finished:
            for _, gained in await generation.read():
                if gained.token_ids and not found:
                    first = perf_counter() - start
                found += gained.token_ids
        return _Answer(found, first)
