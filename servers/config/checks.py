"""Building blocks of a schema: each checks one value, and is a JSON Schema.

A value passes `SchemaCheck.check` without a report exactly if it is valid by
`SchemaCheck.json_schema`, with two differences that JSON Schema cannot express: numbers such as
``1.0`` are not whole numbers here, and strings that have a form of their own (`Reads`) are read.
All reports are errors but those about keys that a newer OpenVINO Model Server may know.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Protocol

from servers.config.json_text import member

Severity = Literal["error", "warning"]


class Reporter(Protocol):
    """Takes the path of an error, the message, and a hint or None."""

    def __call__(
        self, path: str, message: str, hint: str | None, severity: Severity = "error", /
    ) -> None: ...


Schema = dict[str, Any]

_NAMES: Final = {
    bool: "boolean",
    dict: "object",
    float: "number",
    int: "integer",
    list: "array",
    str: "string",
}
#: Seconds of a year.
_MOST: Final = 366 * 24 * 3600


class SchemaCheck(Protocol):
    """One building block."""

    def check(self, value: Any, path: str, report: Reporter) -> None:
        """Reporter every error in a value that stands at ``path``."""

    def json_schema(self) -> Schema:
        """Return the same as a JSON Schema."""


def shown(value: Any) -> str:
    """Return a value for messages as JSON, at most 60 characters."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


@dataclass(frozen=True, slots=True)
class OfType:
    """Values of these types; ``expected`` names them in the message."""

    expected: str
    types: tuple[type, ...]

    def check(self, value: Any, path: str, report: Reporter) -> None:
        # bool is an int in Python, but not in JSON.
        is_odd = isinstance(value, bool) and bool not in self.types
        if not isinstance(value, self.types) or is_odd:
            report(path, f"{self.expected} is needed, not {shown(value)}", None)

    def json_schema(self) -> Schema:
        return {"type": _type_names(self.types)}


@dataclass(frozen=True, slots=True)
class Anything:
    """All values."""

    def check(self, value: Any, path: str, report: Reporter) -> None:
        """Reporter nothing."""

    def json_schema(self) -> Schema:
        return {}


@dataclass(frozen=True, slots=True)
class NonemptyText:
    """Strings that are not empty."""

    def check(self, value: Any, path: str, report: Reporter) -> None:
        if not isinstance(value, str) or not value:
            report(path, f"a string that is not empty is needed, not {shown(value)}", None)

    def json_schema(self) -> Schema:
        return {"type": "string", "minLength": 1}


@dataclass(frozen=True, slots=True)
class IntegerCheck:
    """Whole numbers within these bounds, both included."""

    at_least: int
    at_most: int | None = None

    def check(self, value: Any, path: str, report: Reporter) -> None:
        low, high = self.at_least, self.at_most
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if not is_number or value < low or (high is not None and value > high):
            span = f"from {low} on" if high is None else f"from {low} to {high}"
            report(path, f"a whole number {span} is needed, not {shown(value)}", None)

    def json_schema(self) -> Schema:
        made: Schema = {"type": "integer", "minimum": self.at_least}
        return made if self.at_most is None else {**made, "maximum": self.at_most}


@dataclass(frozen=True, slots=True)
class NumberCheck:
    """Numbers, whole or not, up to the seconds of a year."""

    at_least: float

    def check(self, value: Any, path: str, report: Reporter) -> None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not self.at_least <= value <= _MOST:
            report(
                path,
                f"a number from {self.at_least:g} to {_MOST} is needed, not {shown(value)}",
                None,
            )

    def json_schema(self) -> Schema:
        return {"type": "number", "minimum": self.at_least, "maximum": _MOST}


@dataclass(frozen=True, slots=True)
class WordCheck:
    """One of these strings."""

    words: tuple[str, ...]

    def check(self, value: Any, path: str, report: Reporter) -> None:
        if value not in self.words:
            choice = " or ".join(json.dumps(each) for each in self.words)
            near = difflib.get_close_matches(str(value)[:100].lower(), self.words, n=1)
            hint = f'did you mean "{near[0]}"?' if near else None
            report(path, f"{choice} is needed, not {shown(value)}", hint)

    def json_schema(self) -> Schema:
        return {"enum": list(self.words)}


@dataclass(frozen=True, slots=True)
class ListOf:
    """Arrays of at least this many items, all of which pass ``item``."""

    item: SchemaCheck
    at_least: int = 0

    def check(self, value: Any, path: str, report: Reporter) -> None:
        if not isinstance(value, list):
            report(path, f"a list is needed, not {shown(value)}", None)
            return
        for index, each in enumerate(value):
            self.item.check(each, f"{path}[{index}]", report)
        if len(value) < self.at_least:
            report(path, "the list is empty", None)

    def json_schema(self) -> Schema:
        made: Schema = {"type": "array", "items": self.item.json_schema()}
        return {**made, "minItems": self.at_least} if self.at_least else made


@dataclass(frozen=True, slots=True)
class DifferentWords:
    """Arrays of these strings, each once; ``refusal`` makes the message for others."""

    words: tuple[str, ...]
    refusal: Callable[[list[str]], str]

    def check(self, value: Any, path: str, report: Reporter) -> None:
        ListOf(text).check(value, path, report)
        if isinstance(value, list) and all(isinstance(name, str) for name in value):
            refusal = self.refusal(value)
            if refusal:
                report(path, refusal, None)

    def json_schema(self) -> Schema:
        return {"type": "array", "items": {"enum": list(self.words)}, "uniqueItems": True}


@dataclass(frozen=True, slots=True)
class Reads:
    """Values of these types that ``parse`` accepts, and "", which stands for no value.

    ``parse`` raises `ValueError` whose text says what would be right.
    """

    parse: Callable[[Any], object]
    expected: str
    types: tuple[type, ...]

    def check(self, value: Any, path: str, report: Reporter) -> None:
        if not isinstance(value, self.types) or isinstance(value, bool):
            report(path, f"{self.expected} is needed, not {shown(value)}", None)
        elif value != "":
            try:
                self.parse(value)
            except ValueError as error:
                report(path, f"{shown(value)} is not understood: {error}", None)

    def json_schema(self) -> Schema:
        return {"type": _type_names(self.types)}


@dataclass(frozen=True, slots=True)
class MapOf:
    """Objects with any keys besides the required ones."""

    item: SchemaCheck
    required: tuple[str, ...] = ()

    def check(self, value: Any, path: str, report: Reporter) -> None:
        if not isinstance(value, dict):
            report(path, f"an object is needed, not {shown(value)}", None)
            return
        for key, each in value.items():
            self.item.check(each, member(path, key), report)
        _check_required(value, self.required, path, report)

    def json_schema(self) -> Schema:
        made: Schema = {"type": "object", "additionalProperties": self.item.json_schema()}
        return {**made, "required": list(self.required)} if self.required else made


@dataclass(frozen=True, slots=True)
class Either:
    """Values of one kind that pass ``first``, and values of others that pass ``second``."""

    first: SchemaCheck
    kind: type
    second: SchemaCheck

    def check(self, value: Any, path: str, report: Reporter) -> None:
        (self.first if isinstance(value, self.kind) else self.second).check(value, path, report)

    def json_schema(self) -> Schema:
        is_first = {"type": _NAMES[self.kind]}
        return {
            "if": is_first,
            "then": self.first.json_schema(),
            "else": self.second.json_schema(),
        }


@dataclass(frozen=True, slots=True)
class ObjectOf:
    """Objects with these keys.

    Attributes:
        is_open: other keys are allowed.
        warns: other keys have no effect, with a warning, unless they look like a misspelt one.
    """

    fields: Mapping[str, SchemaCheck]
    required: tuple[str, ...] = ()
    is_open: bool = False
    warns: bool = False

    def check(self, value: Any, path: str, report: Reporter) -> None:
        if not isinstance(value, dict):
            report(path, f"an object is needed, not {shown(value)}", None)
            return
        for key, each in value.items():
            if key in self.fields:
                self.fields[key].check(each, member(path, key), report)
            elif not self.is_open:
                near = difflib.get_close_matches(key.lower()[:100], self.fields, n=1)
                if self.warns and not near:
                    report(member(path, key), "unknown key: it has no effect", None, "warning")
                    continue
                known = f"keys here are {', '.join(self.fields)}"
                hint = f'did you mean "{near[0]}"?' if near else known
                report(member(path, key), "unknown key", hint)
        _check_required(value, self.required, path, report)

    def json_schema(self) -> Schema:
        properties = {name: check.json_schema() for name, check in self.fields.items()}
        made: Schema = {"type": "object", "properties": properties}
        if not self.is_open:
            made["additionalProperties"] = False
        return {**made, "required": list(self.required)} if self.required else made


@dataclass(frozen=True, slots=True)
class OneOf:
    """Objects with exactly one of these keys."""

    fields: Mapping[str, SchemaCheck]

    def check(self, value: Any, path: str, report: Reporter) -> None:
        ObjectOf(self.fields).check(value, path, report)
        if isinstance(value, dict) and len(value) != 1:
            report(path, f"exactly one key is needed: {', '.join(self.fields)}", None)

    def json_schema(self) -> Schema:
        made = ObjectOf(self.fields).json_schema()
        return {**made, "minProperties": 1, "maxProperties": 1}


text: Final = OfType("a string", (str,))
nonempty_text: Final = NonemptyText()
boolean: Final = OfType("true or false", (bool,))
anything: Final = Anything()


def _type_names(types: tuple[type, ...]) -> str | list[str]:
    # Every integer is a number in JSON Schema.
    names = [_NAMES[each] for each in types if not (each is int and float in types)]
    return names[0] if len(names) == 1 else names


def _check_required(
    value: dict[str, Any], names: tuple[str, ...], path: str, report: Reporter
) -> None:
    for name in names:
        if name not in value:
            report(path, f'the key "{name}" is missing', None)
