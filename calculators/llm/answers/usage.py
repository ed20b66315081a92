"""The counts of an answer as JSON, in the form of OpenAI's chats and completions."""

from __future__ import annotations

from calculators.language.usage import Usage


def usage_json(usage: Usage) -> str:
    """Return the object of the member ``usage``. Unknown counts are left out."""
    cached = (
        ""
        if usage.cached_tokens is None
        else f',"prompt_tokens_details":{{"cached_tokens":{usage.cached_tokens}}}'
    )
    thought = (
        ""
        if usage.reasoning_tokens is None
        else f',"completion_tokens_details":{{"reasoning_tokens":{usage.reasoning_tokens}}}'
    )
    return (
        f'{{"prompt_tokens":{usage.prompt_tokens},"completion_tokens":{usage.completion_tokens}'
        f',"total_tokens":{usage.prompt_tokens + usage.completion_tokens}{cached}{thought}}}'
    )
