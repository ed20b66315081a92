"""`Trial`: an engine with the settings of one candidate, and its rounds under a `TuningLoad`.

A load says how many requests run at a time, and how long prompts and answers are. `PromptMaker`
writes the prompts.
"""

from __future__ import annotations

import asyncio
import random
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from time import perf_counter
from typing import Final, NamedTuple, Self

import msgspec

from calculators.llm.engine.engine import ProcessEngine
from calculators.llm.engine.messages import Add
from calculators.llm.engine.settings import EngineSettings, GenerationSettings
from calculators.llm.prompt.client import PromptProcess
from calculators.llm.requests.sampling import read_assisted_decoding

#: Tokens that the chat template and the number of a prompt take, about.
_OVERHEAD: Final = 16
#: Tokens that stay free at the end of a model's length.
_MARGIN: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningLoad:
    """Clients that each hold conversations, one after the other.

    Attributes:
        streams: clients at a time.
        prompt_tokens: tokens of a conversation's first prompt, about.
        output_tokens: tokens of each answer.
        follow_ups: further questions of a conversation, each with all that came before.
        follow_up_tokens: tokens of such a question, about.
    """

    name: str
    streams: int
    prompt_tokens: int
    output_tokens: int
    follow_ups: int = 0
    follow_up_tokens: int = 0

    @property
    def words(self) -> str:
        """The load in one line."""
        more = f", then {self.follow_ups} of {self.follow_up_tokens}" if self.follow_ups else ""
        return (
            f"{self.streams} streams, prompts of about {self.prompt_tokens} tokens{more}, answers "
            f"of {self.output_tokens}"
        )

    def within(self, length: int | None) -> TuningLoad:
        """Return the load with prompts that fit into a model of this length; None: any do."""
        if length is None:
            return self
        turns = self.follow_ups + 1
        rest = length - self.output_tokens * turns - self.follow_up_tokens * self.follow_ups
        return replace(self, prompt_tokens=max(1, min(self.prompt_tokens, rest - _MARGIN)))

    def scaled(self, part: float) -> TuningLoad:
        """Return the load with prompts and answers of this part of their tokens."""
        return replace(
            self,
            prompt_tokens=max(1, round(self.prompt_tokens * part)),
            output_tokens=max(1, round(self.output_tokens * part)),
            follow_up_tokens=round(self.follow_up_tokens * part),
        )


LOADS: Final[Mapping[str, TuningLoad]] = {
    each.name: each
    for each in (
        TuningLoad(
            name="chat",
            streams=8,
            prompt_tokens=200,
            output_tokens=64,
            follow_ups=1,
            follow_up_tokens=40,
        ),
        TuningLoad(name="long_prompts", streams=2, prompt_tokens=1500, output_tokens=32),
        TuningLoad(name="many_streams", streams=64, prompt_tokens=100, output_tokens=64),
    )
}


class TrialConversation(NamedTuple):
    """Prompts as tokens, int64 in native byte order.

    Attributes:
        follow_ups: what is added after each answer.
    """

    prompt: bytes
    follow_ups: tuple[bytes, ...]
    output_tokens: int


class PromptMaker:
    """Makes conversations of English sentences, each with another beginning."""

    def __init__(self, prompts: PromptProcess, *, has_template: bool) -> None:
        self._prompts = prompts
        self._has_template = has_template
        self._tokens_per_sentence = 0.0
        self._number = 0

    async def start(self) -> None:
        """Measure how many tokens a sentence has with the model's tokenizer."""
        prompt = await self._prompts.encode(" ".join(_SENTENCES))
        self._tokens_per_sentence = prompt.token_count / len(_SENTENCES)

    async def make(self, load: TuningLoad, count: int) -> list[TrialConversation]:
        """Return this many conversations, none of which begins like an earlier one."""
        return [await self._conversation(load) for _ in range(count)]

    async def _conversation(self, load: TuningLoad) -> TrialConversation:
        self._number += 1
        chance = random.Random(self._number)
        first = f"{self._number}. {self._text(chance, load.prompt_tokens - _OVERHEAD)}"
        follow_ups = [
            (await self._prompts.encode(self._text(chance, load.follow_up_tokens))).input_ids
            for _ in range(load.follow_ups)
        ]
        if self._has_template:
            prompt = await self._prompts.chat([{"role": "user", "content": first}])
        else:
            prompt = await self._prompts.encode(first)
        return TrialConversation(prompt.input_ids, tuple(follow_ups), load.output_tokens)

    def _text(self, chance: random.Random, tokens: int) -> str:
        count = max(1, round(tokens / self._tokens_per_sentence))
        return " ".join(_chosen(chance, count))


def _chosen(chance: random.Random, count: int) -> Sequence[str]:
    """Return sentences in random order; each comes again only after all the others."""
    found: list[str] = []
    while len(found) < count:
        found += chance.sample(_SENTENCES, len(_SENTENCES))
    return found[:count]


_SENTENCES: Final = (
    "The ferry leaves at six, and the captain waits for nobody.",
    "How many apples are left if three of the ten were eaten yesterday?",
    "Please write a short letter to my landlord about the broken window.",
    "Water boils at a lower temperature on top of a mountain.",
    "She planted beans along the fence, and peas behind the shed.",
    "Explain in simple words why the sky is blue and sunsets are red.",
    "The committee met twice in March, and agreed on nothing.",
    "A function that calls itself needs a case in which it does not.",
    "Our train was late, so we missed the beginning of the concert.",
    "List three cities by the sea that are worth a visit in winter.",
    "The engine makes a noise when it is cold, and stops when it is warm.",
    "Two numbers have the sum twelve and the product thirty-five.",
    "He translated the poem, but the rhymes were lost.",
    "What is the difference between a stack and a queue?",
    "The bakery on the corner sells bread until noon.",
    "Summarize the following report, and leave out the names of people.",
    "Rain is expected in the north, with strong wind along the coast.",
    "The museum shows maps that sailors drew four hundred years ago.",
    "Sort the list by date, then by name, and remove what occurs twice.",
    "My grandmother kept her recipes in a tin box under the stairs.",
    "If the door is locked, ask for the key at the office next door.",
    "The price has risen by a tenth since last summer.",
    "Write a headline for an article about bees in large cities.",
    "Nobody knew who had left the bicycle in front of the school.",
)


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


class _TrialAnswer(NamedTuple):
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

    async def run(self, clients: Sequence[Sequence[TrialConversation]]) -> Round:
        """Hold conversations, with different clients at once.

        Raises:
            RequestError: the engine refuses a prompt, or is gone.
        """
        first_tokens: list[float] = []
        tokens = 0

        async def converse(conversations: Sequence[TrialConversation]) -> None:
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

    async def _ask(self, prompt: bytes, tokens: int) -> _TrialAnswer:
        settings = msgspec.structs.replace(self._generation, max_new_tokens=tokens)
        start = perf_counter()
        first = 0.0
        found: list[int] = []
        generation = self._engine.submit([Add(0, prompt, settings)])
        while not generation.is_finished:
            for _, gained in await generation.read():
                if gained.token_ids and not found:
                    first = perf_counter() - start
                found += gained.token_ids
        return _TrialAnswer(found, first)
