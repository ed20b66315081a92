"""The texts of requests and calls of tools that are moderated."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from calculators.kit.requests.json_depth import nests_deeper
from calculators.language import GenerationRequest, RequestError, ToolCalled, ToolRan
from calculators.language.generation_request import text_of_content


def request_texts(request: GenerationRequest) -> list[str]:
    """Return the texts of all messages, or the prompts. No text is empty.

    Raises:
        RequestError: a prompt is of token ids, which nobody here can read.
    """
    texts: list[str] = []
    for prompt in request.prompts:
        if not isinstance(prompt, str):
            raise RequestError(
                "prompts of token ids are not accepted, because they cannot be moderated: send "
                "texts",
                param="prompt",
            )
        texts.append(prompt)
    for message in request.messages:
        texts.append(text_of_content(message.get("content")))
        texts += strings_of(message.get("reasoning_content"))
        calls = [call.get("function", call) for call in message.get("tool_calls") or ()]
        for call in calls:
            arguments = call.get("arguments")
            texts.append(call_text(call.get("name", ""), arguments))
    return [text for text in texts if text]


def call_text(name: str, arguments: Any) -> str:
    """Return what a call says: its name, and all strings of its arguments, JSON or parsed."""
    if isinstance(arguments, str):
        if nests_deeper(arguments):
            return f"{name} {arguments}"
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return f"{name} {arguments}"
    return " ".join([name, *strings_of(arguments)])


def tool_text(item: ToolCalled | ToolRan) -> str:
    """Return what a call of a tool of this server says, or what the tool gave."""
    if isinstance(item, ToolCalled):
        return call_text(item.name, item.arguments)
    return " ".join([call_text(item.name, item.arguments), item.output, item.error or ""])


def strings_of(value: Any) -> Iterator[str]:
    """Yield the strings of a JSON value, keys too."""
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from strings_of(each)
        case dict():
            for key, each in value.items():
                yield key
                yield from strings_of(each)
        case _:
            pass
