"""Prompts that end within their last message, for ``continue_final_message``.

A template writes marks behind each message. To find where the text of the last one ends, it is
rendered with a marker behind it, and the prompt is cut there. Hugging Face's
``apply_chat_template`` (``utils/chat_template_utils.py``) does the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from calculators.llm.prompt.chat_template.errors import ChatTemplateError

MEMBER: Final = "continue_final_message"
_MARKER: Final = "continue_here_xK9m"
#: Behind the marker: a template that strips the text strips this too.
_SPACE: Final = " "


def with_marker(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the messages with the marker behind the text of the last one.

    Raises:
        ChatTemplateError: the last message has no text that could be continued.
    """
    last = messages[-1]
    place = f"messages[{len(messages) - 1}]"
    if last.get("tool_calls"):
        raise ChatTemplateError(
            "the last message calls tools, so it cannot be continued; only a text can",
            param=f"{place}.tool_calls",
        )
    content = last.get("content")
    if isinstance(content, str) and content:
        return [*messages[:-1], {**last, "content": content + _MARKER + _SPACE}]
    if isinstance(content, list) and content and content[-1].get("type") == "text":
        part = {**content[-1], "text": content[-1]["text"] + _MARKER + _SPACE}
        return [*messages[:-1], {**last, "content": [*content[:-1], part]}]
    raise ChatTemplateError(
        "the last message has no text at its end that could be continued",
        param=f"{place}.content",
    )


def cut_at_marker(text: str) -> str:
    """Return the prompt up to the marker.

    Raises:
        ChatTemplateError: the template did not write the end of the last message.
    """
    prompt, marker, rest = text.rpartition(_MARKER)
    if not marker or not prompt:
        raise ChatTemplateError(
            "the last message cannot be continued: the chat template of this model does not write"
            " the end of its text",
            param=MEMBER,
        )
    return prompt if rest.startswith(_SPACE) else prompt.rstrip()
