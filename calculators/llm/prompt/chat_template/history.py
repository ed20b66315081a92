"""Conversion of messages from the form of OpenAI's clients to the form that templates expect.

Each step takes a message as `normalise_messages` returns it and returns a new one; no argument is
changed. Order and meaning are OpenVINO Model Server's input processors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from calculators.images.media.tags import is_tag
from calculators.llm.prompt.chat_template.analysis import TemplateAnalysis

Message = Mapping[str, Any]


def prepare_history(
    messages: Sequence[Message], analysis: TemplateAnalysis | None = None
) -> list[dict[str, Any]]:
    """Return the messages for `ChatTemplate.render`. Media parts were replaced before."""
    prepared = []
    for message in messages:
        message = empty_content_to_none(message)
        message = without_empty_tool_calls(message)
        message = with_joined_text(message)
        if analysis is not None:
            message = adapted(message, analysis)
        prepared.append(dict(message))
    return prepared


def empty_content_to_none(message: Message) -> Message:
    """Replace an empty list of parts by None."""
    return {**message, "content": None} if message.get("content") == [] else message


def without_empty_tool_calls(message: Message) -> Message:
    """Drop an empty list of calls: templates that look at the first call would fail."""
    if message.get("tool_calls") != []:
        return message
    return {name: value for name, value in message.items() if name != "tool_calls"}


def with_joined_text(message: Message) -> Message:
    """Join a list of nothing but text parts to one text.

    Texts follow each other as in other servers, without anything between them. The tag of an image
    has a line of its own.
    """
    parts = message.get("content")
    if not isinstance(parts, list) or not all(map(_is_text, parts)):
        return message
    joined: list[str] = []
    for text in filter(None, (part["text"] for part in parts)):
        if joined and (is_tag(text) or is_tag(joined[-1])):
            joined.append("\n")
        joined.append(text)
    return {**message, "content": "".join(joined)}


def _is_text(part: Any) -> bool:
    return (
        isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    )


def adapted(message: Message, analysis: TemplateAnalysis) -> Message:
    """Put arguments and reasoning where this template looks for them."""
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        message = {**message, "tool_calls": [_with_arguments(call, analysis) for call in calls]}
    field = analysis.misnamed_reasoning_field
    if field and "reasoning_content" in message and not _excludes(analysis, message):
        message = {**message, field: message["reasoning_content"]}
    return message


def _excludes(analysis: TemplateAnalysis, message: Message) -> bool:
    """True if the template would refuse the reasoning because of the text beside it."""
    has_both = bool(message.get("content")) and bool(message.get("tool_calls"))
    return analysis.reasoning_excludes_content and has_both


def _with_arguments(call: Any, analysis: TemplateAnalysis) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    arguments = function.get("arguments") if isinstance(function, dict) else None
    if not isinstance(function, dict) or not isinstance(arguments, str):
        return call
    parsed = _object_of(arguments)
    if parsed is not None:
        adapted: Any = parsed if analysis.requires_object_arguments else arguments
    elif arguments.strip() and analysis.takes_broken_arguments:
        adapted = arguments  # a call that was cut, or a model's bad JSON, which it sees again
    else:
        adapted = {} if analysis.requires_object_arguments else "{}"
    return {**call, "function": {**function, "arguments": adapted}}


def _object_of(text: str) -> dict[str, Any] | None:
    """Return the object in a JSON text; None if there is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
