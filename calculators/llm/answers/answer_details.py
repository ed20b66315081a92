"""Members of answers that few requests ask for: token ids, and usage in every event.

``return_token_ids`` and ``continuous_usage_stats`` are vLLM's, with the names and places that its
answers have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from calculators.language.generation_request import GenerationRequest
from calculators.language.usage import Usage
from calculators.llm.answers.usage import usage_json

_encode: Final = msgspec.json.Encoder().encode


class AnswerDetails:
    """The further members of one answer, as JSON with a comma before each.

    Only answers to requests that ask for some of them have this object. Token ids wait here for the
    next event of their choice.

    Attributes:
        usage: the counts so far.
    """

    __slots__ = ("_has_token_ids", "_has_usage", "_prompts", "_shown", "_waiting", "usage")

    def __init__(
        self, request: GenerationRequest, prompts: Sequence[bytes] | None, choices: int
    ) -> None:
        """
        Args:
            prompts: the ids of each prompt, as 64-bit integers in the machine's byte order; None:
                unknown, because images stand for tokens that only the engine counts.
            choices: the number of choices for all prompts.
        """
        self._has_token_ids = request.returns_token_ids
        self._has_usage = request.has_running_usage
        self._prompts = prompts
        self._waiting: list[list[int]] = [[] for _ in range(choices)]
        self._shown: set[int] = set()
        self.usage = Usage(0, 0)

    def add(self, index: int, token_ids: Sequence[int]) -> None:
        """Add the ids of new tokens of a choice."""
        if self._has_token_ids:
            self._waiting[index] += token_ids

    def take(self, index: int) -> str:
        """Return the member ``token_ids`` of a choice, with the ids since the last time."""
        if not self._has_token_ids:
            return ""
        ids, self._waiting[index] = self._waiting[index], []
        return f',"token_ids":{_encode(ids).decode()}'

    def prompt(self, number: int = 0) -> str:
        """Return the member ``prompt_token_ids`` of a prompt."""
        if not self._has_token_ids:
            return ""
        if self._prompts is None:
            return ',"prompt_token_ids":null'
        ids = memoryview(self._prompts[number]).cast("q").tolist()
        return f',"prompt_token_ids":{_encode(ids).decode()}'

    def prompt_once(self, place: int, number: int = 0) -> str:
        """Return the member of `prompt` for the first event at a place, and "" for later ones."""
        if place in self._shown:
            return ""
        self._shown.add(place)
        return self.prompt(number)

    def running_usage(self, otherwise: str) -> str:
        """Return the member ``usage`` of an event; ``otherwise`` if events have no counts."""
        return f',"usage":{usage_json(self.usage)}' if self._has_usage else otherwise
