"""Outlines over SGLang's members: words, an expression, a schema."""

from __future__ import annotations

from typing import Any, Literal

import openai
import outlines

from tests.process.clients.asked import API_KEY, MODEL, MORE_TOKENS, QUESTION
from tests.process.clients.person import Person, told


def facts(base_url: str) -> dict[str, Any]:
    client = openai.OpenAI(base_url=base_url, api_key=API_KEY, max_retries=0)
    model = outlines.from_sglang(client, MODEL)
    asked: dict[str, Any] = {"max_tokens": MORE_TOKENS, "temperature": 0}
    person = model(QUESTION, Person, **asked)
    number = outlines.types.Regex("[0-9]{3}")
    return {
        "word": model(QUESTION, Literal["red", "green"], **asked) in ("red", "green"),
        "number": model(QUESTION, number, **asked).isdigit(),
        "person": told(Person.model_validate_json(person)),
        "stream": "".join(model.stream(QUESTION, number, **asked)).isdigit(),
    }
