"""Formats: the parts of an answer's form, as JSON.

They are the formats of the engine's structural tags, plus `choice`, `calls` and `turn`. The grammar
process makes rules of them.
Source: xgrammar's documentation of structural tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from calculators.kit.requests.schema import Schema
from calculators.language.generation_request import TextGrammar
from calculators.llm.parsers.families import CallSyntax

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


def tag(begin: str, content: Format, *end: str) -> Format:
    """Something between two texts, of which the second is one of some."""
    return {"type": "tag", "begin": begin, "content": content, "end": [*end]}


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


def calls(
    form: CallSyntax,
    tools: Sequence[Tool],
    *,
    only_one: bool = False,
    is_free: bool = False,
    number: int = 0,
) -> Format:
    """One call of one of the tools, and more.

    Args:
        form: how the model writes calls.
        only_one: there is no second call.
        is_free: any text, with calls in it where the model begins one.
        number: that of the first call, where the form counts them.
    """
    return {
        "type": "calls",
        "form": asdict(form),
        "tools": [asdict(tool) for tool in tools],
        "only_one": only_one,
        "is_free": is_free,
        "number": number,
    }
