"""Parser of regular expressions in the formal sense.

These are the expressions that ECMA 262 and Python share, without assertions, back references and
Unicode classes: an automaton can follow their texts letter by letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

LAST: Final = 0x10FFFF
#: The largest count in braces, and the depth of groups.
MAX_COUNT: Final = 512
MAX_DEPTH: Final = 50

Ranges = tuple[tuple[int, int], ...]


class RegexError(ValueError):
    """The pattern is no regular expression, or has parts that are not supported."""


@dataclass(frozen=True, slots=True)
class CharClass:
    """One letter of some ranges of code points: ends included, ascending, not adjacent."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Sequence:
    """The items one after the other; no items are the empty text."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the items; no items match nothing."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The item ``low`` to ``high`` times; None is without end."""

    item: Node
    low: int
    high: int | None


Node = CharClass | Sequence | Choice | Repeat

EMPTY: Final = Sequence(())


def ranges_of(pairs: Iterable[tuple[int, int]]) -> Ranges:
    """Sort ranges, and join those that touch or overlap."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(pairs):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def all_but(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Return the code points that are in none of the ranges."""
    left: list[tuple[int, int]] = []
    start = 0
    for low, high in ranges_of(ranges):
        if low > start:
            left.append((start, low - 1))
        start = high + 1
    if start <= LAST:
        left.append((start, LAST))
    return tuple(left)


def text_node(text: str) -> Node:
    """Return the expression of exactly this text."""
    return Sequence(tuple(CharClass(((ord(letter), ord(letter)),)) for letter in text))


def parse_regex(pattern: str) -> Node:
    """Parse a pattern; return the expression of the texts that match it as a whole.

    An anchor at one end only leaves the other end open. A pattern without anchors means the whole
    text, as its authors usually do.

    Raises:
        RegexError: it cannot be read, or exceeds `MAX_COUNT` or `MAX_DEPTH`.
    """
    return _Reader(pattern).whole()


_ANY_TEXT: Final = Repeat(CharClass(((0, LAST),)), 0, None)
_LINE_ENDS: Final = ((0x0A, 0x0A), (0x0D, 0x0D))
_CLASSES: Final[dict[str, Ranges]] = {
    "d": ((0x30, 0x39),),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "s": ((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0)),
}
_CONTROLS: Final = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D, "0": 0x00}
_HEX: Final = {
    "x": re.compile(r"x([0-9A-Fa-f]{2})"),
    "u": re.compile(r"u(?:([0-9A-Fa-f]{4})|\{([0-9A-Fa-f]{1,6})\})"),
    "U": re.compile(r"U([0-9A-Fa-f]{8})"),
}
_COUNT: Final = re.compile(r"\{(\d+)(,?)(\d*)\}")
_NAMED_GROUP: Final = re.compile(r"\?P?<[A-Za-z_]\w*>")
_NOT_THERE: Final = {
    "b": "word boundaries are",
    "B": "word boundaries are",
    "A": "\\A is",
    "Z": "\\Z is",
    "z": "\\z is",
    "p": "Unicode classes are",
    "P": "Unicode classes are",
    "k": "back references are",
    "K": "\\K is",
    "G": "\\G is",
    "R": "\\R is",
    "X": "\\X is",
}


class _Reader:
    """Parser of one pattern. ``_at`` is the position of the next letter."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._depth = 0
        #: True once a ``$`` has been read that ends everything which follows on this path.
        self._ended = False

    def whole(self) -> Node:
        branches: list[Node] = []
        while True:
            begins = self._peek("^")
            self._ended = False
            node = self._sequence()
            if begins and not self._ended:
                node = Sequence((node, _ANY_TEXT))
            elif self._ended and not begins:
                node = Sequence((_ANY_TEXT, node))
            branches.append(node)
            if not self._take("|"):
                break
        if self._at < len(self._text):
            raise self._error("an unopened parenthesis")
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _choice(self) -> Node:
        branches: list[Node] = []
        ended = False
        while True:
            self._ended = False
            branches.append(self._sequence())
            ended = ended or self._ended
            if not self._take("|"):
                break
        self._ended = ended
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def _sequence(self) -> Node:
        items: list[Node] = []
        while self._at < len(self._text) and not self._peek("|") and not self._peek(")"):
            start = self._at
            if self._take("^"):
                if items or self._depth:
                    raise self._error("an anchor in the middle", start)
                continue
            if self._take("$"):
                if self._depth:
                    raise self._error("an anchor in a group", start)
                self._ended = True
                continue
            if self._ended:
                raise self._error("an anchor in the middle", start - 1)
            items.append(self._repeated(self._atom()))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _repeated(self, node: Node) -> Node:
        start = self._at
        if self._take("*"):
            node = Repeat(node, 0, None)
        elif self._take("+"):
            node = Repeat(node, 1, None)
        elif self._take("?"):
            node = Repeat(node, 0, 1)
        elif self._peek("{"):
            node = self._counted(node)
        else:
            return node
        self._take("?")  # which of several ways it matches does not matter
        if self._at < len(self._text) and self._text[self._at] in "*+?{":
            raise self._error("a repetition of a repetition", start)
        return node

    def _counted(self, node: Node) -> Node:
        found = _COUNT.match(self._text, self._at)
        if found is None:
            raise self._error("a brace that repeats nothing")
        if max(len(found[1]), len(found[3])) > 6:
            raise self._error(f"a count above {MAX_COUNT}")
        low = int(found[1])
        high = (int(found[3]) if found[3] else None) if found[2] else low
        if not found[2] and found[3]:
            raise self._error("a brace that repeats nothing")
        if high is not None and high < low:
            raise self._error("a range of counts that is backwards")
        if max(low, high or 0) > MAX_COUNT:
            raise self._error(f"a count above {MAX_COUNT}")
        self._at = found.end()
        return Repeat(node, low, high)

    def _atom(self) -> Node:
        start = self._at
        letter = self._text[self._at]
        self._at += 1
        match letter:
            case "(":
                return self._group(start)
            case "[":
                return CharClass(self._class(start))
            case ".":
                return CharClass(all_but(_LINE_ENDS))
            case "\\":
                return CharClass(self._escape(start))
            case "*" | "+" | "?":
                raise self._error("nothing to repeat", start)
            case "{" | "}":
                raise self._error("a brace that repeats nothing", start)
            case _:
                return CharClass(((ord(letter), ord(letter)),))

    def _group(self, start: int) -> Node:
        if self._peek("?"):
            found = _NAMED_GROUP.match(self._text, self._at)
            if found is not None:
                self._at = found.end()
            elif self._text.startswith("?:", self._at):
                self._at += 2
            else:
                raise self._error("assertions and flags are not supported", start)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"groups nested deeper than {MAX_DEPTH}", start)
        node = self._choice()
        self._depth -= 1
        if not self._take(")"):
            raise self._error("a parenthesis that is not closed", start)
        return node

    def _class(self, start: int) -> Ranges:
        negated = self._take("^")
        pairs: list[tuple[int, int]] = []
        if self._take("]"):
            # As in Python; in ECMA 262 such a class matches nothing.
            pairs.append((ord("]"), ord("]")))
        while not self._take("]"):
            here = self._at
            low = self._class_item(start)
            if self._peek("-") and not self._text.startswith("-]", self._at):
                self._at += 1
                high = self._class_item(start)
                if not (_is_one(low) and _is_one(high)):
                    raise self._error("a range without two ends", here)
                if low[0][0] > high[0][0]:
                    raise self._error("a range that is backwards", here)
                pairs.append((low[0][0], high[0][0]))
            else:
                pairs += low
        ranges = all_but(pairs) if negated else ranges_of(pairs)
        if not ranges:
            raise self._error("a class of no letters", start)
        return ranges

    def _class_item(self, start: int) -> Ranges:
        if self._at >= len(self._text):
            raise self._error("a class that is not closed", start)
        here = self._at
        letter = self._text[here]
        self._at += 1
        if letter == "\\":
            if self._take("b"):
                return ((0x08, 0x08),)
            return self._escape(here)
        return ((ord(letter), ord(letter)),)

    def _escape(self, start: int) -> Ranges:
        letter = self._text[self._at : self._at + 1]
        if not letter:
            raise self._error("a backslash at the end", start)
        if letter in _HEX:
            found = _HEX[letter].match(self._text, self._at)
            value = int("".join(filter(None, found.groups())), 16) if found else LAST + 1
            if found is None or value > LAST or 0xD800 <= value <= 0xDFFF:
                raise self._error("no code point", start)
            self._at = found.end()
            return ((value, value),)
        self._at += 1
        if letter in _CLASSES:
            return _CLASSES[letter]
        if letter.lower() in _CLASSES:
            return all_but(_CLASSES[letter.lower()])
        if letter == "0" and self._text[self._at : self._at + 1].isdigit():
            raise self._error("octal numbers are not supported", start)
        if letter in _CONTROLS:
            return ((_CONTROLS[letter],) * 2,)
        if letter in _NOT_THERE or letter in "123456789":
            what = _NOT_THERE.get(letter, "back references are")
            raise self._error(f"{what} not supported", start)
        if letter.isalnum():
            raise self._error(f"an unknown escape \\{letter}", start)
        return ((ord(letter), ord(letter)),)

    def _peek(self, letter: str) -> bool:
        return self._text.startswith(letter, self._at)

    def _take(self, letter: str) -> bool:
        if not self._peek(letter):
            return False
        self._at += 1
        return True

    def _error(self, what: str, at: int | None = None) -> RegexError:
        place = self._at if at is None else at
        return RegexError(f"{what} at character {place + 1}")


def _is_one(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]
