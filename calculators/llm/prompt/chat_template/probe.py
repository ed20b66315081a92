"""Probes of a template, which find how it renders tools, calls, reasoning, system messages.

The first chat of each question to `Probe` is OpenVINO Model Server's
(``llm/io_processing/chat_template/probe.cpp``). The further ones are for templates that refuse it
or show nothing of it, because they expect tools, or the result of a call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.errors import ChatTemplateError

_NEEDLE: Final = "probe_needle_xK9m"
_ARGUMENTS: Final = {_NEEDLE: "value"}
#: The ways in which templates that understand arguments write one of this name.
_NATIVE: Final = (
    f'"{_NEEDLE}": "',
    f'"{_NEEDLE}":"',
    f"<parameter={_NEEDLE}>",
    f'<atem:parameter name="{_NEEDLE}">',
    f'<param name="{_NEEDLE}">',
    f"{_NEEDLE}:<|",
    f"{_NEEDLE}=",
)
_RAW_DUMP: Final = '"tool_calls": ['
_USER: Final = {"role": "user", "content": "Hello"}
_SYSTEM: Final = {"role": "system", "content": "Hello"}
_CALL_ID: Final = "probe0000"  # nine letters and digits, as Mistral's templates demand
_RESULT: Final = {"role": "tool", "tool_call_id": _CALL_ID, "name": "probe", "content": "1"}
_TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "probe",
        "description": "probe",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
    },
}


def knows_tools(template: ChatTemplate) -> bool:
    """True if the template shows the tools of a request. One that refuses every probe may."""
    tool = {"type": "function", "function": {**_TOOL["function"], "name": _NEEDLE}}
    chats = [[_USER], [_SYSTEM, _USER]]
    prompts = [prompt for chat in chats if (prompt := _render(template, chat, [tool]))]
    return not prompts or any(_NEEDLE in prompt for prompt in prompts)


def shows_system_message(template: ChatTemplate) -> bool:
    """True if the template shows a system message, and neither refuses it nor leaves it out."""
    return _NEEDLE in _render(template, [{**_SYSTEM, "content": _NEEDLE}, _USER])


class Probe:
    """Answers questions about tool calls and reasoning of one template."""

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self._with_text = self._call(json.dumps(_ARGUMENTS))
        self._with_object = self._call(_ARGUMENTS)

    @property
    def dumps_messages(self) -> bool:
        """True if the template writes tool calls as the JSON of the whole message."""
        return _RAW_DUMP in self._with_text or _RAW_DUMP in self._with_object

    @property
    def takes_text(self) -> bool:
        """True if the template renders arguments that are the text of a JSON object."""
        return any(sign in self._with_text for sign in _NATIVE)

    @property
    def takes_objects(self) -> bool:
        """True if the template renders arguments that are objects, or at least shows only these."""
        if any(sign in self._with_object for sign in _NATIVE):
            return True
        return _NEEDLE in self._with_object and _NEEDLE not in self._with_text

    def shows_reasoning(self, field: str) -> bool:
        """Return True if the template shows the member ``field`` of an assistant's message."""
        members = {field: _NEEDLE}
        return _NEEDLE in self._render([_USER, _assistant(**members)]) or _NEEDLE in self._call(
            {}, **members
        )

    def refuses_reasoning_with_content(self, field: str) -> bool:
        """Return True if a call with text and reasoning is refused, and one with text is not."""
        with_text = self._call({}, content=_NEEDLE)
        return bool(with_text) and not self._call({}, content=_NEEDLE, **{field: "reason"})

    def _call(self, arguments: Any, **members: Any) -> str:
        """Render chats with one tool call; return the first with the needle, else the first."""
        first = ""
        for chat, tools in self._chats(_assistant(**members, tool_calls=[_tool_call(arguments)])):
            prompt = self._render(chat, tools)
            if _NEEDLE in prompt:
                return prompt
            first = first or prompt
        return first

    def _chats(self, call: dict[str, Any]) -> Iterator[tuple[list[Any], list[Any] | None]]:
        if self._template.files.tool_use is None:
            yield [_USER, call], None
        yield [_USER, call], [_TOOL]
        yield [_USER, call, _RESULT], [_TOOL]
        yield [_SYSTEM, _USER, call, _RESULT, _USER], [_TOOL]

    def _render(self, chat: list[Any], tools: list[Any] | None = None) -> str:
        return _render(self._template, chat, tools)


def _render(template: ChatTemplate, chat: list[Any], tools: list[Any] | None = None) -> str:
    """Render a chat; "" where the template refuses it."""
    try:
        return template.render(chat, tools=tools)
    except ChatTemplateError:
        return ""


def _assistant(**members: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", **members}


def _tool_call(arguments: Any) -> dict[str, Any]:
    return {
        "id": _CALL_ID,
        "type": "function",
        "function": {"name": "probe", "arguments": arguments},
    }
