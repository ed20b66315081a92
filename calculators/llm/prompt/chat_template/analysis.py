"""`TemplateAnalysis`: the facts of a model that its chat template reveals.

The markers and their order come from OpenVINO Model Server
(``llm/io_processing/chat_template/analyzer.cpp``), so a model gets the same parsers here, if they
read the calls that the template itself writes: a parser of another form is worse than none.

Probes find the rest: they render short chats, and see how the template shows tools, calls,
reasoning and system messages. The form of messages is probed for every template with tool calls or
reasoning, not only for the families of the table. The first chat of each question to `Probe` is
OpenVINO Model Server's (``llm/io_processing/chat_template/probe.cpp``). The further ones are for
templates that refuse it or show nothing of it, because they expect tools, or the result of a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any, Final

from calculators.language.events import Arguments, Content, ToolCall
from calculators.llm.parsers.output_parsers import OutputParsers
from calculators.llm.parsers.registry import ToolForm, tool_parser
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.limits import ChatTemplateError

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
    """Return True if the template shows calls of earlier turns, in a form of its own then."""
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


Marker = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class TemplateAnalysis:
    """The parsers that fit the template, and the form of messages that it expects.

    Attributes:
        tool_parser: name of the tool parser; None where the template shows no known one.
        reasoning_parser: name of the reasoning parser, or None.
        supports_tool_calls: the template renders tool calls of earlier turns.
        requires_object_arguments: their arguments must be objects, not the JSON text that OpenAI's
            clients send.
        takes_broken_arguments: arguments that are not a JSON object may stay text.
        misnamed_reasoning_field: the member in which the template looks for the reasoning of
            earlier turns, if it is another than ``reasoning_content``; else empty.
        reasoning_excludes_content: the template refuses a tool call with text and such reasoning.
    """

    tool_parser: str | None = None
    reasoning_parser: str | None = None
    supports_tool_calls: bool = False
    requires_object_arguments: bool = False
    takes_broken_arguments: bool = True
    misnamed_reasoning_field: str = ""
    reasoning_excludes_content: bool = False


def _all(*words: str) -> Marker:
    return lambda source: all(word in source for word in words)


def _any(*words: str) -> Marker:
    return lambda source: any(word in source for word in words)


_always: Marker = _all()
_splits_thoughts = _any("<think>", "content.split('</think>')")


@dataclass(frozen=True, slots=True)
class _TemplateFamily:
    """A row of the table: a marker, its parsers, and the condition of the reasoning parser."""

    marker: Marker
    tool_parser: str | None
    reasoning_parser: str | None = None
    reasons: Marker = _always
    reasoning_field: str = ""


#: Parsers of messages with recipients, which a template may write in another order.
_CHANNELS = ("gptoss", "onyx")
_THOUGHTS = re.compile(r"<think>.*?</think>|</?think>", re.DOTALL)
#: The other name of ``reasoning_content`` in templates.
_OTHER_REASONING = "thinking"
#: The first row whose marker is in the template counts.
_FAMILIES = (
    _TemplateFamily(_all("<|channel|>"), "gptoss", "gptoss"),
    _TemplateFamily(_all("<|start|>", "<|message|>", "<|eom|>", "<|eot|>"), "onyx", "onyx"),
    _TemplateFamily(_all("<|tool_call>call:"), "gemma4", "gemma4"),
    _TemplateFamily(
        _all("<parameter=", "</parameter>", "<function="),
        "qwen3coder",
        "qwen3",
        _any("<think>", "</think>"),
    ),
    _TemplateFamily(_all('<param name="'), "minicpm5", "minicpm5"),
    _TemplateFamily(
        _any(
            *("<|assistant_tool_call|>", "<|tool_call_start|>", "<|tool_list_start|>"),
            "keep_past_thinking",
        ),
        "lfm2",
        "lfm2",
        _all("message.thinking"),
        "thinking",
    ),
    _TemplateFamily(_all("functools"), "phi4"),
    _TemplateFamily(_all("[TOOL_CALLS]", "[ARGS]"), "devstral"),
    _TemplateFamily(_all("[TOOL_CALLS]"), "mistral"),
    _TemplateFamily(_all("[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"), "mistral"),
    _TemplateFamily(_all("<|python_tag|>"), "llama3"),
    _TemplateFamily(_all("<tool_call>", "</tool_call>"), "hermes3", "qwen3", _splits_thoughts),
    # Llama 3.2, whose calls have no tag.
    _TemplateFamily(_all("<|eot_id|>", '"parameters": '), "llama3"),
    _TemplateFamily(_splits_thoughts, None, "qwen3"),
)


def analyze_source(source: str) -> TemplateAnalysis:
    """Analyze the text of a template by its markers alone."""
    for family in _FAMILIES:
        if family.marker(source):
            reasons = family.reasons(source)
            return TemplateAnalysis(
                tool_parser=family.tool_parser,
                reasoning_parser=family.reasoning_parser if reasons else None,
                supports_tool_calls=family.tool_parser is not None,
                misnamed_reasoning_field=family.reasoning_field if reasons else "",
            )
    return TemplateAnalysis()


def analyze(template: ChatTemplate) -> TemplateAnalysis:
    """Analyze a template by its markers, and by how it renders a tool call.

    Where the main template shows no tool parser, a template of its own for chats with tools counts.
    """
    found = analyze_source(template.files.main.text)
    tool_use = template.files.tool_use
    if found.tool_parser is None and tool_use is not None:
        with_tools = analyze_source(tool_use.text)
        if with_tools.tool_parser is not None:
            found = TemplateAnalysis(
                with_tools.tool_parser,
                found.reasoning_parser or with_tools.reasoning_parser,
                supports_tool_calls=True,
                misnamed_reasoning_field=with_tools.misnamed_reasoning_field,
            )
    source = template.files.main.text + (tool_use.text if tool_use else "")
    if "tool_calls" in source or _OTHER_REASONING in source or found.supports_tool_calls:
        found = _probed(Probe(template), found, source)
    return found


def _probed(probe: Probe, found: TemplateAnalysis, source: str) -> TemplateAnalysis:
    is_readable = found.tool_parser not in _CHANNELS and not probe.dumps_messages
    if found.tool_parser is not None and is_readable:
        parser = tool_parser(found.tool_parser)
        if any(not _reads(parser, answer) for answer in probe.answers_with_call()):
            found = replace(found, tool_parser=None)
    if found.supports_tool_calls:
        # A template that takes both gets objects, which are never quoted twice.
        found = replace(
            found,
            supports_tool_calls=not probe.dumps_messages,
            requires_object_arguments=probe.takes_objects,
        )
    else:
        # OpenVINO Model Server gives text to templates that it does not know.
        takes_objects = probe.takes_objects and not probe.takes_text
        found = replace(found, requires_object_arguments=takes_objects)
    found = replace(found, takes_broken_arguments=probe.takes_broken_arguments)
    field = found.misnamed_reasoning_field or _OTHER_REASONING
    if field not in source or probe.shows_reasoning("reasoning_content"):
        return replace(found, misnamed_reasoning_field="")
    if not found.misnamed_reasoning_field and not probe.shows_reasoning(field):
        return found
    return replace(
        found,
        misnamed_reasoning_field=field,
        reasoning_excludes_content=probe.refuses_reasoning_with_content(field),
    )


# Markers alone chose a parser of another form for 13 of 142 public templates; with the reading back
# for none (decision 0031).
def _reads(parser: ToolForm, answer: str) -> bool:
    """Return True if the parser finds the call of the probe, and no mark of another form before."""
    tools = {"probe": {"properties": {NEEDLE: {"type": "string"}}}}
    reader = OutputParsers(parser).start(tools=tools)
    before, arguments = "", ""
    names: list[str] = []
    for event in (*reader.feed(answer), *reader.finish()):
        match event:
            case Content(text) if not names:
                before += text
            case ToolCall(name):
                names.append(name)
            case Arguments(text):
                arguments += text
            case _:
                pass
    try:
        values = json.loads(arguments)
    except ValueError:
        return False
    return names == ["probe"] and values == ARGUMENTS and not _THOUGHTS.sub("", before).strip()
