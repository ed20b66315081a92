"""The start of texts that follow a form: may it be white space?"""

from __future__ import annotations

from typing import Final, NamedTuple

from calculators.llm.grammars.regular_expression import (
    Both,
    Boundary,
    CharClass,
    Choice,
    Node,
    Repeat,
)
from calculators.llm.grammars.regular_expression import Sequence as Items

#: Letters that models write between their reasoning and an answer.
_SPACES: Final = tuple(map(ord, "\t\n\r "))


class Start(NamedTuple):
    """The start of the texts of a form.

    Attributes:
        is_spaced: it may be white space, which belongs to the form.
        may_be_empty: a text may be empty, so it begins with what follows.
    """

    is_spaced: bool
    may_be_empty: bool

    def before(self, rest: Start) -> Start:
        """Return the start of this form with another one behind it."""
        if not self.may_be_empty:
            return self
        return Start(self.is_spaced or rest.is_spaced, rest.may_be_empty)


#: That of no text at all.
EMPTY_START: Final = Start(is_spaced=False, may_be_empty=True)
#: That of any text: it stays any text without its white space.
ANY_START: Final = Start(is_spaced=False, may_be_empty=True)
#: That of a JSON value.
VALUE_START: Final = Start(is_spaced=False, may_be_empty=False)


def start_of_text(text: str) -> Start:
    """Return the start of a text."""
    return Start(is_spaced=text[:1].isspace(), may_be_empty=not text)


def start_of(node: Node) -> Start:
    """Return the start of texts that match an expression.

    Raises:
        RecursionError: it is nested too deeply.
    """
    return _start(node, {})


def _start(node: Node, known: dict[int, Start]) -> Start:
    found = known.get(id(node))  # the parts of a grammar share their rules
    if found is not None:
        return found
    match node:
        case CharClass(ranges):
            spaced = any(low <= each <= high for low, high in ranges for each in _SPACES)
            found = Start(spaced, may_be_empty=False)
        case Items(items):
            found = EMPTY_START
            for item in reversed(items):
                found = _start(item, known).before(found)
        case Choice(items):
            starts = [_start(item, known) for item in items]
            found = Start(
                is_spaced=any(each.is_spaced for each in starts),
                may_be_empty=any(each.may_be_empty for each in starts),
            )
        case Boundary():
            found = EMPTY_START
        case Both(one, other):
            first, second = _start(one, known), _start(other, known)
            found = Start(
                first.is_spaced and second.is_spaced, first.may_be_empty and second.may_be_empty
            )
        case Repeat(item, low, high):
            found = EMPTY_START if high == 0 else _start(item, known)
            found = Start(found.is_spaced, found.may_be_empty or low == 0)
        case _:
            found = Start(is_spaced=True, may_be_empty=True)
    known[id(node)] = found
    return found
