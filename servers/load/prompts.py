"""Requests for a benchmark: made from words by a seed, or read from a file."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

#: Width of the log-normal distributions of lengths, as in chat logs: many short, a long tail.
_SPREAD: Final = 0.6
#: The fewest words of a prompt, and tokens of an answer.
SHORTEST: Final = 4
#: Tokens per word of `WORDS`, for tokenizers of English text.
_TOKENS_PER_WORD: Final = 1.3

_TEXT: Final = (
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
WORDS: Final = tuple(_TEXT.split())


class DatasetError(ValueError):
    """A file of requests cannot be used; the text names the line."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One request.

    Attributes:
        messages: of a chat; one of the user's for a plain text.
        output_tokens: the most that are generated; None leaves it to the server.
    """

    messages: Sequence[Mapping[str, Any]]
    output_tokens: int | None = None

    @property
    def text(self) -> str:
        """The messages' texts, for endpoints that take no chat."""
        return "\n".join(str(message.get("content", "")) for message in self.messages)


def random_prompts(
    count: int, *, input_tokens: float, output_tokens: float, varies: bool, seed: int
) -> list[Prompt]:
    """Make distinct prompts, so that no cache of prefixes serves two of them.

    Args:
        input_tokens, output_tokens: means; a server counts its own.
        varies: log-normal lengths about the means, as in chat logs; else all are as long.
    """
    chance = random.Random(seed)

    def length(mean: float) -> float:
        if not varies:
            return mean
        return chance.lognormvariate(math.log(mean) - _SPREAD**2 / 2, _SPREAD)

    prompts: list[Prompt] = []
    for _ in range(count):
        text = words(chance, round(length(input_tokens) / _TOKENS_PER_WORD))
        tokens = max(SHORTEST, round(length(output_tokens)))
        prompts.append(Prompt(({"role": "user", "content": text},), tokens))
    return prompts


def words(chance: random.Random, count: int) -> str:
    """Return random words; the first ones already differ from one text to the next."""
    return " ".join(chance.choices(WORDS, k=max(SHORTEST, count)))


def read_prompts(file: Path, count: int | None) -> list[Prompt]:
    """Read requests from JSON lines, and repeat them until there are ``count``.

    A line has ``messages``, or ``prompt``, and may have ``max_tokens``
    (``output_tokens`` as in vLLM's custom data sets).

    Raises:
        DatasetError: a line has neither, or is no JSON object.
        OSError: the file cannot be read.
    """
    prompts = [
        _prompt_of(line, number)
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if line.strip()
    ]
    if not prompts:
        raise DatasetError(f"{file}: no request is in it")
    if count is None:
        return prompts
    return [prompts[number % len(prompts)] for number in range(count)]


def _prompt_of(line: str, number: int) -> Prompt:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"line {number} is not JSON: {error}") from None
    if not isinstance(value, Mapping):
        raise DatasetError(f"line {number} is no JSON object")
    tokens = value.get("max_tokens", value.get("output_tokens"))
    if tokens is not None and (type(tokens) is not int or tokens < 1):
        raise DatasetError(f"line {number}: max_tokens is no positive number")
    messages = value.get("messages")
    if isinstance(messages, list) and all(isinstance(each, Mapping) for each in messages):
        return Prompt(tuple(messages), tokens)
    if isinstance(value.get("prompt"), str):
        return Prompt(({"role": "user", "content": value["prompt"]},), tokens)
    raise DatasetError(f"line {number} has neither messages nor a prompt")
