"""`Usage`: the token counts of a request."""

from __future__ import annotations

from msgspec import Struct


class Usage(Struct, frozen=True):
    """Counts of tokens: ``completion_tokens`` over all choices, without an echoed prompt.

    Attributes:
        cached_tokens: tokens of the prompt that came out of a cache, by the server's own count, as
            openvino-genai 2026.4 reports none; None is unknown, as without a cache of prompts.
        reasoning_tokens: tokens of the completion that are reasoning; None is unknown, as without a
            reasoning parser.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


def usage_sum(first: Usage, second: Usage) -> Usage:
    """Return the counts of two generations that make one answer. An unknown count adds nothing."""
    return Usage(
        first.prompt_tokens + second.prompt_tokens,
        first.completion_tokens + second.completion_tokens,
        _sum(first.cached_tokens, second.cached_tokens),
        _sum(first.reasoning_tokens, second.reasoning_tokens),
    )


def _sum(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return second if first is None else first
    return first + second
