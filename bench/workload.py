"""Prompts and lengths for a serving benchmark: the same ones for the same numbers."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final

#: Width of the log-normal distributions of lengths, as in chat logs: many short, a long tail.
SPREAD: Final = 0.6
PROMPT_TOKENS: Final = 215.0
OUTPUT_TOKENS: Final = 200.0
LONGEST_PROMPT: Final = 1000
LONGEST_OUTPUT: Final = 800
SHORTEST: Final = 4

_WORDS: Final = (
    "about after again against along another answer around asked because become before behind "
    "best better between bring brought called carry change children city close color could "
    "country cover cross direct draw early earth enough every example family father figure final "
    "follow friend garden ground group happen heard house hundred idea island kind large later "
    "learn letter light listen little machine measure might money morning mother mountain music "
    "never night notice number often order other paper people person picture place plain point "
    "possible question quick reach ready remember river second sentence several short should "
    "simple since small sound special stand start still story street strong table their these "
    "thing think thought through together travel turn under usual voice watch water weather week "
    "white whole window winter without wonder world would write year young"
)
WORDS: Final = tuple(_WORDS.split())


@dataclass(frozen=True, slots=True)
class Request:
    """One client's request; exactly ``output_tokens`` are generated, whatever they are."""

    text: str
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Means, in tokens.

    Attributes:
        tokens_per_word: tokens per word of `WORDS` with the model's tokenizer.
        overhead: tokens that the chat template adds.
    """

    prompt: float = PROMPT_TOKENS
    output: float = OUTPUT_TOKENS
    tokens_per_word: float = 1.3
    overhead: int = 10


def make_workload(count: int, lengths: Lengths, seed: int = 0) -> list[Request]:
    """Make distinct prompts, so that no cache of prefixes serves two of them."""
    chance = random.Random(seed)
    requests: list[Request] = []
    for _ in range(count):
        prompt = min(LONGEST_PROMPT, _length(chance, lengths.prompt)) - lengths.overhead
        output = max(SHORTEST, min(LONGEST_OUTPUT, round(_length(chance, lengths.output))))
        requests.append(Request(words(chance, round(prompt / lengths.tokens_per_word)), output))
    return requests


def words(chance: random.Random, count: int) -> str:
    """Random words; the first ones already differ from one text to the next."""
    return " ".join(chance.choices(WORDS, k=max(SHORTEST, count)))


def _length(chance: random.Random, mean: float) -> float:
    return chance.lognormvariate(math.log(mean) - SPREAD**2 / 2, SPREAD)
