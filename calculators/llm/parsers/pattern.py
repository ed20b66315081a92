"""Patterns of declarations taken apart: fields and the literals between them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from calculators.llm.parsers.families import FIELD, AnswerFamily, CallSyntax

#: Line ends, which are optional in a text, and the places between two marks, where blanks may be.
_GAP: Final = re.compile(r"\s*\n\s*|(?<=[>})])(?=<)")

#: Marks of such shapes are tokens of a vocabulary: no text has them by chance.
TOKEN: Final = re.compile(r"<[|｜].*|\[/?[A-Z_ ]+\]|\[e~\[|\]<\].*|<SPECIAL_\d+>|</?s>|<[\w|]+\|>")
#: What tells a mark from a word.
MARK: Final = re.compile(r"[^\w\s.,:;'\"(){}!?-]")


class PatternPart(NamedTuple):
    """A field of a pattern, or a literal, whose ``field`` is "".

    Attributes:
        atoms: the parts of a literal between which a text may have white space.
    """

    field: str
    literal: str = ""
    atoms: tuple[str, ...] = ()


def literal_part(literal: str) -> PatternPart:
    """Return the part of a literal."""
    return PatternPart("", literal, atoms(literal))


@lru_cache(maxsize=1024)
def atoms(literal: str) -> tuple[str, ...]:
    """Return the parts of a literal between which a text may have white space."""
    return tuple(filter(None, _GAP.split(literal.strip())))


@lru_cache(maxsize=256)
def segments(pattern: str) -> tuple[PatternPart, ...]:
    """Return the fields of a pattern and the literals around them, in order."""
    found: list[PatternPart] = []
    place = 0
    for field in FIELD.finditer(pattern):
        if field.start() > place:
            found.append(literal_part(pattern[place : field.start()]))
        found.append(PatternPart(field[1]))
        place = field.end()
    if place < len(pattern):
        found.append(literal_part(pattern[place:]))
    return tuple(found)


def head(pattern: str, *, may_be_word: bool = False) -> str:
    """Return the mark with which a call begins; "" where it begins with a field or a word.

    ``may_be_word``: a word with a colon is a mark, too.
    """
    first = segments(pattern)[0]
    text = first.atoms[0] if first.literal.strip() else ""
    return text if MARK.search(text) or (may_be_word and text.endswith(":")) else ""


def sections(calls: CallSyntax) -> Iterator[tuple[str, str]]:
    """Yield the spellings of the texts around calls."""
    if any(calls.section):
        yield calls.section
    yield from calls.section_accepts


def marks(calls: CallSyntax) -> frozenset[str]:
    """Return all literals of a form that a text has as marks, white space aside."""
    found = {text for pair in sections(calls) for text in pair}
    for pattern in (calls.call, *calls.accepts, calls.argument, *calls.argument_accepts):
        found.update(each.literal for each in segments(pattern))
    return frozenset(atom for text in (*found, calls.quote) for atom in atoms(text))


def described(family: AnswerFamily) -> str:
    """Return the forms of a declaration as one line."""
    parts = []
    if (calls := family.calls) is not None:
        parts.append(f"calls {calls.call!r}")
        if calls.argument:
            parts.append(f"arguments {calls.argument!r}")
        if calls.is_list:
            parts.append("in a list")
        if any(calls.section):
            parts.append(f"between {calls.section[0]!r} and {calls.section[1]!r}")
        if calls.quote:
            parts.append(f"texts between {calls.quote!r}")
        if calls.only_one:
            parts.append("one a turn")
    if (marks := family.reasoning) is not None:
        parts.append(f"reasoning between {marks.begin[0]!r} and {marks.end[0]!r}")
    return ", ".join(parts)
