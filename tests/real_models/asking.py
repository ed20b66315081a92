"""Requests to SmolLM2, and the parts of its answers."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.process.http_client import CHAT, COMPLETIONS, HttpClient

MODEL: Final = "smollm2"
FRANCE: Final = "What is the capital of France?"
WEATHER: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "maxLength": 40},
                "unit": {"enum": ["celsius", "fahrenheit"]},
            },
            "required": ["city", "unit"],
            "additionalProperties": False,
        },
    },
}


def chat(client: HttpClient, question: str = FRANCE, **members: Any) -> dict[str, Any]:
    """Ask a question, greedily unless members say otherwise; return the whole body."""
    asked = {"messages": [{"role": "user", "content": question}], "max_tokens": 60, **members}
    return post(client, CHAT, **asked)


def complete(client: HttpClient, prompt: Any, **members: Any) -> dict[str, Any]:
    return post(client, COMPLETIONS, prompt=prompt, **members)


def post(client: HttpClient, path: str, **members: Any) -> dict[str, Any]:
    reply = client.post(path, **{"model": MODEL, "temperature": 0, **members})
    assert reply.status == 200, reply.body
    body: dict[str, Any] = reply.json
    return body


def message(body: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = body["choices"][0]["message"]
    return found


def events(client: HttpClient, path: str, **members: Any) -> list[dict[str, Any]]:
    """Return the events of a stream; the last is ``[DONE]``."""
    with client.stream(path, **{"model": MODEL, "temperature": 0, **members}) as response:
        *pieces, last, end = response.read().decode().split("\n\n")
    assert (last, end) == ("data: [DONE]", "")
    return [json.loads(piece.removeprefix("data: ")) for piece in pieces]
