r"""Parser of regular expressions that an automaton can follow letter by letter.

These are the expressions that ECMA 262 and Python share, without back references. Assertions about
the text before and after a place (``(?=...)``, ``(?<!...)``) become intersections of languages,
so they are read where nothing around them is repeated.

Classes by a property (``\p{L}``, ``\p{Lu}``, ``\p{Script=Greek}``): categories are Python's
Unicode's; a script has the letters whose names begin with the script's.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Final, Literal

from calculators.llm.grammars.grammar import FIRST

#: The last letter of texts: letters after it stand for special tokens.
LAST: Final = FIRST - 1
#: The largest count in braces, and the depth of groups.
MAX_COUNT: Final = 1_000_000
MAX_DEPTH: Final = 50
Ranges = tuple[tuple[int, int], ...]


class RegexError(ValueError):
    """The pattern is not a regular expression."""


class UnsupportedRegex(RegexError):
    """The pattern has parts that no automaton here can follow."""


@dataclass(frozen=True, slots=True)
class CharClass:
    """One letter of some ranges of code points: ends included, ascending, not adjacent."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Concatenation:
    """The items one after the other; no items are the empty text."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Alternation:
    """One of the items; no items match nothing."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """The item ``low`` to ``high`` times; None is without end."""

    item: Node
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Boundary:
    """No letter, at a place: the text's start ``^`` or end ``$``, a word's edge ``b``, or none.

    Attributes:
        is_loose: beside letters of which ECMA 262 and Python do not agree that they are parts of
            words, there may be an edge, and none.
    """

    kind: Literal["^", "$", "b", "B"]
    is_loose: bool = False


@dataclass(frozen=True, slots=True)
class Both:
    """A text that matches both items."""

    one: Node
    other: Node


@dataclass(frozen=True, slots=True)
class Not:
    """A text that does not match the item."""

    item: Node


@dataclass(frozen=True, slots=True)
class _Lookaround:
    """An assertion about the text after a place, or before it; none is left when all is read."""

    item: Node
    is_behind: bool
    is_negative: bool


Node = CharClass | Concatenation | Alternation | Repeat | Boundary | Both | Not | _Lookaround
EMPTY: Final = Concatenation(())


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
    return Concatenation(tuple(CharClass(((ord(letter), ord(letter)),)) for letter in text))


def parse_regex(pattern: str) -> Node:
    """Parse a pattern; return the expression of the texts that match it as a whole.

    An anchor at one end only leaves the other end open.

    Raises:
        RegexError: it cannot be read, or exceeds `MAX_COUNT` or `MAX_DEPTH`.
    """
    return _RegexReader(pattern).whole(contains=False)


def parse_search(pattern: str) -> Node:
    """Parse a pattern; return the expression of the texts in which a part matches it.

    Raises:
        RegexError: as `parse_regex`.
    """
    return _RegexReader(pattern).whole(contains=True)


def parse_refused(pattern: str) -> Node:
    """Parse a pattern; return the expression of the texts in which a part may match it.

    ECMA 262 and Python differ in the letters of classes, and in Python ``$`` is before a last line
    end, too. A text that is none of these matches in neither.

    Raises:
        RegexError: as `parse_regex`.
    """
    node = _RegexReader(pattern, _LINE_END, is_loose=True).whole(contains=True)
    return Concatenation((node, Repeat(CharClass(_LINE_END), 0, 1)))


def parse_token(pattern: str, *, dot_is_any: bool = False) -> Node:
    """Parse a pattern; return the expression of exactly the texts that it matches, as in Python.

    Args:
        dot_is_any: a dot stands for line ends, too.

    Raises:
        RegexError: as `parse_regex`.
    """
    return _RegexReader(pattern, dot=() if dot_is_any else _LINE_END).token()


#: Long names of categories, as ECMA 262 has them.
_NAMES: Final = {
    "Letter": "L", "Lowercase_Letter": "Ll", "Uppercase_Letter": "Lu", "Titlecase_Letter": "Lt",
    "Modifier_Letter": "Lm", "Other_Letter": "Lo", "Mark": "M", "Nonspacing_Mark": "Mn",
    "Spacing_Mark": "Mc", "Enclosing_Mark": "Me", "Number": "N", "Decimal_Number": "Nd",
    "Letter_Number": "Nl", "Other_Number": "No", "Punctuation": "P", "punct": "P",
    "Connector_Punctuation": "Pc", "Dash_Punctuation": "Pd", "Open_Punctuation": "Ps",
    "Close_Punctuation": "Pe", "Initial_Punctuation": "Pi", "Final_Punctuation": "Pf",
    "Other_Punctuation": "Po", "Symbol": "S", "Math_Symbol": "Sm", "Currency_Symbol": "Sc",
    "Modifier_Symbol": "Sk", "Other_Symbol": "So", "Separator": "Z", "Space_Separator": "Zs",
    "Line_Separator": "Zl", "Paragraph_Separator": "Zp", "Control": "Cc", "Format": "Cf",
    "Alphabetic": "L", "Alpha": "L", "Lowercase": "Ll", "Uppercase": "Lu",
}  # fmt: skip
#: The prefixes of the names of a script's letters.
_SCRIPTS: Final = {
    "Latin": "LATIN ", "Latn": "LATIN ", "Greek": "GREEK ", "Grek": "GREEK ",
    "Cyrillic": "CYRILLIC ", "Cyrl": "CYRILLIC ", "Han": "CJK UNIFIED IDEOGRAPH",
    "Hani": "CJK UNIFIED IDEOGRAPH", "Hiragana": "HIRAGANA ", "Katakana": "KATAKANA ",
    "Hangul": "HANGUL ", "Arabic": "ARABIC LETTER ", "Hebrew": "HEBREW LETTER ",
    "Thai": "THAI ", "Devanagari": "DEVANAGARI ",
}  # fmt: skip
_FIXED: Final[dict[str, Ranges]] = {
    "Any": ((0, 0x10FFFF),),
    "ASCII": ((0, 0x7F),),
}
#: Beyond these there are no letters with names or categories of their own.
_ASSIGNED: Final = tuple(chain(range(0x33480), range(0xE0000, 0xE0200)))


@cache
def unicode_class(name: str) -> Ranges | None:
    """Return the letters with a property; None where the property is not known."""
    kind, _, value = name.rpartition("=")
    if kind in ("Script", "sc", "Script_Extensions", "scx") or (not kind and value in _SCRIPTS):
        prefix = _SCRIPTS.get(value)
        return None if prefix is None else _named(prefix)
    if kind not in ("", "General_Category", "gc"):
        return None
    if value in _FIXED:
        return _FIXED[value]
    category = _NAMES.get(value, value)
    return _by_category().get(category)


@cache
def _by_category() -> dict[str, Ranges]:
    """Return the ranges of each category that has letters, by its short name."""
    found: dict[str, list[tuple[int, int]]] = {}
    for code in _ASSIGNED:
        category = unicodedata.category(chr(code))
        if category == "Cn" or category == "Cs":
            continue
        for name in (category, category[0]):
            ranges = found.setdefault(name, [])
            if ranges and ranges[-1][1] == code - 1:
                ranges[-1] = (ranges[-1][0], code)
            else:
                ranges.append((code, code))
    found["LC"] = sorted(chain(found["Lu"], found["Ll"], found["Lt"]))
    return {name: tuple(ranges) for name, ranges in found.items()}


def _named(prefix: str) -> Ranges:
    codes = (code for low, high in _by_category()["L"] for code in range(low, high + 1))
    return tuple(
        (code, code) for code in codes if unicodedata.name(chr(code), "").startswith(prefix)
    )


ANY_TEXT: Final = Repeat(CharClass(((0, LAST),)), 0, None)
_LINE_END: Final = ((0x0A, 0x0A),)
_LINE_ENDS: Final = ((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
_CLASSES: Final[dict[str, Ranges]] = {
    "d": ((0x30, 0x39),),
    "w": ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)),
    "s": ((0x09, 0x0D), (0x20, 0x20), (0xA0, 0xA0)),
}
_SPACES: Final = (
    (0x09, 0x0D), (0x1C, 0x20), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A),
    (0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)  # fmt: skip


#: Scripts beyond the first plane, of which each version of Unicode has new ones with digits.
_RARE_SCRIPTS: Final = (0x10000, 0x1EFFF)


@cache
def _loose_class(letter: str) -> Ranges:
    """Return a class of `_CLASSES` with all letters that it has in ECMA 262 or in Python."""
    if letter == "s":
        return _SPACES
    if letter == "w":
        return ranges_of((*_CLASSES["w"], (0x80, LAST)))
    # Not at import: all categories of Unicode are gone through for it, which takes 0.1 s.
    digits = ((low, min(high, LAST)) for low, high in unicode_class("Nd") or () if low <= LAST)
    return ranges_of((*_CLASSES["d"], *digits, _RARE_SCRIPTS))


_CONTROLS: Final = {"t": 0x09, "n": 0x0A, "v": 0x0B, "f": 0x0C, "r": 0x0D, "0": 0x00}
_CONTROL_LETTER: Final = re.compile(r"[A-Za-z]")
_HEX: Final = {
    "x": re.compile(r"x([0-9A-Fa-f]{2})"),
    "u": re.compile(r"u(?:([0-9A-Fa-f]{4})|\{([0-9A-Fa-f]{1,6})\})"),
    "U": re.compile(r"U([0-9A-Fa-f]{8})"),
}
_COUNT: Final = re.compile(r"\{(\d+)(,?)(\d*)\}")
_NAMED_GROUP: Final = re.compile(r"\?P?<[A-Za-z_]\w*>")
_PROPERTY: Final = re.compile(r"[pP](?:\{([\w=]{1,64})\}|([A-Z]))")
#: Where an escape is a place, not a letter.
_BOUNDARIES: Final[dict[str, Literal["^", "$", "b", "B"]]] = {
    "b": "b", "B": "B", "A": "^", "Z": "$", "z": "$",
}  # fmt: skip
_NOT_THERE: Final = {
    "k": "back references are",
    "K": "\\K is",
    "G": "\\G is",
    "R": "\\R is",
    "X": "\\X is",
}
_LOOK: Final = re.compile(r"\(\?<?[=!]")


class _RegexReader:
    """Parser of one pattern. ``_at`` is the position of the next letter."""

    def __init__(self, pattern: str, dot: Ranges = _LINE_ENDS, *, is_loose: bool = False) -> None:
        """Make a parser.

        Args:
            dot: the letters that a dot does not stand for.
            is_loose: read classes as the language that has the most letters in them; else as the
                one that has the fewest.
        """
        self._text = pattern
        self._dot = dot
        self._is_loose = is_loose
        self._at = 0
        self._depth = 0
        #: True once a ``$`` has been read that ends everything which follows on this path.
        self._ended = False

    def whole(self, *, contains: bool) -> Node:
        branches: list[Node] = []
        while True:
            begins = self._peek("^")
            self._ended = False
            items = self._items()
            is_open = contains or begins or self._ended
            if is_open and not begins:
                items = [ANY_TEXT, *items]
            if is_open and not self._ended:
                items = [*items, ANY_TEXT]
            branches.append(self._joined(items))
            if not self._take("|"):
                break
        if self._at < len(self._text):
            raise self._error("an unopened parenthesis")
        return branches[0] if len(branches) == 1 else Alternation(tuple(branches))

    def token(self) -> Node:
        """Parse the whole pattern as if it were a group."""
        self._depth = 1
        node = self._choice()
        if self._at < len(self._text):
            raise self._error("an unopened parenthesis")
        return self._before(node, EMPTY, is_start=True)

    def _joined(self, items: list[Node]) -> Node:
        """Return the sequence of items, of which some look at what is before or after them."""
        for number, item in enumerate(items):
            if isinstance(item, _Lookaround) and item.is_behind:
                looked: Node = Concatenation((ANY_TEXT, item.item))
                seen = Not(looked) if item.is_negative else looked
                before = self._joined(items[:number])
                return Concatenation((Both(seen, before), self._joined(items[number + 1 :])))
        return self._before(_sequence(items), EMPTY, is_start=True)

    def _before(self, node: Node, rest: Node, *, is_start: bool) -> Node:
        """Return an expression with what follows it, which its assertions look at.

        ``is_start``: the expression is at the start of the text.
        """
        if not _looks(node):
            return node if rest == EMPTY else Concatenation((node, rest))
        match node:
            case _Lookaround(item, _, is_negative):
                if not is_start and _has_boundary(item, rest):
                    raise self._error(
                        "a boundary after an assertion is not supported", unsupported=True
                    )
                looked = self._before(item, ANY_TEXT, is_start=is_start)
                return Both(Not(looked) if is_negative else looked, rest)
            case Concatenation(items):
                for number in range(len(items) - 1, -1, -1):
                    is_first = is_start and all(
                        isinstance(each, _Lookaround) for each in items[:number]
                    )
                    rest = self._before(items[number], rest, is_start=is_first)
                return rest
            case Alternation(items):
                return Alternation(
                    tuple(self._before(item, rest, is_start=is_start) for item in items)
                )
            case Repeat(item, 0, 1):
                return Alternation((self._before(item, rest, is_start=is_start), rest))
            case _:
                raise self._error("a repeated assertion is not supported", unsupported=True)

    def _choice(self) -> Node:
        branches: list[Node] = []
        while True:
            branches.append(_sequence(self._items()))
            if not self._take("|"):
                break
        return branches[0] if len(branches) == 1 else Alternation(tuple(branches))

    def _items(self) -> list[Node]:
        items: list[Node] = []
        while self._at < len(self._text) and not self._peek("|") and not self._peek(")"):
            start = self._at
            if self._take("^"):
                if items or self._depth:
                    items.append(Boundary("^"))
            elif self._take("$"):
                if not self._depth and (self._at == len(self._text) or self._peek("|")):
                    self._ended = True
                else:
                    if self._is_loose:
                        items.append(Repeat(CharClass(_LINE_END), 0, 1))  # see parse_refused
                    items.append(Boundary("$"))
            elif (look := self._look(start)) is not None:
                if any(isinstance(item, _Lookaround) and not item.is_behind for item in items) and (
                    look.is_behind
                ):
                    raise self._error(
                        "an assertion about the text before another one", start, unsupported=True
                    )
                items.append(look)
            else:
                items.append(self._repeated(self._atom()))
        return items

    def _look(self, start: int) -> _Lookaround | None:
        found = _LOOK.match(self._text, self._at)
        if found is None:
            return None
        if self._depth and "<" in found[0]:
            raise self._error(
                "assertions about the text before them are not supported in a group",
                start,
                unsupported=True,
            )
        self._at = found.end()
        ended = self._ended
        self._depth += 1
        is_negative = "!" in found[0]
        outside = (self._is_loose, self._dot)
        if is_negative:
            # What it allows is taken away, so its classes must err to the other side.
            self._is_loose = not self._is_loose
            self._dot = _LINE_END if self._is_loose else _LINE_ENDS
        node = self._choice()
        self._is_loose, self._dot = outside
        self._depth -= 1
        self._ended = ended
        if not self._take(")"):
            raise self._error("a parenthesis that is not closed", start)
        if self._at < len(self._text) and self._text[self._at] in "*+?{":
            raise self._error("a repeated assertion is not supported", start, unsupported=True)
        is_behind = "<" in found[0]
        if is_behind and _has_boundary(node):
            raise self._error(
                "a boundary in an assertion is not supported", start, unsupported=True
            )
        return _Lookaround(node, is_behind, is_negative)

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
        if max(len(found[1]), len(found[3])) > 7:
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
                return CharClass(all_but(self._dot))
            case "\\":
                place = _BOUNDARIES.get(self._text[self._at : self._at + 1])
                if place is not None:
                    self._at += 1
                    return Boundary(place, self._is_loose)
                return CharClass(self._escape(start))
            case "*" | "+" | "?":
                raise self._error("nothing to repeat", start)
            case "{" | "}":
                raise self._error("a brace that repeats nothing", start)
            case _:
                return CharClass(self._letter(letter, start))

    def _letter(self, letter: str, start: int) -> Ranges:
        code = ord(letter)
        if code > LAST or 0xD800 <= code <= 0xDFFF:
            raise self._error("a letter that no answer has", start)
        return ((code, code),)

    def _group(self, start: int) -> Node:
        if self._peek("?"):
            found = _NAMED_GROUP.match(self._text, self._at)
            if found is not None:
                self._at = found.end()
            elif self._text.startswith("?:", self._at):
                self._at += 2
            else:
                raise self._error("flags are not supported", start, unsupported=True)
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
        self._is_loose ^= negated
        pairs: list[tuple[int, int]] = []
        if self._take("]"):
            # As in Python; in ECMA 262 such a class matches nothing.
            pairs.append((ord("]"), ord("]")))
        opposites: set[str] = set()
        while not self._take("]"):
            here = self._at
            if self._peek("\\"):
                opposites.add(self._text[here + 1 : here + 2])
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
        self._is_loose ^= negated
        if any({each, each.upper()} <= opposites for each in _CLASSES):
            pairs.append((0, LAST))  # though what is white space differs between languages
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
        return self._letter(letter, here)

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
        if letter in "pP":
            return self._property(start)
        self._at += 1
        if letter in _CLASSES:
            return _loose_class(letter) if self._is_loose else _CLASSES[letter]
        if letter.lower() in _CLASSES:
            letter = letter.lower()
            return all_but(_CLASSES[letter] if self._is_loose else _loose_class(letter))
        if letter == "0" and self._text[self._at : self._at + 1].isdigit():
            raise self._error("octal numbers are not supported", start)
        if letter in _CONTROLS:
            return ((_CONTROLS[letter],) * 2,)
        if letter in _NOT_THERE or letter in "123456789":
            what = _NOT_THERE.get(letter, "back references are")
            raise self._error(f"{what} not supported", start, unsupported=True)
        if letter == "c" and _CONTROL_LETTER.match(self._text, self._at):
            self._at += 1
            return ((ord(self._text[self._at - 1]) % 32,) * 2,)
        if letter.isalnum():
            raise self._error(f"an unknown escape \\{letter}", start)
        return self._letter(letter, start)

    def _property(self, start: int) -> Ranges:
        found = _PROPERTY.match(self._text, self._at)
        if found is None:
            raise self._error("no class of letters", start)
        ranges = unicode_class(found[1] or found[2])
        if ranges is None:
            raise self._error("a class of letters that is not known", start, unsupported=True)
        self._at = found.end()
        inside = ranges_of((low, min(high, LAST)) for low, high in ranges if low <= LAST)
        return all_but(inside) if found[0][0] == "P" else inside

    def _peek(self, letter: str) -> bool:
        return self._text.startswith(letter, self._at)

    def _take(self, letter: str) -> bool:
        if not self._peek(letter):
            return False
        self._at += 1
        return True

    def _error(self, what: str, at: int | None = None, *, unsupported: bool = False) -> RegexError:
        place = self._at if at is None else at
        kind = UnsupportedRegex if unsupported else RegexError
        return kind(f"{what} at character {place + 1}")


def _sequence(items: list[Node]) -> Node:
    return items[0] if len(items) == 1 else Concatenation(tuple(items))


def _looks(node: Node) -> bool:
    """Return True if there is an assertion in an expression."""
    match node:
        case _Lookaround():
            return True
        case Concatenation(items) | Alternation(items):
            return any(map(_looks, items))
        case Repeat(item):
            return _looks(item)
        case _:
            return False


def _has_boundary(*nodes: Node) -> bool:
    """Return True if the nodes ask for what is before them."""
    waiting = list(nodes)
    while waiting:
        match waiting.pop():
            case Boundary(kind, _) if kind != "$":
                return True
            case Concatenation(items) | Alternation(items):
                waiting += items
            case Repeat(item) | Not(item) | _Lookaround(item):
                waiting.append(item)
            case Both(one, other):
                waiting += (one, other)
            case _:
                pass
    return False


def _is_one(ranges: Ranges) -> bool:
    return len(ranges) == 1 and ranges[0][0] == ranges[0][1]
