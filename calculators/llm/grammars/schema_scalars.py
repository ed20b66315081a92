"""Rules of strings and numbers, from all schemas that look at them; and keywords that count.

String formats: JSON Schema 2020-12 validation, section 7.3, and the RFCs that it names. Where a
format has many spellings, local names and literal addresses are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from math import lcm
from typing import Any, Final

from calculators.llm.grammars import json_text, number_range
from calculators.llm.grammars.automaton import (
    ANYTHING,
    Automaton,
    NoTextError,
    TooComplex,
    complement,
    explored,
    intersection,
    make_automaton,
    smallest,
)
from calculators.llm.grammars.number_range import Bound, NumberRange
from calculators.llm.grammars.regular_expression import (
    ANY_TEXT,
    LAST,
    Alternation,
    Both,
    Boundary,
    CharClass,
    Concatenation,
    Node,
    Ranges,
    RegexError,
    Repeat,
    UnsupportedRegex,
    parse_refused,
    parse_regex,
    parse_search,
    text_node,
)
from calculators.llm.grammars.rules import Rules, counted_letters, literal
from calculators.llm.grammars.schema_document import (
    NOT_ENUM,
    NOT_INTEGER,
    NOT_MULTIPLE,
    NOT_PATTERN,
    Derived,
    NoValueError,
    SchemaError,
)
from calculators.llm.grammars.schema_parts import SchemaPart

_DATE: Final = r"\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])" + (
    r"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
)
_TIME: Final = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:0\d|1[0-3]):[0-5]\d)"
_OCTET: Final = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_LABEL: Final = r"[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*"
#: A label of a host name, of up to 31 letters, and how many more may follow: RFC 1123 allows labels
#: of 63 letters and names of 253.
LABEL: Final = r"[A-Za-z0-9](?:-?[A-Za-z0-9]){0,15}"
MORE_LABELS: Final = 6
_PATH: Final = r"(?:[A-Za-z0-9._~!$&'()*+,;=:@/-]|%[0-9A-Fa-f]{2})*"
PATTERNS: Final = {
    "date": _DATE,
    "time": _TIME,
    "date-time": f"{_DATE}T{_TIME}",
    "duration": (
        r"P(?:\d{1,9}W|(?:\d{1,9}Y(?:\d{1,9}M(?:\d{1,9}D)?)?|\d{1,9}M(?:\d{1,9}D)?|\d{1,9}D)"
        r"(?:T(?:\d{1,9}H(?:\d{1,9}M(?:\d{1,9}S)?)?|\d{1,9}M(?:\d{1,9}S)?|\d{1,9}S))?"
        r"|T(?:\d{1,9}H(?:\d{1,9}M(?:\d{1,9}S)?)?|\d{1,9}M(?:\d{1,9}S)?|\d{1,9}S))"
    ),
    "email": (
        r"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*\.[A-Za-z]{2,18}"
    ),
    "hostname": rf"{LABEL}(?:\.{LABEL}){{0,{MORE_LABELS}}}",
    "ipv4": rf"{_OCTET}(?:\.{_OCTET}){{3}}",
    "ipv6": (
        r"(?:[0-9A-Fa-f]{1,4}:){7}[0-9A-Fa-f]{1,4}|::(?:[0-9A-Fa-f]{1,4}:){0,5}[0-9A-Fa-f]{1,4}|::"
        r"|[0-9A-Fa-f]{1,4}::(?:[0-9A-Fa-f]{1,4}:){0,4}[0-9A-Fa-f]{1,4}"
        r"|(?:[0-9A-Fa-f]{1,4}:){1}[0-9A-Fa-f]{1,4}::(?:[0-9A-Fa-f]{1,4}:){0,3}[0-9A-Fa-f]{1,4}"
        r"|(?:[0-9A-Fa-f]{1,4}:){2}[0-9A-Fa-f]{1,4}::(?:[0-9A-Fa-f]{1,4}:){0,2}[0-9A-Fa-f]{1,4}"
        r"|(?:[0-9A-Fa-f]{1,4}:){3}[0-9A-Fa-f]{1,4}::(?:[0-9A-Fa-f]{1,4}:){0,1}[0-9A-Fa-f]{1,4}"
        r"|(?:[0-9A-Fa-f]{1,4}:){0,6}[0-9A-Fa-f]{1,4}::"
    ),
    "uuid": r"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}",
    "uri": (
        rf"[A-Za-z][A-Za-z0-9+.-]*:(?://(?:{_LABEL})(?:\.{_LABEL})*(?::\d{{1,5}})?(?:/{_PATH})?"
        rf"|[A-Za-z0-9._~-]{_PATH})(?:\?{_PATH})?(?:#{_PATH})?"
    ),
    # Without an authority, and without a colon in a first segment, which would be a scheme.
    "uri-reference": (
        rf"(?:/(?:[A-Za-z0-9._~-]{_PATH})?|[A-Za-z0-9._~-]+(?:/{_PATH})?)"
        rf"(?:\?{_PATH})?(?:#{_PATH})?"
    ),
    "json-pointer": r"(?:/(?:[^/~]|~[01])*)*",
    "relative-json-pointer": r"(?:0|[1-9]\d{0,8})(?:#|(?:/(?:[^/~]|~[01])*)*)",
}
#: Addresses whose length is bounded: a beginning, its most letters, and what may follow any number
#: of times, of up to three letters.
LONG_URI: Final = (
    r"[a-z][a-z0-9+-]{1,9}://[A-Za-z0-9]",
    14,
    r"(?:[A-Za-z0-9._~!$&'()*+,;=/?-]|%[0-9A-Fa-f][0-9A-Fa-f])",
)
#: Formats of which only texts of another one are written, which are valid by both.
NARROWER: Final = {
    "idn-email": "email",
    "idn-hostname": "hostname",
    "iri": "uri",
    "iri-reference": "uri-reference",
}
#: The standard's formats that are not supported; any other name is a note for people.
MISSING: Final = frozenset({"uri-template", "regex"})
#: ``minLength``, and the lengths above which ``maxLength`` is none: no answer is so long.
MAX_LENGTH: Final = 2**24
#: Formats that are notes where a pattern contradicts them.
_TIMES: Final = frozenset({"time", "date-time"})
#: States of an automaton that also counts letters: xgrammar visits the vocabulary for each.
_MAX_COUNTING: Final = 160
LeaveOut = Callable[[str, str], None]


def count(schema: Mapping[str, Any], name: str, place: str) -> int | None:
    """Return the value of a keyword that counts; None where it is absent."""
    value = schema.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or value < 0:
        raise SchemaError(f"{place}.{name}", "expected a number that is not negative")
    return value


def counts(parts: Sequence[SchemaPart], what: str) -> tuple[int, int | None, str]:
    """Return the strictest ``minX`` and ``maxX`` of some parts, and the place of the last.

    0 and None where they are absent.

    Raises:
        NoValueError: they exclude everything.
    """
    low, high, where = 0, None, ""
    for part in parts:
        least = count(part.schema, f"min{what}", part.place)
        most = count(part.schema, f"max{what}", part.place)
        if least is not None and least > low:
            low, where = least, f"{part.place}.min{what}"
        if most is not None and (high is None or most < high):
            high, where = most, f"{part.place}.max{what}"
    if high is not None and low > high:
        raise NoValueError(where, f"min{what} {low} is above max{what} {high}")
    return low, high, where


@lru_cache(maxsize=256)
def search_automaton(pattern: str) -> Automaton:
    """Return the automaton of the texts in which a part matches a pattern.

    Raises:
        RegexError, TooComplex: it cannot be followed.
    """
    try:
        return smallest(make_automaton(parse_search(pattern)))
    except NoTextError:
        raise RegexError("no text matches it") from None


@lru_cache(maxsize=256)
def refused_automaton(pattern: str) -> Automaton:
    """Return the automaton of the texts in which a part may match a pattern.

    Raises:
        RegexError, TooComplex: it cannot be followed.
    """
    try:
        return smallest(make_automaton(parse_refused(pattern)))
    except NoTextError:
        raise RegexError("no text matches it") from None


def matches(pattern: str, text: str) -> bool:
    """Return True if a part of a text matches a pattern, or the pattern cannot be followed."""
    try:
        return search_automaton(pattern).accepts(text)
    except (RegexError, TooComplex):
        return True


class Strings:
    """Facts that some parts of a schema state about a string."""

    def __init__(self, parts: Sequence[SchemaPart], leave_out: LeaveOut) -> None:
        self.low, self.high, self.length_place = counts(parts, "Length")
        if self.high is not None and self.high > MAX_LENGTH:
            self.high = None
        if self.low > MAX_LENGTH:
            raise SchemaError(self.length_place, f"{self.low} is above the maximum {MAX_LENGTH}")
        self.nodes: list[tuple[Node, str]] = []
        self.refused: list[tuple[Automaton, str]] = []
        self.length_place = self.length_place or (parts[0].place if parts else "")
        self.formats: list[str] = []
        for part in parts:
            self._read(part, leave_out)
        self._join()

    def _join(self) -> None:
        """Make one of all expressions that only say which letters there are, and how many."""
        simple: list[Repeat] = []
        where = ""
        others: list[tuple[Node, str]] = []
        for node, place in self.nodes:
            if isinstance(node, Repeat) and isinstance(node.item, CharClass):
                simple.append(node)
                where = place
            else:
                others.append((node, place))
        if not simple:
            return
        letters: Ranges = ((0, LAST),)
        for each in simple:
            assert isinstance(each.item, CharClass)
            letters = json_text.common(letters, each.item.ranges)
            self.low = max(self.low, each.low)
            if each.high is not None and (self.high is None or each.high < self.high):
                self.high = each.high
        if letters != ((0, LAST),):
            others.append((Repeat(CharClass(letters), 0, None), where))
        elif not others and not self.low and self.high is None:
            return
        self.nodes = others

    def _read(self, part: SchemaPart, leave_out: LeaveOut) -> None:
        schema, place = part.schema, part.place
        pattern = schema.get("pattern")
        if pattern is not None:
            where = f"{place}.pattern"
            if not isinstance(pattern, str):
                raise SchemaError(where, "expected a regular expression")
            try:
                self.nodes.append((parse_search(pattern), where))
            except UnsupportedRegex as error:
                leave_out(where, f"regular expression: {error}")
            except RegexError as error:
                raise SchemaError(where, f"not a regular expression: {error}") from None
        name = schema.get("format")
        if name is not None and not isinstance(name, str):
            raise SchemaError(f"{place}.format", "expected the name of a format")
        name = None if name is None else NARROWER.get(name, name)
        if name in MISSING:
            leave_out(f"{place}.format", f'the format "{name}" is not supported')
        elif name in PATTERNS and name not in self.formats:
            self.formats.append(name)
            self.nodes.append((parse_regex(PATTERNS[name]), f"{place}.format"))
        if isinstance(schema, Derived):
            for each in schema.get(NOT_PATTERN, ()):
                self._refuse(each, place, leave_out)
            texts = [each for each in schema.get(NOT_ENUM, ()) if isinstance(each, str)]
            if any(each <= chr(LAST) * len(each) for each in texts):
                self.refused.append((_texts(texts), place))

    def _refuse(self, pattern: object, place: str, leave_out: LeaveOut) -> None:
        try:
            if isinstance(pattern, str):
                self.refused.append((refused_automaton(pattern), place))
        except (RegexError, TooComplex) as error:
            leave_out(place, f"regular expression: {error}")

    @property
    def is_hostname(self) -> bool:
        """True if nothing is stated but the format of host names."""
        has_counts = self.low > 0 or self.high is not None
        is_only = len(self.nodes) == 1 and not self.refused and not has_counts
        return is_only and self.formats == ["hostname"]

    def counted(self, node: Node) -> Node | None:
        """Return an expression with the bounds of its length; None where it cannot have them."""
        found = _with_length(node, self.low, self.high)
        if found is None and self.formats == ["uri"]:
            return _uri_of_length(self.low, self.high)
        return found

    def language(self, leave_out: LeaveOut) -> Automaton:
        """Return the automaton of the strings' letters.

        Raises:
            NoTextError: there are none.
        """
        made = ANYTHING
        of_times: list[Automaton] = []
        for node, place in self.nodes:
            try:
                each = make_automaton(node)
            except TooComplex as error:
                leave_out(place, str(error))
                continue
            if place.endswith(".format") and not _TIMES.isdisjoint(self.formats):
                of_times.append(each)
            else:
                made = each if made is ANYTHING else self._both(made, each, leave_out)
        patterns = made
        for each in of_times:
            # zod writes "time" beside the pattern of a time without a zone. By default a format is
            # a note for people in the standard.
            if patterns is ANYTHING or _meet(patterns, each):
                made = each if made is ANYTHING else self._both(made, each, leave_out)
        for each, place in self.refused:
            try:
                made = self._both(made, complement(each), leave_out)
            except TooComplex as error:
                leave_out(place, str(error))
        if self.low or self.high is not None:
            made = self._counted(made, leave_out)
        return smallest(made)

    def _both(self, one: Automaton, other: Automaton, leave_out: LeaveOut) -> Automaton:
        try:
            return smallest(intersection(one, other))
        except TooComplex as error:
            leave_out(self.nodes[-1][1] if self.nodes else "", str(error))
            return one

    def _counted(self, made: Automaton, leave_out: LeaveOut) -> Automaton:
        low, high = self.low, self.high
        if high is not None:
            try:
                made = _of_length(made, 0, high)
            except TooComplex:
                shorter = self._shorter(made, high)
                if shorter is None:
                    why = "it cannot be counted beside what else is asked for"
                    leave_out(self.length_place, why)
                else:
                    made = shorter
        if low:
            try:
                made = _of_length(made, low, None)
            except TooComplex:
                leave_out(self.length_place, "it cannot be counted beside what else is asked for")
        return made

    def _shorter(self, made: Automaton, high: int) -> Automaton | None:
        """Return texts whose repetitions end so early that none is above a length; None: none.

        Texts with blanks are sentences, which would break off in the middle.
        """
        failures = 0
        for node, _ in self.nodes:
            if _repeats_blanks(node):
                continue
            for letters, times in _SHORTER:
                shorter = _with_ends(node, letters, times)
                longest = _longest_of(shorter)
                if longest is None or longest > high:
                    continue
                try:
                    found = smallest(intersection(made, make_automaton(shorter)))
                    found = _of_length(found, self.low, None) if self.low else found
                except NoTextError:
                    continue
                except TooComplex:
                    # Each takes up to 0.2 s, which is too much for all of them.
                    failures += 1
                    if failures == _MAX_FAILURES:
                        return None
                    continue
                if len(found.moves) <= _MAX_COUNTING:
                    return found
        return None


#: The most letters of a repetition that stands in for a longer one, and the most times of others.
_SHORTER: Final = (
    (24, 8), (24, 3), (16, 3), (12, 4), (12, 2), (12, 1), (8, 2), (8, 1), (6, 1), (3, 1),
)  # fmt: skip
_MAX_FAILURES: Final = 2


def _with_ends(node: Node, letters: int, times: int) -> Node:
    """Return an expression whose repetitions end after so many letters or times, or sooner."""
    match node:
        case Concatenation(items):
            return Concatenation(tuple(_with_ends(item, letters, times) for item in items))
        case Alternation(items):
            return Alternation(tuple(_with_ends(item, letters, times) for item in items))
        case Both(one, other):
            return Both(_with_ends(one, letters, times), _with_ends(other, letters, times))
        case Repeat(item, low, high):
            end = max(low, letters if _width(item) == 1 else times)
            end = end if high is None else min(high, end)
            return Repeat(_with_ends(item, letters, times), low, end)
        case _:
            return node


def _repeats_blanks(node: Node, *, is_repeated: bool = False) -> bool:
    """Return True if a blank may come in a repetition without an end."""
    match node:
        case CharClass(ranges):
            return is_repeated and any(low <= 0x20 <= high for low, high in ranges)
        case Concatenation(items) | Alternation(items):
            return any(_repeats_blanks(item, is_repeated=is_repeated) for item in items)
        case Both(one, other):
            return all(_repeats_blanks(each, is_repeated=is_repeated) for each in (one, other))
        case Repeat(item, _, high):
            return _repeats_blanks(item, is_repeated=is_repeated or high is None)
        case _:
            return False


def _longest_of(node: Node) -> int | None:
    """Return a length that no text of an expression exceeds; None: there is none."""
    match node:
        case CharClass():
            return 1
        case Boundary():
            return 0
        case Concatenation(items) | Alternation(items):
            lengths = [length for length in map(_longest_of, items) if length is not None]
            if len(lengths) < len(items):
                return None
            return sum(lengths) if isinstance(node, Concatenation) else max(lengths, default=0)
        case Both(one, other):
            lengths = [each for each in map(_longest_of, (one, other)) if each is not None]
            return min(lengths, default=None)
        case Repeat(item, _, high):
            longest = _longest_of(item)
            return None if longest is None or high is None else longest * high
        case _:
            return None


def _meet(one: Automaton, other: Automaton) -> bool:
    try:
        intersection(one, other)
    except NoTextError:
        return False
    except TooComplex:
        pass
    return True


def _of_length(automaton: Automaton, low: int, high: int | None) -> Automaton:
    """Return the texts of ``low`` to ``high`` letters.

    Raises:
        TooComplex: it would have more than `_MAX_COUNTING` states.
        NoTextError: there are none.
    """
    if high is not None and _longest(automaton) is not None:
        longest = _longest(automaton)
        assert longest is not None
        if longest <= high and not low:
            return automaton
    most = low if high is None else high + 1
    if min(most, 4096) * len(automaton.moves) > 16 * _MAX_COUNTING:
        raise TooComplex("it has to count too much")

    def moves(state: tuple[int, int]) -> Any:
        place, read = state
        if high is not None and read >= high:
            return
        for ranges, goal in automaton.moves[place]:
            yield ranges, (goal, min(read + 1, most))

    made = explored((0, 0), moves, lambda each: each[0] in automaton.final and each[1] >= low)
    if len(made.moves) > _MAX_COUNTING:
        raise TooComplex("it has to count too much")
    return made


def _longest(automaton: Automaton) -> int | None:
    """Return the length of the longest text; None: there is none."""
    left: dict[int, int] = {}
    open_states: set[int] = set()

    def longest(state: int) -> int | None:
        if state in left:
            return left[state]
        # Deeper, Python's own limit would be near. Without an answer the letters are counted, which
        # is right too.
        if state in open_states or len(open_states) > 400:
            return None
        open_states.add(state)
        most = 0
        for _, goal in automaton.moves[state]:
            inner = longest(goal)
            if inner is None:
                return None
            most = max(most, inner + 1)
        open_states.remove(state)
        left[state] = most
        return most

    return longest(0)


def _texts(texts: Sequence[str]) -> Automaton:
    """Return the automaton of some texts.

    Raises:
        NoTextError: no answer can have any of them.
    """
    written = (text for text in texts if all(ord(letter) <= LAST for letter in text))
    return make_automaton(Alternation(tuple(map(text_node, written))))


def string_language(parts: Sequence[SchemaPart], leave_out: LeaveOut) -> Automaton | None:
    """Return the automaton of a string's letters; None: any.

    Raises:
        NoValueError: there are none.
    """
    strings = Strings(parts, leave_out)
    if not (strings.nodes or strings.refused or strings.low or strings.high is not None):
        return None
    try:
        return strings.language(leave_out)
    except NoTextError:
        raise NoValueError(parts[0].place if parts else "", "no string is valid") from None


def string_rule(rules: Rules, parts: Sequence[SchemaPart], leave_out: LeaveOut) -> str:
    """Add the rule of the strings that some parts allow; return its name.

    Raises:
        NoValueError: there are none.
    """
    strings = Strings(parts, leave_out)
    has_counts = strings.low > 0 or strings.high is not None
    if not strings.nodes and not strings.refused:
        if not has_counts:
            return rules.any_string()
        return rules.add_expression(json_text.counted_string(strings.low, strings.high))
    if len(strings.nodes) == 1 and not strings.refused:
        if strings.is_hostname:
            return hostname_rule(rules, '"', '"')
        node: Node | None = strings.nodes[0][0]
        if node is not None and has_counts:
            node = strings.counted(node)
        if node is not None and _is_plain(node):
            text = json_text.string_of(node)
            if has_counts or counted_letters(text) is not None:
                try:
                    return rules.add_pieces(text)
                except (NoTextError, TooComplex):
                    pass
    try:
        return rules.add_string(strings.language(leave_out))
    except NoTextError:
        raise NoValueError(parts[0].place if parts else "", "no string is valid") from None


def hostname_rule(rules: Rules, begin: str, end: str) -> str:
    """Add the rule of host names between two texts; return its name. Labels share their rules."""
    label = rules.add_expression(parse_regex(LABEL))
    step = rules.add(f"{literal('.')} {label}")
    names = f"{label} {rules.counted(step, 0, MORE_LABELS, rules.add(literal(end)))}"
    return rules.add(f"{literal(begin)} {names}" if begin else names)


def _is_plain(node: Node) -> bool:
    """Return True if an expression has only letters, sequences, choices and repetitions."""
    match node:
        case CharClass():
            return True
        case Concatenation(items) | Alternation(items):
            return all(map(_is_plain, items))
        case Repeat(item):
            return _is_plain(item)
        case _:
            return False


def _width(node: Node) -> int | None:
    """Return the number of letters of all texts of an expression; None: they differ."""
    match node:
        case CharClass():
            return 1
        case Concatenation(items):
            widths = [_width(item) for item in items]
            return None if None in widths else sum(width or 0 for width in widths)
        case Alternation(items):
            choices = {_width(item) for item in items}
            return choices.pop() if len(choices) == 1 else None
        case Repeat(item, low, high) if low == high:
            width = _width(item)
            return None if width is None else width * low
        case _:
            return None


def _with_length(node: Node, low: int, high: int | None) -> Node | None:
    """Bound the last repetition of letters in an expression; None where that is not its form."""
    items = list(_of_any_beginning(node))
    if all(_width(item) is not None for item in items):
        width = _width(node)
        assert width is not None
        return node if low <= width and (high is None or width <= high) else Alternation(())
    places = [
        at for at, item in enumerate(items)
        if isinstance(item, Repeat) and _width(item.item) == 1 and item.low != item.high
    ]  # fmt: skip
    if not places:
        return None
    repeated = items.pop(places[-1])
    assert isinstance(repeated, Repeat)
    for at, item in enumerate(items):
        if _longest_of(item) is None:
            is_simple = isinstance(item, Repeat) and isinstance(item.item, CharClass)
            if high is None or not is_simple or _repeats_blanks(item):
                return None
            items[at] = _with_ends(item, 16, 1)
    lengths = [_longest_of(item) for item in items]
    if None in lengths:
        return None
    shortest, longest = sum(map(_shortest_of, items)), sum(length or 0 for length in lengths)
    most = repeated.high
    if high is not None:
        most = high - longest if most is None else min(most, high - longest)
    least = max(repeated.low, low - shortest)
    if most is not None and most < least:
        return Alternation(()) if shortest == longest else None
    items.insert(places[-1], Repeat(repeated.item, least, most))
    return Concatenation(tuple(items))


def _of_any_beginning(node: Node) -> tuple[Node, ...]:
    """Return the items of a sequence; a usual letter that may come anywhere comes first."""
    items: list[Node] = [*node.items] if isinstance(node, Concatenation) else [node]
    for at, item in enumerate(items):
        beside = (*items[at - 1 : at], *items[at + 1 : at + 2])
        match item:
            case Repeat(CharClass() as letter, low, None) if (
                ANY_TEXT in beside and item != ANY_TEXT
            ):
                # So many letters or more, beside any text, are so many.
                items[at] = letter if low == 1 else Concatenation((letter,) * low)
    match items:
        case [first, CharClass(ranges) as letter, last] if first == last == ANY_TEXT:
            if any(low <= 0x61 and high >= 0x7A for low, high in ranges):
                return letter, last
    return tuple(items)


def _shortest_of(node: Node) -> int:
    """Return a length below which no text of an expression is."""
    match node:
        case CharClass():
            return 1
        case Concatenation(items):
            return sum(map(_shortest_of, items))
        case Alternation(items):
            return min(map(_shortest_of, items), default=0)
        case Repeat(item, low):
            return low * _shortest_of(item)
        case _:
            return 0


def _uri_of_length(low: int, high: int | None) -> Node | None:
    """Return the addresses of a length; None where the bounds leave no room for usual ones."""
    head, head_high, tail = LONG_URI
    if low > 8 or (high is not None and high < head_high + 3):
        return None
    node = parse_regex(head)
    assert isinstance(node, Concatenation)
    letters = parse_regex(tail)
    most = None if high is None else (high - head_high) // 3
    return Concatenation((*node.items, Repeat(letters, 0, most)))


def number_rule(rules: Rules, kind: str, parts: Sequence[SchemaPart], leave_out: LeaveOut) -> str:
    """Add the rule of the numbers that some parts allow; return its name.

    Args:
        kind: "integer" or "number".

    Raises:
        NoValueError: there are none.
    """
    low = _bound(parts, "minimum", "exclusiveMinimum", is_low=True)
    high = _bound(parts, "maximum", "exclusiveMaximum", is_low=False)
    step = _step(parts)
    off_steps = tuple(
        _decimal(part.schema[NOT_MULTIPLE], part.place)
        for part in parts
        if isinstance(part.schema, Derived) and NOT_MULTIPLE in part.schema
    )
    is_fraction = any(
        isinstance(part.schema, Derived) and NOT_INTEGER in part.schema for part in parts
    )
    excluded = sorted({
        _decimal(each, part.place)
        for part in parts if isinstance(part.schema, Derived)
        for each in part.schema.get(NOT_ENUM, ())
        if isinstance(each, int | float) and not isinstance(each, bool)
    })  # fmt: skip
    is_whole = kind == "integer"
    if is_whole and is_fraction:
        raise NoValueError(parts[0].place, "no integer is a fraction")
    if is_whole and step == 1:
        step = None
    if not (low or high or step or off_steps or is_fraction or excluded):
        return rules.add_expression(number_range.INTEGER if is_whole else number_range.NUMBER)
    found = NumberRange(low, high, is_whole, is_fraction, step, off_steps)
    return _ranges_rule(rules, found, excluded, parts, leave_out)


def _ranges_rule(
    rules: Rules,
    found: NumberRange,
    excluded: Sequence[Decimal],
    parts: Sequence[SchemaPart],
    leave_out: LeaveOut,
) -> str:
    place = next((part.place for part in parts), "")
    names: list[str] = []
    reason = "no number is valid"
    for each in found.without(excluded):
        try:
            names.append(rules.add_automaton(each.automaton()))
        except number_range.NoSuchNumber as error:
            reason = str(error)
        except TooComplex as error:
            leave_out(f"{place}.multipleOf", str(error))
            looser = NumberRange(each.low, each.high, each.is_whole, each.is_fraction)
            try:
                names.append(rules.add_automaton(looser.automaton()))
            except (TooComplex, number_range.NoSuchNumber) as further:
                reason = str(further)
    if not names:
        raise NoValueError(place, reason)
    return names[0] if len(names) == 1 else rules.add(" | ".join(dict.fromkeys(names)))


def _step(parts: Sequence[SchemaPart]) -> Decimal | None:
    """Return the number of which all ``multipleOf`` together allow the multiples."""
    found: Decimal | None = None
    for part in parts:
        for name in ("multipleOf", "divisibleBy"):
            if name not in part.schema:
                continue
            value = _decimal(part.schema[name], f"{part.place}.{name}")
            if value <= 0:
                raise SchemaError(f"{part.place}.{name}", "expected a number above 0")
            if found is None:
                found = value
            else:
                decimals = max(0, *(-int(each.normalize().as_tuple().exponent)
                                    for each in (found, value)))  # fmt: skip
                scaled = [int(each.scaleb(decimals)) for each in (found, value)]
                found = Decimal(lcm(*scaled)).scaleb(-decimals)
    return found


def _bound(parts: Sequence[SchemaPart], name: str, exclusive: str, *, is_low: bool) -> Bound | None:
    """Return the strictest one of all inclusive and exclusive bounds."""
    found: list[Bound] = []
    for schema, place, _ in parts:
        value, beyond = schema.get(name), schema.get(exclusive)
        if isinstance(beyond, bool):
            # Draft 4 has booleans that make the bound beside them exclusive.
            if value is not None:
                found.append(Bound(_decimal(value, f"{place}.{name}"), beyond))
            continue
        if value is not None:
            found.append(Bound(_decimal(value, f"{place}.{name}")))
        if beyond is not None:
            found.append(Bound(_decimal(beyond, f"{place}.{exclusive}"), True))
    if not found:
        return None
    pick = max if is_low else min
    return pick(found, key=lambda bound: (bound.value, bound.is_open == is_low))


def _decimal(value: object, place: str) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SchemaError(place, "expected a number")
    if isinstance(value, int) and value.bit_length() > 1200:
        raise SchemaError(place, "the number has too many digits")
    number = Decimal(repr(value))
    if not number.is_finite():
        raise SchemaError(place, "expected a finite number")
    return number
