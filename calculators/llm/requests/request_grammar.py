"""The form of the answer to a request, from structured output and tools."""

from __future__ import annotations

from dataclasses import replace

from calculators.kit.requests import fields
from calculators.language.structured_output import StructuredOutput
from calculators.language.tools import Tools
from calculators.llm.grammars import formats
from calculators.llm.grammars.formats import Format, Tool, calls, text_with_calls
from calculators.llm.grammars.grammar import AnswerForm
from calculators.llm.parsers.parser import ReasoningParser, ToolParser
from calculators.llm.requests.client_json import json_text


def request_grammar(
    structured: StructuredOutput | None,
    tools: Tools,
    *,
    tool_parser: type[ToolParser] | None,
    reasoning_parser: type[ReasoningParser] | None,
    reasoning_is_open: bool,
    guides_tools: bool,
    parallel: bool,
) -> AnswerForm | None:
    """Return the form of the answer; None if any text is allowed.

    Reasoning may precede the form. If tools may be called, the answer is calls or ``structured``.

    A model that is free to call tools is guided where a tool has a grammar of its text.

    Args:
        reasoning_is_open: the prompt has begun the reasoning.
        guides_tools: calls must follow the tools' schemas also when the model is free to call: the
            option ``enable_tool_guided_generation``.
        parallel: one answer may call several tools.

    Raises:
        RequestError: a tool must be called, and the form of this model's calls is unknown.
    """
    must_call = tools.choice in ("required", "named")
    follows_schemas = guides_tools or structured is not None
    is_guided = must_call or (tools.choice == "auto" and (follows_schemas or bool(tools.grammars)))
    form = tool_parser.call_form if tool_parser is not None and is_guided else None
    if must_call and form is None:
        raise fields.invalid(
            "tool_choice", 'this model cannot be made to call tools; only "auto" and "none" are'
        )
    only_one = not parallel or tools.choice == "named"
    if form is None:
        if structured is None:
            return None
        rest = _answer(structured, reasoning_parser)
    elif must_call:
        rest = calls(form, _tools(tools), only_one=only_one)
    elif structured is None:
        # Any text may precede the calls, and so may reasoning.
        offered = _tools(tools)
        if not follows_schemas:
            offered = [tool if tool.text else replace(tool, schema=None) for tool in offered]
        return _form(text_with_calls(form, offered, only_one=only_one))
    else:
        rest = _calls_or_answer(
            calls(form, _tools(tools), only_one=only_one), _answer(structured, reasoning_parser)
        )
    return _form(_after_reasoning(rest, reasoning_parser, is_open=reasoning_is_open))


def _form(part: Format) -> AnswerForm:
    # The parts that clients wrote have been checked for size.
    return AnswerForm(json_text(part, "tools").decode())


def _tools(tools: Tools) -> list[Tool]:
    strict = tools.strict
    return [
        Tool(
            name,
            schema or {"type": "object", "properties": {}},
            path,
            name in strict,
            tools.grammars.get(name),
        )
        for (name, schema), path in zip(tools.schemas.items(), tools.schema_paths, strict=True)
    ]


def _answer(structured: StructuredOutput, parser: type[ReasoningParser] | None) -> Format:
    if parser is None or not parser.answer_start:
        return structured.format
    return formats.sequence(formats.const(parser.answer_start), structured.format)


def _calls_or_answer(called: Format, answer: Format) -> Format:
    # The library needs alternatives of one kind: lists of tags.
    alone = formats.tags([formats.tag("", answer, "")], "", only_one=True)
    if called["type"] == "tag":
        called = formats.tags([called], "", only_one=True)
    return formats.one_of(called, alone)


def _after_reasoning(
    rest: Format, parser: type[ReasoningParser] | None, *, is_open: bool
) -> Format:
    if parser is None or not parser.end_tag or not parser.start_tags:
        return rest
    turn = formats.turn() if parser.turn is None else formats.const(parser.turn)
    behind = (turn, rest)
    if is_open:
        ending = formats.tag("", formats.any_text(), parser.end_tag)
        return formats.sequence(ending, *behind)
    thoughts = formats.tag(parser.start_tags[0], formats.any_text(), parser.end_tag)
    return formats.one_of(formats.sequence(thoughts, *behind), rest)
