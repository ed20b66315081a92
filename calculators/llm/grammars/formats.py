"""Formats: the parts of an answer's form, as JSON.

They are the formats of the engine's structural tags, plus `choice`, `arguments`, `text_argument`
and `turn`. The grammar process makes rules of them. `calls` and `text_with_calls` make the format
of tool calls, from the form in which a tool parser reads them.
Source: xgrammar's documentation of structural tags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from calculators.kit.requests.schema import Schema
from calculators.language.generation_request import TextGrammar
from calculators.llm.grammars import formats
from calculators.llm.parsers.parser import CallForm

Format = dict[str, Any]


def json_schema(schema: Schema | bool, path: str, *, is_strict: bool = False) -> Format:
    """A JSON value.

    Args:
        path: the member of the request with the schema, for errors.
        is_strict: what rules cannot express is refused; else it is left out, with a notice.
    """
    made: Format = {"type": "json_schema", "json_schema": schema, "path": path}
    return {**made, "strict": True} if is_strict else made


def regex(pattern: str, path: str = "") -> Format:
    """A text that matches as a whole."""
    return {"type": "regex", "pattern": pattern, "path": path}


def ebnf(text: str, path: str) -> Format:
    """A text of a grammar; see `calculators.llm.grammars.ebnf`."""
    return {"type": "grammar", "grammar": text, "path": path}


def choice(texts: Sequence[str], path: str) -> Format:
    """One of some texts."""
    return {"type": "choice", "choices": list(texts), "path": path}


def arguments(
    form: Mapping[str, str], schema: Mapping[str, Any], path: str, *, is_strict: bool = False
) -> Format:
    """The parameters of a call, written one by one: ``form`` has the members of `ParameterForm`."""
    made: Format = {"type": "arguments", "form": dict(form), "json_schema": schema, "path": path}
    return {**made, "strict": True} if is_strict else made


def text_argument(
    name: str, syntax: str, definition: str, path: str, form: Mapping[str, str] | None, any: Format
) -> Format:
    """Return the arguments of a call with one text that follows a grammar.

    Args:
        name: of the argument.
        syntax: of the grammar, "lark" or "regex".
        path: the member of the request with the grammar.
        form: the members of `ParameterForm`; None where the arguments are a JSON object.
        any: the arguments with any text, if the grammar cannot be followed.
    """
    return {
        "type": "text_argument",
        "name": name,
        "syntax": syntax,
        "definition": definition,
        "path": path,
        "form": None if form is None else dict(form),
        "any": any,
    }


def const(text: str) -> Format:
    """Exactly this text, which is not empty."""
    return {"type": "const_string", "value": text}


def any_text() -> Format:
    """Any text, up to what follows it in the enclosing tag."""
    return {"type": "any_text"}


def turn() -> Format:
    """Return the white space that a model writes between its reasoning and the rest of a sequence.

    If the rest may begin with white space itself, there is none.
    """
    return {"type": "turn"}


def sequence(*elements: Format) -> Format:
    """One after the other."""
    return elements[0] if len(elements) == 1 else {"type": "sequence", "elements": list(elements)}


def one_of(*elements: Format) -> Format:
    """One of them; either all of them may go on for ever, or none."""
    return elements[0] if len(elements) == 1 else {"type": "or", "elements": list(elements)}


def tag(begin: str, content: Format, end: str) -> Format:
    """Something between two texts."""
    return {"type": "tag", "begin": begin, "content": content, "end": end}


def tags(elements: Sequence[Format], separator: str, *, only_one: bool = False) -> Format:
    """One of some tags; then more of them, if not ``only_one``."""
    return {
        "type": "tags_with_separator",
        "tags": list(elements),
        "separator": separator,
        "at_least_one": True,
        "stop_after_first": only_one,
    }


def triggered(elements: Sequence[Format], trigger: str, *, only_one: bool = False) -> Format:
    """Any text; at the trigger, with which each of the tags begins, one of them follows."""
    return {
        "type": "triggered_tags",
        "triggers": [trigger],
        "tags": list(elements),
        "at_least_one": False,
        "stop_after_first": only_one,
    }


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
