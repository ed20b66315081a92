"""How many tokens a request took."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts of tokens: ``completion_tokens`` over all choices, without an echoed prompt.

    Attributes:
        cached_tokens: of the prompt, those that came out of a cache. None when that is not known,
            and it never is: openvino-genai 2026.4 does not tell.
        reasoning_tokens: of the completion, see `reasoning_count`; None where nothing looks for
            reasoning.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None

    @property
    def json(self) -> str:
        """The ``usage`` member."""
        cached = (
            ""
            if self.cached_tokens is None
            else f',"prompt_tokens_details":{{"cached_tokens":{self.cached_tokens}}}'
        )
        thought = (
            ""
            if self.reasoning_tokens is None
            else f',"completion_tokens_details":{{"reasoning_tokens":{self.reasoning_tokens}}}'
        )
        return (
            f'{{"prompt_tokens":{self.prompt_tokens},"completion_tokens":{self.completion_tokens}'
            f',"total_tokens":{self.prompt_tokens + self.completion_tokens}{cached}{thought}}}'
        )
