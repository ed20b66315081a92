"""`TemplateAnalysis`: what a chat template tells of its model.

The markers, their order and the probe are those of OpenVINO Model Server
(``llm/io_processing/chat_template/analyzer.cpp``): whoever moves over gets the same parsers.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from calculators.llm.chat_template.chat_template import ChatTemplate
from calculators.llm.chat_template.errors import ChatTemplateError

Marker = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class TemplateAnalysis:
    """Parsers that fit the template, and what messages have to look like.

    Attributes:
        tool_parser: name of the tool parser; None where the template shows no known one.
        reasoning_parser: name of the reasoning parser, or None.
        supports_tool_calls: the template renders tool calls of earlier turns.
        requires_object_arguments: it does so right only when their arguments are objects, not
            the JSON text that OpenAI's clients send.
        misnamed_reasoning_field: the member in which the template looks for the reasoning of
            earlier turns where that is not ``reasoning_content``; else empty.
    """

    tool_parser: str | None = None
    reasoning_parser: str | None = None
    supports_tool_calls: bool = False
    requires_object_arguments: bool = False
    misnamed_reasoning_field: str = ""


def _all(*words: str) -> Marker:
    return lambda source: all(word in source for word in words)


def _any(*words: str) -> Marker:
    return lambda source: any(word in source for word in words)


_never: Marker = _any()
_always: Marker = _all()
_splits_thoughts = _any("<think>", "content.split('</think>')")


@dataclass(frozen=True, slots=True)
class _Family:
    """A row of the table: the marker, the tool parser, the reasoning parser and its condition."""

    marker: Marker
    tool_parser: str | None
    reasoning_parser: str | None = None
    reasons: Marker = _always
    reasoning_field: str = ""


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
        _any("<|assistant_tool_call|>", "<|tool_call_start|>", "keep_past_thinking"),
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
    _Family(_splits_thoughts, None, "qwen3"),
)


def analyze_source(source: str) -> TemplateAnalysis:
    """What the text of a template tells by its markers alone."""
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
    """What a template tells by its markers, and by how it renders a tool call.

    A model with a template of its own for chats with tools is judged by that one where its main
    template shows no tool parser.
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
    return _probed(template, found) if found.supports_tool_calls else found


# --- the probe -----------------------------------------------------------------------------------

_NEEDLE = "probe_needle_xK9m"
_PROBE_ARGUMENTS = {_NEEDLE: "value"}
#: How a template that understands arguments writes one of this name.
_NATIVE = (
    f'"{_NEEDLE}": "',
    f'"{_NEEDLE}":"',
    f"<parameter={_NEEDLE}>",
    f'<atem:parameter name="{_NEEDLE}">',
    f'<param name="{_NEEDLE}">',
    f"{_NEEDLE}:<|",
    f"{_NEEDLE}=",
)
_RAW_DUMP = '"tool_calls": ['
_PROBE_TOOL = {
    "type": "function",
    "function": {
        "name": "probe",
        "description": "probe",
        "parameters": {"type": "object", "properties": {_NEEDLE: {"type": "string"}}},
    },
}


def _probed(template: ChatTemplate, found: TemplateAnalysis) -> TemplateAnalysis:
    as_text = _probe(template, json.dumps(_PROBE_ARGUMENTS))
    as_object = _probe(template, _PROBE_ARGUMENTS)
    takes_object = _any(*_NATIVE)(as_object)
    return TemplateAnalysis(
        found.tool_parser,
        found.reasoning_parser,
        supports_tool_calls=_RAW_DUMP not in as_text and _RAW_DUMP not in as_object,
        # A template that takes both gets objects: they leave no doubt about quotes.
        requires_object_arguments=takes_object,
        misnamed_reasoning_field=found.misnamed_reasoning_field,
    )


def _probe(template: ChatTemplate, arguments: Any) -> str:
    """A chat with one tool call; empty where the template refuses it."""
    call = {
        "id": "probe0000",  # nine letters and digits, as Mistral's templates demand
        "type": "function",
        "function": {"name": "probe", "arguments": arguments},
    }
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
    ]
    # Only a separate template for tools needs to be asked for by giving tools.
    tools = [_PROBE_TOOL] if template.files.tool_use is not None else None
    try:
        return template.render(messages, tools=tools)
    except ChatTemplateError:
        return ""
