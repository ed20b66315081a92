"""A JSON parser that keeps the place of every value, so that errors can name the line."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

#: All tokens of a text that parsed.
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


class JsonSyntaxError(ValueError):
    """The text is not JSON. ``line`` and ``column`` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class JsonText:
    """A parsed text.

    Attributes:
        value: the parsed value.
        places: line and column, from 1, by path: ``a.b[0]``; the place of a member is that of its
            key; the path of the whole text is "".
        repeated: keys that occur twice in an object, as paths, with the place of the later one.
    """

    value: Any
    places: dict[str, tuple[int, int]] = field(default_factory=dict)
    repeated: dict[str, tuple[int, int]] = field(default_factory=dict)


def parse_json(text: str) -> JsonText:
    """Parse a text strictly by RFC 8259.

    Raises:
        JsonSyntaxError: the text is not JSON.
    """
    text = text.removeprefix("\ufeff")
    try:
        document = JsonText(json.loads(text, parse_constant=_refuse_constant))
    except json.JSONDecodeError as error:
        message = _slip(text, error.pos) or error.msg
        raise JsonSyntaxError(message, error.lineno, error.colno) from None
    except RecursionError:
        raise JsonSyntaxError("it is nested too deep", 1, 1) from None
    except ValueError as error:  # a constant, or a number with thousands of digits
        raise JsonSyntaxError(str(error), 1, 1) from None
    _find_places(text, document)
    return document


def _slip(text: str, place: int) -> str:
    """Return what a usual slip at this place is called; "" for another one."""
    rest, before = text[place:].lstrip(), text[:place].rstrip()
    if not text.strip():
        return "the file is empty; a config without anything is {}"
    if rest.startswith(("//", "/*", "#")):
        return "JSON has no comments: take this one out"
    if before.endswith(",") and rest[:1] in ("}", "]"):
        return f"a comma before the {rest[0]} that ends the list: JSON has none there"
    if rest.startswith(",") and rest[1:].lstrip()[:1] in ("}", "]"):
        return "a comma after the last item: JSON has none there"
    if rest.startswith("'"):
        return "texts of JSON stand in double quotes"
    return ""


def member(path: str, key: str) -> str:
    """Return the path of an object's member."""
    return f"{path}.{key}" if path else key


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


@dataclass(slots=True)
class _Container:
    """An object or array that is still open. ``index`` is -1 for objects."""

    path: str
    index: int
    expects_key: bool


def _find_places(text: str, document: JsonText) -> None:
    containers: list[_Container] = []
    path = ""
    line, line_start = 1, 0
    end = 0
    for token in _TOKEN.finditer(text):
        line += text.count("\n", end, token.start())
        line_start = max(line_start, text.rfind("\n", end, token.start()) + 1)
        end = token.start()
        place = (line, end - line_start + 1)
        word = token[0]
        top = containers[-1] if containers else None
        if top is not None and top.expects_key and word[0] == '"':
            path = member(top.path, json.loads(word))
            (document.repeated if path in document.places else document.places)[path] = place
            top.expects_key = False
            continue
        if word in "]}":
            containers.pop()
        elif word == ",":
            assert top is not None, "the text parsed"
            top.expects_key = top.index < 0
        elif word != ":":
            if top is not None and top.index >= 0:
                path = f"{top.path}[{top.index}]"
                top.index += 1
            document.places.setdefault(path, place)
            if word in "{[":
                containers.append(_Container(path, -1 if word == "{" else 0, word == "{"))
