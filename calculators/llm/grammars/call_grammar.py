"""Formats of tool calls, from the form in which a tool parser reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from calculators.language.tools import TextGrammar
from calculators.llm.grammars import formats
from calculators.llm.grammars.formats import Format
from calculators.llm.parsers.parser import CallForm


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool that may be called.

    Attributes:
        schema: None if its arguments are any.
        path: the member of the request with its schema.
        is_strict: the client wants the schema to be followed in full.
        text: the grammar of the one argument.
    """

    name: str
    schema: dict[str, Any] | None
    path: str
    is_strict: bool = False
    text: TextGrammar | None = None


def calls(form: CallForm, tools: Sequence[Tool], *, only_one: bool) -> Format:
    """Return the format of one call of one of the tools; then more, unless ``only_one``."""
    tags = formats.tags(_tags(form, tools), form.separator, only_one=only_one or form.only_one)
    return formats.tag(form.opening, tags, form.closing) if form.closing else tags


def text_with_calls(form: CallForm, tools: Sequence[Tool], *, only_one: bool) -> Format:
    """Return the format of any text, with calls in it where the model begins one."""
    every = _tags(form, tools)
    if form.closing:
        inner = formats.tags(every, form.separator, only_one=only_one)
        every = [formats.tag(form.opening, inner, form.closing)]
    only_one = only_one or form.only_one or bool(form.closing)
    return formats.triggered(every, form.trigger, only_one=only_one)


def _tags(form: CallForm, tools: Sequence[Tool]) -> list[Format]:
    return [
        formats.tag(form.begin.replace("NAME", tool.name), _arguments(form, tool), form.end)
        for tool in tools
    ]


def _arguments(form: CallForm, tool: Tool) -> Format:
    parameters = None if form.parameters is None else asdict(form.parameters)
    if tool.schema is None:
        if parameters is None:
            return formats.json_schema({"type": "object"}, tool.path)
        return formats.any_text()
    if parameters is None:
        made = formats.json_schema(tool.schema, tool.path, is_strict=tool.is_strict)
    else:
        made = formats.arguments(parameters, tool.schema, tool.path, is_strict=tool.is_strict)
    if tool.text is None:
        return made
    argument, syntax, definition, path = tool.text
    return formats.text_argument(argument, syntax, definition, path, parameters, made)
