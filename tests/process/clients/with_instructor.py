"""Instructor: plain text, and a person in each of its ways to structured output."""

from __future__ import annotations

from typing import Any, Final

import instructor
import openai

from tests.process.clients.asked import API_KEY, MODEL, MORE_TOKENS, QUESTION
from tests.process.clients.person import Person, told

#: By a tool call, by a schema, over the newer API.
_MODES: Final = ("TOOLS", "TOOLS_STRICT", "JSON_SCHEMA", "RESPONSES_TOOLS")


def facts(base_url: str) -> dict[str, Any]:
    client = openai.OpenAI(base_url=base_url, api_key=API_KEY, max_retries=0)
    asked: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": QUESTION}],
        "temperature": 0,
        "max_tokens": MORE_TOKENS,
    }
    plain = instructor.from_openai(client).chat.completions.create(response_model=None, **asked)
    return {
        "chat": plain.choices[0].message.content,
        **{mode: _person(client, asked, mode) for mode in _MODES},
        "partial": _partial(client, asked),
    }


def _person(client: openai.OpenAI, asked: dict[str, Any], mode: str) -> dict[str, Any]:
    patched = instructor.from_openai(client, mode=instructor.Mode[mode])
    return told(patched.chat.completions.create(response_model=Person, max_retries=1, **asked))


def _partial(client: openai.OpenAI, asked: dict[str, Any]) -> dict[str, Any]:
    """Return the last of the persons that a stream grows into."""
    patched = instructor.from_openai(client, mode=instructor.Mode.TOOLS)
    *_, last = patched.chat.completions.create_partial(response_model=Person, **asked)
    members: dict[str, Any] = last.model_dump()
    return members
