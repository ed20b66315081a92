"""`TemplateAnalysis`: the facts of a model that its chat template reveals.

The markers and their order are those of OpenVINO Model Server
(``llm/io_processing/chat_template/analyzer.cpp``), so a model gets the same parsers here, if they
read the calls that the template itself writes: a parser of another form is worse than none. The
form of messages is probed for every template with tool calls or reasoning, not only for the
families of the table.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from calculators.language.events import Arguments, Content, ToolCall
from calculators.llm.parsers.parser import ToolParser
from calculators.llm.parsers.registry import tool_parser
from calculators.llm.prompt.chat_template.chat_template import ChatTemplate
from calculators.llm.prompt.chat_template.probe import ARGUMENTS, NEEDLE, Probe

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
        takes_broken_arguments: arguments that are no JSON object may stay the text that they are.
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
class _Family:
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
    _Family(_all("<|channel|>"), "gptoss", "gptoss"),
    _Family(_all("<|start|>", "<|message|>", "<|eom|>", "<|eot|>"), "onyx", "onyx"),
    _Family(_all("<|tool_call>call:"), "gemma4", "gemma4"),
    _Family(
        _all("<parameter=", "</parameter>", "<function="),
        "qwen3coder",
        "qwen3",
        _any("<think>", "</think>"),
    ),
    _Family(_all('<param name="'), "minicpm5", "minicpm5"),
    _Family(
        _any(
            *("<|assistant_tool_call|>", "<|tool_call_start|>", "<|tool_list_start|>"),
            "keep_past_thinking",
        ),
        "lfm2",
        "lfm2",
        _all("message.thinking"),
        "thinking",
    ),
    _Family(_all("functools"), "phi4"),
    _Family(_all("[TOOL_CALLS]", "[ARGS]"), "devstral"),
    _Family(_all("[TOOL_CALLS]"), "mistral"),
    _Family(_all("[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"), "mistral"),
    _Family(_all("<|python_tag|>"), "llama3"),
    _Family(_all("<tool_call>", "</tool_call>"), "hermes3", "qwen3", _splits_thoughts),
    # Llama 3.2, whose calls have no tag.
    _Family(_all("<|eot_id|>", '"parameters": '), "llama3"),
    _Family(_splits_thoughts, None, "qwen3"),
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


def _reads(parser: type[ToolParser], answer: str) -> bool:
    """Return True if the parser finds the call of the probe, and no mark of another form before."""
    reader = parser({"probe": {"properties": {NEEDLE: {"type": "string"}}}})
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
