"""Members of request bodies: declared once, for the parser and for the OpenAPI document.

A name that no endpoint has and that looks like a misspelt known one is refused: the client meant
something that would not happen. Any other unknown name is left out with a warning, because clients
send new members before servers know them; `UnknownMembers` are the rules. A value of null is as
good as absent.

The declaration of a member has a reader of its values: it checks a value, and gives the JSON schema
of what it accepts, so that the parser and the OpenAPI document say the same. A boolean is never a
number, and ``1.0`` is never an integer.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum, auto
from typing import Any, Final, Protocol, TypeAlias

from calculators.kit.requests import fields, schema
from calculators.kit.requests.fields import (
    INT32_MAX,
    UINT32_MAX,
    describe,
    invalid,
    whole,
    wrong_type,
)
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import MOST_WARNINGS, current_record
from calculators.kit.requests.schema import Schema, nullable, record
from calculators.kit.requests.unknown_members import UnknownMembers
from graphrt_base.errors import did_you_mean

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
        """Return the JSON schema of the values; ``about`` is its description, "" for none."""


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
        # Of infinities and NaN alone the difference is not 0.
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


#: OpenAI's word for programs.
UNKNOWN: Final = "unknown_parameter"
_SHOWN: Final = 64
#: The end of the description of a body.
OTHERS_ARE_REFUSED: Final = "Other members than these are refused."
#: The similarity of misspelt words, by `difflib`'s measure.
_ALIKE: Final = 0.85
#: The fewest letters of a word in which one letter more or less is a slip.
_SHORTEST: Final = 4


class Standing(Enum):
    """The use that is made of a member."""

    HONOURED = auto()
    WITHOUT_EFFECT = auto()
    LEFT_OUT = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Member:
    """One member of a body.

    Attributes:
        read: checks a value that is not null, and returns the value for the parser; None means
            absent. Takes the value and its path; raises `RequestError`.
        reader: the reader of an honoured member, for its schema.
        about: the description in the OpenAPI document.
        keywords: further keywords of its schema, for checks that the parser makes later.
        is_required: the parser refuses bodies without it.
        beside: the schema of bodies that have it, for what it needs beside it; {}: nothing.
    """

    name: str
    standing: Standing
    read: Callable[[Any, str], Any]
    reader: Reader
    about: str = ""
    keywords: Schema = field(default_factory=dict)
    is_required: bool = False
    beside: Schema = field(default_factory=dict)

    def schema(self) -> Schema:
        """Return the JSON schema of its values; null is among them unless it is required."""
        described = {**self.reader.schema(self.about), **self.keywords}
        allows_null = self.standing is not Standing.HONOURED or described.keys() <= {"description"}
        return described if self.is_required or allows_null else nullable(described)


#: Members by name.
Members: TypeAlias = Mapping[str, Member]


def honoured(
    name: str,
    reader: Reader,
    about: str = "",
    *,
    is_required: bool = False,
    beside: Schema | None = None,
    **keywords: Any,
) -> Member:
    """A member that ``reader`` checks; ``keywords`` are added to its schema.

    ``beside`` describes bodies that have it, and is for the document: the parser checks later.
    """
    return Member(
        name, Standing.HONOURED, reader.read, reader, about, keywords, is_required, beside or {}
    )


def ignored(why: str, names: str) -> list[Member]:
    """Members without an effect; ``why`` completes "the member ..."."""
    reader = Value(check=_dropped)
    about = f"Without effect: it {why}."
    return [
        Member(name, Standing.WITHOUT_EFFECT, _dropped, reader, about) for name in names.split()
    ]


def refused(why: str, names: str, *, may_be_empty: bool = False) -> list[Member]:
    """Members that are not supported; ``why`` completes "the member ...".

    Null, false, an empty text and an empty array ask for nothing, and are taken; so is an empty
    object if it ``may_be_empty``. 0 asks for something.
    """

    def read(value: Any, path: str) -> None:
        if value is False or value in ("", []) or (may_be_empty and value == {}):
            return
        raise fields.invalid(path, f"the member {why}")

    nothing = [
        *map(schema.const, (None, False)),
        schema.string(maxLength=0),
        schema.array({}, maxItems=0),
    ]
    if may_be_empty:
        nothing.append(schema.anything(maxProperties=0))
    reader = Value(schema.one_of(*nothing), read)
    return [Member(name, Standing.REFUSED, read, reader, f"It {why}.") for name in names.split()]


def left_out(why: str, names: str) -> list[Member]:
    """Members that are left out with a warning, as `leave_out` says.

    They ask for something that is not here and that the rest of the request does without; ``why``
    completes "the member ...".
    """

    def read(value: Any, path: str) -> None:
        leave_out(fields.invalid(path, f"the member {why}"))

    about = f"Left out with a warning: it {why}."
    return [
        Member(name, Standing.LEFT_OUT, read, Value(check=read), about) for name in names.split()
    ]


def _dropped(value: Any, path: str) -> None:
    """Leave out a member without an effect."""


def table(*members: Member | Iterable[Member] | Members) -> dict[str, Member]:
    """Return the members by name; later ones replace earlier ones of the same name."""
    made: dict[str, Member] = {}
    for each in members:
        if isinstance(each, Member):
            made[each.name] = each
        elif isinstance(each, Mapping):
            made.update(each)
        else:
            made.update((member.name, member) for member in each)
    return made


# Over the members that a body has, not over all that are declared: a short chat takes 44 Python
# calls to parse instead of 127 (decision 0046).
def read_members(
    body: Mapping[str, Any], known: Members, hint: Callable[[str], str] = lambda name: ""
) -> dict[str, Any]:
    """The members of ``body`` that have an effect, each as its reader returns it; none is None.

    Only the members that are there are looked at: a declared one that a body does not have costs
    nothing. ``hint`` gives words about an unknown name, or "".

    Raises:
        RequestError: with the member as ``param``; the first unknown one that is refused (see
            `handle_unknown`), else the first bad one.
    """
    if not body.keys() <= known.keys():
        for name, value in body.items():
            if name not in known and value is not None:
                handle_unknown(name, known, hint(name))
        body = {name: value for name, value in body.items() if name in known}
    values = {}
    for name, value in body.items():
        if value is not None and (read := known[name].read(value, name)) is not None:
            values[name] = read
    return values


# From the same table as the parser's, so the document cannot forget a member (decisions 0042,
# 0046).
def body_schema(members: Members, *, any_of: Sequence[str] = ()) -> Schema:
    """The JSON schema of a body with these members and no others, and with what they need.

    ``any_of``: members of which a body has at least one.
    """
    # Null is as good as absent, here too.
    forms = [
        {"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in any_of
    ]
    beside = {name: member.beside for name, member in members.items() if member.beside}
    return record(
        {name: member.schema() for name, member in members.items()},
        f"Null is as good as absent. {OTHERS_ARE_REFUSED}",
        required=[name for name, member in members.items() if member.is_required],
        additionalProperties=False,
        **({"dependentSchemas": beside} if beside else {}),
        **({"anyOf": forms} if forms else {}),
    )


def check_object(value: Mapping[str, Any], path: str, known: Iterable[str]) -> None:
    """Treat members of the object at ``path`` that are not known as `handle_unknown` does.

    Raises:
        RequestError: with the path of the first that is refused.
    """
    known = frozenset(known)
    if value.keys() <= known:
        return
    for name, inner in value.items():
        if name not in known and inner is not None:
            handle_unknown(name, known, path=path)


def check_spelling(value: Mapping[str, Any], path: str, known: Iterable[str]) -> None:
    """Refuse what looks like a misspelt member of an object that may have any others.

    Raises:
        RequestError: with the path of the first of them.
    """
    known = tuple(known)
    missing = [name for name in known if name not in value]
    for name in value:
        if name not in known and misspelt(name, missing) is not None:
            handle_unknown(name, missing, path=path)


def handle_unknown(name: str, known: Iterable[str], hint: str = "", *, path: str = "") -> None:
    """Refuse a member that is not known, leave it out with a warning, or ignore it.

    The request's record has the rule; without a record the member is refused.

    Raises:
        RequestError: see `unknown`.
    """
    request = current_record()
    rule = UnknownMembers.REFUSE if request is None else request.unknown_members
    if rule is UnknownMembers.IGNORE:
        return
    # To find near names takes time, and a body may have 100,000 members.
    if (
        rule is UnknownMembers.WARN
        and request is not None
        and len(request.warnings) >= MOST_WARNINGS
    ):
        return
    if request is not None and request.has_warned_of(_unknown_text(name, path)):
        return
    known = tuple(known)
    error = unknown(name, known, hint, path=path)
    if misspelt(name, known) is not None:
        raise error
    leave_out(error)


def leave_out(error: RequestError) -> None:
    """Leave out a part of a request that the rest can be answered without.

    The header `Warning` and the log name it, unless the request's record has another rule: then
    ``error`` is raised, or nothing is said. Its text names the part and says why it is left out.

    Raises:
        RequestError: ``error``; there is no record, or its rule is `UnknownMembers.REFUSE`.
    """
    request = current_record()
    if request is None or request.unknown_members is UnknownMembers.REFUSE:
        raise error
    text = str(error)
    if (
        request.unknown_members is UnknownMembers.WARN
        and len(request.warnings) < MOST_WARNINGS
        and text not in request.warnings
    ):
        request.warnings += (text,)


def leave_out_type(
    kind: str, known: Iterable[str], path: str, why: str, *, noun: str = "type"
) -> None:
    """Leave out an object whose ``type`` is not known, as `leave_out` says.

    Args:
        known: the types that are; one of these that is misspelt is refused.
        path: of the object.
        why: completes "the string "weather" ...".
        noun: for what it is that ``kind`` is none of.

    Raises:
        RequestError: the type is a misspelt one, or see `leave_out`.
    """
    leave_out_value(kind, known, f"{path}.type", why, noun=noun)


def leave_out_value(
    value: str, known: Iterable[str], path: str, why: str, *, noun: str = "value"
) -> None:
    """Leave out what a value that is not known asks for, as `leave_out_type` does.

    A value with a word more or less than a known one, such as "web_search_result" beside
    "search_result", is another one and not misspelt: new types are named so.

    ``path``: of the value.

    Raises:
        RequestError: the value is a misspelt one, or see `leave_out`.
    """
    shown = fields.describe(value)
    words = set(value.split("_"))
    near = [each for each in known if not (words < (of := set(each.split("_"))) or words > of)]
    if (meant := misspelt(value, near)) is not None:
        text = f'{shown} is no {noun}. Did you mean "{meant}"?'
        raise fields.invalid(path, text)
    leave_out(fields.invalid(path, f"{shown} {why}"))


def misspelt(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, or None: the name is another one.

    A slip is another case or separator (``maxTokens``), a letter too many or too few, two letters
    exchanged, or, in a longer word, anything that leaves it as similar as `_ALIKE`. Another letter
    in a short word is none: ``top_a`` and ``top_p`` are different things.
    """
    if len(name) > _SHOWN:
        return None
    plain = _plain(name)
    by_plain = {_plain(each): each for each in known}
    if plain in by_plain:
        return by_plain[plain]
    slips = [each for each in by_plain if _one_slip(plain, each)]
    near = slips or get_close_matches(plain, by_plain, n=1, cutoff=_ALIKE)
    return by_plain[near[0]] if near else None


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _one_slip(name: str, known: str) -> bool:
    """Return True if a letter is too many, missing, or exchanged with its neighbour."""
    if min(len(name), len(known)) < _SHORTEST:
        return False
    if len(name) == len(known):
        return sorted(name) == sorted(known) and any(
            name[:i] + name[i + 1] + name[i] + name[i + 2 :] == known for i in range(len(name) - 1)
        )
    longer, shorter = (name, known) if len(name) > len(known) else (known, name)
    return len(longer) == len(shorter) + 1 and any(
        longer[:i] + longer[i + 1 :] == shorter for i in range(len(longer))
    )


def unknown(name: str, known: Iterable[str], hint: str = "", *, path: str = "") -> RequestError:
    """Return the error of a member that is not known, with the known names that are nearest."""
    short = name[:_SHOWN]
    about = f"; {hint}" if hint else ""
    near = did_you_mean(short, known)
    return RequestError(
        f"{_unknown_text(name, path)}{about}{'.' if near else ''}{near}",
        param=f"{path}.{short}" if path else short,
        reason=UNKNOWN,
        detail="unknown member",
    )


def _unknown_text(name: str, path: str) -> str:
    short = name[:_SHOWN]
    return f'Unknown member "{path}.{short}"' if path else f'Unknown member "{short}"'


#: Members that every endpoint has, also one that does not generate.
EVERYWHERE: Final[Members] = table(
    honoured(
        "model",
        STRING,
        "The name of a model or graph that is served.",
        is_required=True,
        minLength=1,
    ),
    honoured("timeout", Value()),  # the front reads it, and knows the schema
)

#: The model of endpoints that answer without a name too.
DEFAULT_MODEL: Final = honoured(
    "model", STRING, "The name of the model; by default the only one that answers.", minLength=1
)

#: Members of requests for embeddings and the like that change nothing in the answer.
ABOUT_THE_CLIENT: Final[Members] = table(
    ignored(
        "says who asks, or what is kept or counted elsewhere",
        "user metadata safety_identifier priority request_id",
    ),
)


def read_model(body: Mapping[str, Any]) -> str:
    """Return the name of the model in a checked body.

    Raises:
        RequestError: it is missing or empty.
    """
    model: str = body.get("model", "")
    if not model:
        raise fields.missing("model", "the name of the model that is to answer")
    return model
