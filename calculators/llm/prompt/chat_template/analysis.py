"""`TemplateAnalysis`: the facts of a model that its chat template reveals.

How the model writes calls and reasoning, see `detector` and `thinking`, and what the template wants
back: probes render short chats, and see how it shows tools, calls, reasoning and system messages.
The first chat of each question to `Probe` is OpenVINO Model Server's
(``llm/io_processing/chat_template/probe.cpp``). The further ones are for templates that refuse it
or show nothing of it, because they expect tools, or the result of a call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from calculators.llm.parsers.families import FAMILIES, AnswerFamily, CallSyntax, ReasoningMarks
from calculators.llm.parsers.registry import MADE
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.detector import (
    ProbeChats,
    answer_marks,
    find_calls,
    tool_variables,
)
from calculators.llm.prompt.chat_template.limits import ChatTemplateError
from calculators.llm.prompt.chat_template.made_calls import declared_family
from calculators.llm.prompt.chat_template.thinking import MEMBERS, Switches, find_reasoning

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


def shows_tools(template: ChatTemplate, *, other_names: bool = False) -> bool | None:
    """Return True if the template shows the tools of a request; None if it refuses every probe.

    ``other_names``: give them under the names of `tool_variables` too.
    """
    tool = {"type": "function", "function": {**TOOL["function"], "name": NEEDLE}}
    variables = tool_variables([tool]) if other_names else {}
    prompts = [prompt for chat in _CHATS if (prompt := _render(template, chat, [tool], variables))]
    return any(NEEDLE in prompt for prompt in prompts) if prompts else None


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

    @property
    def takes_many_calls(self) -> bool:
        """False if the template shows one call of a turn, and of two calls not both."""
        if NEEDLE not in self._with_object and NEEDLE not in self._with_text:
            return True
        for each in self._forms():
            calls = [tool_call(each(f"{NEEDLE}{place}"), f"probe000{place}") for place in range(2)]
            results = [{**RESULT, "tool_call_id": call["id"]} for call in calls]
            for content in ("", None):
                turn = _assistant(content=content, tool_calls=calls)
                for chat in ([USER, turn], [USER, turn, *results]):
                    prompt = self._render(chat, [TOOL])
                    if all(f"{NEEDLE}{place}" in prompt for place in range(2)):
                        return True
        return False

    @property
    def hides_calls(self) -> bool:
        """True if the template shows nothing of the arguments of a call, and does not refuse it."""
        is_rendered = bool(self._with_object or self._with_text)
        return is_rendered and NEEDLE not in self._with_object + self._with_text

    @property
    def hides_calls_beside_text(self) -> bool:
        """True if the template shows a call, but not beside a text."""
        return not any(
            NEEDLE in self._call(each(NEEDLE), content="Hello") for each in self._forms()
        ) and (NEEDLE in self._with_object or NEEDLE in self._with_text)

    @property
    def takes_any_id(self) -> bool:
        """False if the template refuses an id that is longer than Mistral's."""
        for each in self._forms():
            shown = self._call(each(NEEDLE))
            if NEEDLE in shown:
                return NEEDLE in self._call(each(NEEDLE), call_id="call_" + CALL_ID * 2)
        return True

    @staticmethod
    def _forms() -> tuple[Callable[[str], Any], Callable[[str], Any]]:
        """Arguments as an object, and as a text."""
        return (lambda key: {key: "value"}), (lambda key: json.dumps({key: "value"}))

    def _call(self, arguments: Any, *, call_id: str = CALL_ID, **members: Any) -> str:
        """Render chats with one tool call; return the first with the needle, else the first.

        Some templates look at the calls only if there is no content.
        """
        first = ""
        for content in ({},) if "content" in members else ({}, {"content": None}):
            message = {**members, **content, "tool_calls": [tool_call(arguments, call_id)]}
            for chat, tools in self._chats(_assistant(**message)):
                prompt = self._render(chat, tools)
                if NEEDLE in prompt:
                    return prompt
                first = first or prompt
        return first

    def _chats(self, call: dict[str, Any]) -> Iterator[tuple[list[Any], list[Any] | None]]:
        if self._template.files.tool_use is None:
            yield [USER, call], None
        yield [USER, call], [TOOL]
        result = {**RESULT, "tool_call_id": call["tool_calls"][0]["id"]}
        yield [USER, call, result], [TOOL]
        yield [SYSTEM, USER, call, result, USER], [TOOL]

    def _render(self, chat: list[Any], tools: list[Any] | None = None) -> str:
        return _render(self._template, chat, tools)


def _render(
    template: ChatTemplate,
    chat: list[Any],
    tools: list[Any] | None = None,
    variables: Mapping[str, Any] | None = None,
) -> str:
    """Render a chat; "" where the template refuses it."""
    try:
        return template.render(chat, tools=tools, template_kwargs=variables)
    except ChatTemplateError:
        return ""


def _assistant(**members: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": "", **members}


def tool_call(arguments: Any, call_id: str = CALL_ID) -> dict[str, Any]:
    """Return a call of the tool of the probes."""
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": "probe", "arguments": arguments},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateAnalysis:
    """How the model writes, and the form of messages that its template expects.

    Attributes:
        tool_parser: name of a declaration, `MADE`, or a parser of channels; None where no form of
            calls is known.
        reasoning_parser: likewise for reasoning.
        made: the declaration that was made, of calls or of reasoning or of both.
        calls_found_by, reasoning_found_by: kinds of evidence, words for people.
        marks: begin and end of reasoning.
        opens: see `FoundReasoning`.
        switches: the template's variables that are about reasoning.
        supports_tool_calls: the template renders tool calls of earlier turns.
        requires_object_arguments: their arguments must be objects, not the JSON text that OpenAI's
            clients send.
        takes_broken_arguments: arguments that are not a JSON object may stay text.
        takes_many_calls: a turn may have several calls.
        hides_calls: nothing of the calls of earlier turns is shown.
        hides_calls_beside_text: calls are shown only where there is no text.
        takes_any_id: the id of a call may be longer than nine letters and digits.
        ids_are_headers: the id is written into the prompt, as ``functions.NAME:N``.
        misnamed_reasoning_field: the member in which the template looks for the reasoning of
            earlier turns, if it is another than ``reasoning_content``; else empty.
        reasoning_form: the form of a content that has reasoning, where no member does.
        reasoning_excludes_content: the template refuses a tool call with text and such reasoning.
    """

    tool_parser: str | None = None
    reasoning_parser: str | None = None
    made: AnswerFamily | None = None
    calls_found_by: str = ""
    reasoning_found_by: str = ""
    marks: tuple[str, str] | None = None
    opens: Mapping[str, str] = field(default_factory=dict)
    switches: Switches = field(default_factory=Switches)
    supports_tool_calls: bool = False
    requires_object_arguments: bool = False
    takes_broken_arguments: bool = True
    takes_many_calls: bool = True
    hides_calls: bool = False
    hides_calls_beside_text: bool = False
    takes_any_id: bool = True
    ids_are_headers: bool = False
    misnamed_reasoning_field: str = ""
    reasoning_form: str = ""
    reasoning_excludes_content: bool = False


#: Readers of messages with recipients, and the marks before and after their reasoning.
_CHANNELS: Final = {
    "gptoss": ("<|channel|>analysis<|message|>", "<|end|>"),
    "onyx": ("to=self<|message|>", "<|eom|>"),
}


def analyze(
    template: ChatTemplate, *, vocabulary: Container[str] = (), architecture: str = ""
) -> TemplateAnalysis:
    """Analyze a template by what it renders.

    Args:
        vocabulary: the texts of the model's tokens.
        architecture: as the model's configuration names it.
    """
    chats = ProbeChats(template)
    files = template.files
    source = files.main.text + (files.tool_use.text if files.tool_use else "")
    declared = declared_family(files.response_template)
    calls = find_calls(
        chats, declared=declared.calls, vocabulary=vocabulary, architecture=architecture
    )
    found = TemplateAnalysis(
        tool_parser=calls.name or None,
        calls_found_by=calls.found_by,
        switches=Switches.of(chats),
    )
    if calls.name in _CHANNELS:
        found = replace(
            found,
            reasoning_parser=calls.name,
            reasoning_found_by=calls.found_by,
            marks=_CHANNELS[calls.name],
        )
    else:
        found = _with_reasoning(found, calls.calls, chats, declared, source)
    as_text = None if calls.shown is None else calls.shown.as_text
    return _probed(Probe(template), found, source, as_text)


def _with_reasoning(
    found: TemplateAnalysis,
    calls: CallSyntax | None,
    chats: ProbeChats,
    declared: AnswerFamily,
    source: str,
) -> TemplateAnalysis:
    family = FAMILIES.get(found.tool_parser or "")
    own = family.reasoning if family is not None else None
    reasoning = find_reasoning(chats, own, source, declared=declared.reasoning)
    made = AnswerFamily(name=MADE, calls=calls) if calls is not None else None
    name = None
    if reasoning.marks is not None:
        name = _family_of(reasoning.marks, found.tool_parser or "")
        if name == MADE:
            begin, end = reasoning.marks
            made = replace(
                made or AnswerFamily(name=MADE), reasoning=ReasoningMarks((begin,), (end,))
            )
        if made is not None and made.calls is not None:
            made = replace(made, calls=_without_reasoning(made.calls, reasoning.marks[1]))
    if made is not None and made.calls is not None:
        marks = answer_marks(chats, made.calls)
        is_thought = reasoning.marks is not None and reasoning.marks[1] in marks[0]
        if any(map(str.strip, marks)) and not is_thought:
            made = replace(made, answer=(marks,))
    if made is not None and (end := chats.template.files.eos_token):
        made = replace(made, stops=(end,))
    return replace(
        found,
        reasoning_parser=name,
        made=made,
        reasoning_found_by=reasoning.found_by,
        marks=reasoning.marks,
        opens=reasoning.opens,
        reasoning_form=reasoning.content_form,
        ids_are_headers=family is not None
        and family.calls is not None
        and family.calls.header_is_id,
    )


def _family_of(marks: tuple[str, str], preferred: str) -> str:
    """Return a declaration with these marks of reasoning, the preferred one first; else `MADE`."""
    begin, end = marks
    for name in (preferred, *FAMILIES):
        family = FAMILIES.get(name)
        own = family.reasoning if family is not None else None
        if own is not None and begin in map(str.strip, own.begin) and end in own.end:
            return name
    return MADE


def _without_reasoning(calls: CallSyntax, end: str) -> CallSyntax:
    """Return a form that was made of a turn with empty reasoning before its calls."""
    begin = calls.section[0]
    if end in begin:
        return replace(calls, section=(begin.rpartition(end)[2].lstrip(), calls.section[1]))
    if end in calls.call.partition("{")[0]:
        return replace(calls, call=calls.call.rpartition(end)[2].lstrip())
    return calls


#: Arguments in these notations are no JSON text.
_WRITTEN_OUT: Final = ("{args}", "{python}", "{gemma}", "{tree}")


def _probed(
    probe: Probe, found: TemplateAnalysis, source: str, as_text: bool | None
) -> TemplateAnalysis:
    """Add what the template wants back.

    ``as_text``: it has shown calls with arguments that are texts; None: it has shown none.
    """
    supports = (found.tool_parser is not None or as_text is not None) and not probe.dumps_messages
    # A template that takes both gets objects, which are never quoted twice. OpenVINO Model Server
    # gives text to templates that it does not know.
    takes_objects = probe.takes_objects and (found.tool_parser is not None or not probe.takes_text)
    family = found.made if found.tool_parser == MADE else FAMILIES.get(found.tool_parser or "")
    form = family.calls if family is not None else None
    if as_text is not None and form is not None:
        is_written_out = any(each in form.call for each in _WRITTEN_OUT)
        takes_objects |= not as_text and (is_written_out or not probe.takes_text)
    found = replace(
        found,
        supports_tool_calls=supports,
        requires_object_arguments=takes_objects,
        takes_broken_arguments=probe.takes_broken_arguments,
        takes_many_calls=probe.takes_many_calls,
        hides_calls=probe.hides_calls,
        hides_calls_beside_text=probe.hides_calls_beside_text,
        takes_any_id=probe.takes_any_id,
    )
    if found.reasoning_form or probe.shows_reasoning(MEMBERS[0]):
        return found
    for name in reversed(MEMBERS[1:]):
        if name in source and probe.shows_reasoning(name):
            return replace(
                found,
                misnamed_reasoning_field=name,
                reasoning_excludes_content=probe.refuses_reasoning_with_content(name),
            )
    return found
