"""Probes of a template, which find how it renders tools, calls, reasoning, system messages.

The first chat of each question to `Probe` is OpenVINO Model Server's
(``llm/io_processing/chat_template/probe.cpp``). The further ones are for templates that refuse it
or show nothing of it, because they expect tools, or the result of a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.errors import ChatTemplateError

#: The text that is looked for in prompts.
NEEDLE: Final = "probe_needle_xK9m"
#: The arguments of the call of the probes.
ARGUMENTS: Final = {NEEDLE: "value"}
#: The ways in which templates that understand arguments write one of this name.
_NATIVE: Final = (
    f'"{NEEDLE}": "',
    f'"{NEEDLE}":"',
    f"<parameter={NEEDLE}>",
    f'<atem:parameter name="{NEEDLE}">',
    f'<param name="{NEEDLE}">',
    f"{NEEDLE}:<|",
    f"{NEEDLE}=",
)
#: The beginning of a mark at the end of a text.
_BEGUN_MARK: Final = re.compile(r"[<\[][^<>\[\]\n]{0,64}\Z")
_RAW_DUMP: Final = '"tool_calls": ['
USER: Final = {"role": "user", "content": "Hello"}
SYSTEM: Final = {"role": "system", "content": "Hello"}
CALL_ID: Final = "probe0000"  # nine letters and digits, as Mistral's templates demand
RESULT: Final = {"role": "tool", "tool_call_id": CALL_ID, "name": "probe", "content": "1"}
TOOL: Final[dict[str, Any]] = {
    "type": "function",
    "function": {
        "name": "probe",
        "description": "probe",
        "parameters": {"type": "object", "properties": {"text": {"type": "string"}}},
    },
}

#: A chat with a turn of each role, and one in which a tool is called.
CONVERSATION: Final[Sequence[Mapping[str, Any]]] = (
    USER,
    {"role": "assistant", "content": "Hello"},
    USER,
)
CONVERSATION_WITH_RESULT: Final[Sequence[Mapping[str, Any]]] = (
    USER,
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": CALL_ID, "type": "function", "function": {"name": "probe", "arguments": "{}"}}
        ],
    },
    RESULT,
)
_CHATS: Final = ([USER], [SYSTEM, USER])


def knows_tools(template: ChatTemplate) -> bool:
    """True if the template shows the tools of a request. One that refuses every probe may."""
    tool = {"type": "function", "function": {**TOOL["function"], "name": NEEDLE}}
    prompts = [prompt for chat in _CHATS if (prompt := _render(template, chat, [tool]))]
    return not prompts or any(NEEDLE in prompt for prompt in prompts)


def shows_calls(template: ChatTemplate) -> bool:
    """True if the template shows calls of earlier turns, in a form of its own then."""
    # Some look at the calls only if there is no text.
    return any(
        NEEDLE
        in _render(template, [USER, _assistant(content=text, tool_calls=[tool_call(arguments)])])
        for arguments in (ARGUMENTS, json.dumps(ARGUMENTS))
        for text in ("", None)
    )


def needs_whole_tools(template: ChatTemplate) -> bool:
    """True if the template refuses a tool that lacks a description or a type, and no whole one."""

    def is_refused(function: Mapping[str, Any]) -> bool:
        tool = {"type": "function", "function": function}
        return not any(_render(template, chat, [tool]) for chat in _CHATS)

    text = {"type": "string", "description": "probe"}
    schema = {"type": "object", "properties": {"text": text}, "required": ["text"]}
    whole = {"name": "probe", "description": "probe", "parameters": schema}
    if is_refused(whole):
        return False
    return any(
        map(
            is_refused,
            (
                _without(whole, "description"),
                _without(whole, "parameters"),
                {**whole, "parameters": {"type": "object"}},
                {**whole, "parameters": _without(schema, "required")},
                *(
                    {**whole, "parameters": {**schema, "properties": {"text": part}}}
                    for part in (_without(text, "description"), _without(text, "type"))
                ),
            ),
        )
    )


def whole_tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool with empty descriptions and parameters where it has none."""
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return tool
    parameters = function.get("parameters") or {}
    if isinstance(parameters, Mapping):
        parameters = _whole_schema({"type": "object", "properties": {}, **parameters})
        parameters = {"required": [], **parameters}
    description = function.get("description") or ""
    return {**tool, "function": {**function, "description": description, "parameters": parameters}}


def _whole_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return dict(schema)
    whole = {
        name: {
            **({} if "type" in each else {"type": "string"}),
            **_whole_schema(each),
            "description": each.get("description") or "",
        }
        if isinstance(each, Mapping)
        else each
        for name, each in properties.items()
    }
    return {**schema, "properties": whole}


def _without(value: Mapping[str, Any], key: str) -> dict[str, Any]:
    return {name: each for name, each in value.items() if name != key}


def shows_system_message(template: ChatTemplate) -> bool:
    """True if the template shows a system message, and neither refuses it nor leaves it out."""
    return NEEDLE in _render(template, [{**SYSTEM, "content": NEEDLE}, USER])


class Probe:
    """Answers questions about tool calls and reasoning of one template."""

    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self._with_text = self._call(json.dumps(ARGUMENTS))
        self._with_object = self._call(ARGUMENTS)

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
        return NEEDLE in self._with_object and NEEDLE not in self._with_text

    @property
    def takes_broken_arguments(self) -> bool:
        """True unless the template shows arguments, but not the beginning of a JSON object."""
        shows_any = NEEDLE in self._with_object or NEEDLE in self._with_text
        return not shows_any or NEEDLE in self._call(f'{{"{NEEDLE}": ')

    def answers_with_call(self) -> Iterator[str]:
        """Yield the text of an answer with one call, with its end, if the template shows it.

        It begins where the prompt begins to differ from that of an answer without the call.
        """
        arguments: Any = ARGUMENTS if self.takes_objects else json.dumps(ARGUMENTS)
        silent = list(self._chats(_assistant()))
        calling = list(self._chats(_assistant(tool_calls=[tool_call(arguments)])))
        for (without, tools), (chat, _) in zip(silent[:2], calling[:2], strict=False):
            prompt, other = self._render(chat, tools), self._render(without, tools)
            if NEEDLE in prompt and other:
                pairs = zip(prompt, other, strict=False)
                begin = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
                # A mark of the call and the end of the turn may have their first letters in common.
                shared = _BEGUN_MARK.search(prompt, 0, begin)
                yield prompt[begin if shared is None else shared.start() :]
                return

    def shows_reasoning(self, field: str) -> bool:
        """Return True if the template shows the member ``field`` of an assistant's message."""
        members = {field: NEEDLE}
        return NEEDLE in self._render([USER, _assistant(**members)]) or NEEDLE in self._call(
            {}, **members
        )

    def refuses_reasoning_with_content(self, field: str) -> bool:
        """Return True if a call with text and reasoning is refused, and one with text is not."""
        with_text = self._call({}, content=NEEDLE)
        return bool(with_text) and not self._call({}, content=NEEDLE, **{field: "reason"})

    def _call(self, arguments: Any, **members: Any) -> str:
        """Render chats with one tool call; return the first with the needle, else the first."""
        first = ""
        for chat, tools in self._chats(_assistant(**members, tool_calls=[tool_call(arguments)])):
            prompt = self._render(chat, tools)
            if NEEDLE in prompt:
                return prompt
            first = first or prompt
        return first

    def _chats(self, call: dict[str, Any]) -> Iterator[tuple[list[Any], list[Any] | None]]:
        if self._template.files.tool_use is None:
            yield [USER, call], None
        yield [USER, call], [TOOL]
        yield [USER, call, RESULT], [TOOL]
        yield [SYSTEM, USER, call, RESULT, USER], [TOOL]

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


def tool_call(arguments: Any) -> dict[str, Any]:
    """Return a call of the tool of the probes."""
    return {
        "id": CALL_ID,
        "type": "function",
        "function": {"name": "probe", "arguments": arguments},
    }
