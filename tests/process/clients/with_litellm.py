"""LiteLLM, which maps errors to classes by their text."""

from __future__ import annotations

import asyncio
from typing import Any

import litellm

from tests.process.clients.asked import (
    API_KEY,
    MAX_TOKENS,
    MODEL,
    NO_MODEL,
    PROMPT,
    QUESTION,
    TOO_HOT,
)


def facts(base_url: str) -> dict[str, Any]:
    where = {"api_base": base_url, "api_key": API_KEY, "max_retries": 0}
    asked: dict[str, Any] = {
        **where,
        "model": f"openai/{MODEL}",
        "messages": [{"role": "user", "content": QUESTION}],
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
    }
    whole = litellm.completion(**asked)
    chunks = list(litellm.completion(**asked, stream=True, stream_options={"include_usage": True}))
    completion = litellm.text_completion(
        **where,
        model=f"text-completion-openai/{MODEL}",
        prompt=PROMPT,
        temperature=0,
        max_tokens=MAX_TOKENS,
    )
    return {
        "chat": whole.choices[0].message.content,
        "finish": whole.choices[0].finish_reason,
        "usage": whole.usage.total_tokens,
        "stream": "".join(
            choice.delta.content or "" for chunk in chunks for choice in chunk.choices
        ),
        "stream_usage": [chunk.usage.total_tokens for chunk in chunks if "usage" in chunk],
        "async": asyncio.run(litellm.acompletion(**asked)).choices[0].message.content,
        "completion": completion.choices[0].text,
        "bad_request": _error({**asked, "temperature": TOO_HOT}),
        "not_found": _error({**asked, "model": f"openai/{NO_MODEL}"}),
    }


def _error(asked: dict[str, Any]) -> str | None:
    try:
        litellm.completion(**asked)
    except (litellm.BadRequestError, litellm.NotFoundError) as error:
        return type(error).__name__
    return None
