"""Readers of JSON values: each checks a value, and gives the JSON schema of what it accepts.

A reader stands in the declaration of a member (`calculators.kit.requests.members`), so that the
parser
and the OpenAPI document say the same. A boolean is never a number, and ``1.0`` is never an integer.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from calculators.kit.requests import schema
from calculators.kit.requests.fields import (
    INT32_MAX,
    UINT32_MAX,
    describe,
    invalid,
    whole,
    wrong_type,
)
from calculators.kit.requests.schema import Schema

#: The engine computes with 32-bit floats: more than this becomes infinite.
LARGEST_FLOAT: Final = math.nextafter(2.0**128 - 2.0**103, 0)


class Reader(Protocol):
    """The values that a member may have; they are never null."""

    def read(self, value: Any, path: str) -> Any:
        """Return the checked value.

        Raises:
            RequestError: it is not acceptable; ``path`` names it.
        """

    def schema(self, about: str) -> Schema:
        """The JSON schema of the values; ``about`` is its description, "" for none."""


@dataclass(frozen=True, slots=True)
class Boolean:
    """``true`` or ``false``."""

    def read(self, value: Any, path: str) -> bool:
        if value is True or value is False:
            return value
        raise wrong_type(path, "true or false", value)

    def schema(self, about: str) -> Schema:
        return schema.flag(about)


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer, both ends of the range allowed.

    Attributes:
        refused: integers in the range that are refused, each with why.
    """

    minimum: int = 0
    maximum: int = UINT32_MAX
    refused: Mapping[int, str] = field(default_factory=dict)

    def read(self, value: Any, path: str) -> int:
        value = whole(value)
        if type(value) is not int:
            raise wrong_type(path, "an integer", value)
        if value < self.minimum:
            raise invalid(path, f"{describe(value)} is below the minimum {self.minimum}")
        if value > self.maximum:
            raise invalid(path, f"{describe(value)} is above the maximum {self.maximum}")
        if value in self.refused:
            raise invalid(path, f"{value} {self.refused[value]}")
        return value

    def schema(self, about: str) -> Schema:
        made = schema.integer(about, minimum=self.minimum, maximum=self.maximum)
        if self.refused:
            made["not"] = schema.values(self.refused)
        return made


@dataclass(frozen=True, slots=True)
class Number:
    """A finite number: from ``minimum`` to ``maximum``, or strictly above and below.

    The engine computes with 32-bit floats. A number that such a float would round to an end that
    is not in the range is read as the float next to the end; one too small for it is 0.0.

    Attributes:
        above, below: from 0 on.
    """

    minimum: float | None = None
    maximum: float | None = None
    above: float | None = None
    below: float | None = None

    def read(self, value: Any, path: str) -> float:
        if type(value) is not int and type(value) is not float:
            raise wrong_type(path, "a number", value)
        if self.minimum is not None and value < self.minimum:
            raise invalid(path, f"{describe(value)} is below the minimum {self.minimum:g}")
        if self.maximum is not None and value > self.maximum:
            raise invalid(path, f"{describe(value)} is above the maximum {self.maximum:g}")
        try:
            rounded: float = struct.unpack("f", struct.pack("f", float(value)))[0]
        except OverflowError:
            raise invalid(path, f"{describe(value)} does not fit a 32-bit float") from None
        if rounded - rounded != 0:
            raise invalid(path, f"{describe(value)} is not a finite number")
        if self.above is not None and rounded <= self.above:
            if value <= self.above:
                raise invalid(path, f"{describe(value)} is not above {self.above:g}")
            return _next_float(self.above, 1)
        if self.below is not None and rounded >= self.below:
            if value >= self.below:
                raise invalid(path, f"{describe(value)} is not below {self.below:g}")
            return _next_float(self.below, -1)
        return float(value) if rounded else 0.0

    def schema(self, about: str) -> Schema:
        if self.above is not None:
            bounds = {"exclusiveMinimum": self.above}
        else:
            bounds = {"minimum": -LARGEST_FLOAT if self.minimum is None else self.minimum}
        if self.below is not None:
            bounds["exclusiveMaximum"] = self.below
        else:
            bounds["maximum"] = LARGEST_FLOAT if self.maximum is None else self.maximum
        return schema.number(about, **bounds)


def _next_float(value: float, step: int) -> float:
    """Return the 32-bit float that is ``step`` after one that is not negative."""
    bits: int = struct.unpack("i", struct.pack("f", value))[0]
    found: float = struct.unpack("f", struct.pack("i", bits + step))[0]
    return found


@dataclass(frozen=True, slots=True)
class String:
    """A string, maybe empty."""

    def read(self, value: Any, path: str) -> str:
        if isinstance(value, str):
            return value
        raise wrong_type(path, "a string", value)

    def schema(self, about: str) -> Schema:
        return schema.string(about)


@dataclass(frozen=True, slots=True)
class Enumeration:
    """A text that is one of a few words, JSON Schema's ``enum``."""

    words: Sequence[str]

    def read(self, value: Any, path: str) -> str:
        if not isinstance(value, str):
            raise wrong_type(path, "a string", value)
        if value in self.words:
            return value
        words = ", ".join(f'"{word}"' for word in self.words)
        raise invalid(path, f"{describe(value)} is none of {words}")

    def schema(self, about: str) -> Schema:
        return schema.word(self.words, about)


@dataclass(frozen=True, slots=True)
class Array:
    """An array; its items are checked where they are used.

    Attributes:
        items: the schema of each.
        keywords: further ones of the schema, such as ``maxItems``.
    """

    items: Schema = field(default_factory=dict)
    keywords: Schema = field(default_factory=dict)

    def read(self, value: Any, path: str) -> list[Any]:
        if isinstance(value, list):
            return value
        raise wrong_type(path, "an array", value)

    def schema(self, about: str) -> Schema:
        return schema.array(self.items, about, **self.keywords)


@dataclass(frozen=True, slots=True)
class Object:
    """An object; its members are checked where they are used.

    Attributes:
        form: its schema.
    """

    form: Schema = field(default_factory=schema.anything)

    def read(self, value: Any, path: str) -> dict[str, Any]:
        if isinstance(value, dict):
            return value
        raise wrong_type(path, "an object", value)

    def schema(self, about: str) -> Schema:
        return _described(self.form, about)


@dataclass(frozen=True, slots=True)
class Value:
    """A value with a schema written by hand.

    Attributes:
        form: the schema.
        check: takes the value and its path, and returns what the parser is given; None: the value
            is checked where it is used.
    """

    form: Schema = field(default_factory=dict)
    check: Callable[[Any, str], Any] | None = None

    def read(self, value: Any, path: str) -> Any:
        return value if self.check is None else self.check(value, path)

    def schema(self, about: str) -> Schema:
        return _described(self.form, about)


def _described(form: Schema, about: str) -> Schema:
    return {**form, "description": about} if about else form


BOOLEAN: Final = Boolean()
STRING: Final = String()
#: A count of tokens.
COUNT: Final = Integer()
POSITIVE: Final = Integer(minimum=1)
TOKEN_ID: Final = Integer(maximum=INT32_MAX)
