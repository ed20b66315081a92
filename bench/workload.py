"""Prompts and lengths for a serving benchmark, reproducible from a seed."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final

from servers.load.prompts import SHORTEST, words

#: Width of the log-normal distributions of lengths, as in chat logs: many short, a long tail.
SPREAD: Final = 0.6
PROMPT_TOKENS: Final = 215.0
OUTPUT_TOKENS: Final = 200.0
LONGEST_PROMPT: Final = 1000
LONGEST_OUTPUT: Final = 800


@dataclass(frozen=True, slots=True)
class Request:
    """A client's request; exactly ``output_tokens`` are generated, whatever they are."""

    text: str
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Mean lengths in tokens.

    Attributes:
        tokens_per_word: tokens per word of `servers.load.prompts.WORDS` with the model's tokenizer.
        overhead: tokens that the chat template adds.
    """

    prompt: float = PROMPT_TOKENS
    output: float = OUTPUT_TOKENS
    tokens_per_word: float = 1.3
    overhead: int = 10


def make_workload(count: int, lengths: Lengths, seed: int = 0) -> list[Request]:
    """Make distinct prompts, so that no prefix cache serves two of them."""
    chance = random.Random(seed)
    requests: list[Request] = []
    for _ in range(count):
        prompt = min(LONGEST_PROMPT, _length(chance, lengths.prompt)) - lengths.overhead
        output = max(SHORTEST, min(LONGEST_OUTPUT, round(_length(chance, lengths.output))))
        requests.append(Request(words(chance, round(prompt / lengths.tokens_per_word)), output))
    return requests


def _length(chance: random.Random, mean: float) -> float:
    return chance.lognormvariate(math.log(mean) - SPREAD**2 / 2, SPREAD)
