"""Instructor: plain text, and what it gets for structured output, which is a later version's."""

from __future__ import annotations

from typing import Any

import instructor
import openai
from pydantic import create_model

from tests.process.clients.asked import API_KEY, MAX_TOKENS, MODEL, QUESTION

Person = create_model("Person", name=(str, ...), age=(int, ...))


def facts(base_url: str) -> dict[str, Any]:
    client = openai.OpenAI(base_url=base_url, api_key=API_KEY, max_retries=0)
    asked: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": QUESTION}],
        "temperature": 0,
        "max_tokens": MAX_TOKENS,
    }
    plain = instructor.from_openai(client).chat.completions.create(response_model=None, **asked)
    return {
        "chat": plain.choices[0].message.content,
        "json": _structured(client, asked, instructor.Mode.JSON),
        "json_schema": _structured(client, asked, instructor.Mode.JSON_SCHEMA),
    }


def _structured(client: openai.OpenAI, asked: dict[str, Any], mode: Any) -> str:
    """What asking for a person ends with."""
    patched = instructor.from_openai(client, mode=mode)
    try:
        patched.chat.completions.create(response_model=Person, max_retries=1, **asked)
    except Exception as error:
        causes: list[BaseException] = [error]
        while causes[-1].__cause__ is not None:
            causes.append(causes[-1].__cause__)
        for cause in causes:
            if isinstance(cause, openai.APIStatusError):
                return f"{type(cause).__name__} {cause.param}"
        return repr(causes)
    return "a person"
