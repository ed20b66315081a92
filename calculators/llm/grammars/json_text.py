"""The parts of JSON texts as expressions: strings, literals, white space."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final

from calculators.llm.grammars.automaton import Automaton
from calculators.llm.grammars.grammar import FIRST
from calculators.llm.grammars.regular_expression import (
    Alternation,
    CharClass,
    Concatenation,
    Node,
    Ranges,
    Repeat,
    all_but,
    parse_regex,
    ranges_of,
    text_node,
)

#: The most letters of names that others differ in, and the most states for it.
_OTHER_DEPTH: Final = 12
_OTHER_STATES: Final = 16
_PRIVATE: Final = re.compile(f"[{chr(FIRST)}-\U0010ffff]")
_QUOTE: Final = text_node('"')
#: Letters that need no escape in a string.
PLAIN: Final = all_but(((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)))
_SHORT: Final = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_SHORT_ESCAPE: Final = parse_regex(r'\\["\\/bfnrt]')
#: One letter of a string; halves of surrogate pairs are not letters.
ANY_LETTER: Final = Alternation((
    CharClass(PLAIN),
    _SHORT_ESCAPE,
    parse_regex(r"\\u(?:[0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})"),
))  # fmt: skip
#: One letter of a string that is counted.
LETTER: Final = Alternation((CharClass(PLAIN), _SHORT_ESCAPE))
#: The rest of a string after its first quote.
STRING_REST: Final = Concatenation((Repeat(ANY_LETTER, 0, None), _QUOTE))
#: Control characters, which are written by their numbers, but for a few.
CONTROLS: Final = ((0, 0x1F),)

#: White space as models write it: none, a blank, or a new line with its indentation. It is bounded:
#: some models would go on with it for ever.
SPACE: Final = parse_regex(r" ?|\n(?: {0,24}|\t{0,12})")
AFTER_COLON: Final = parse_regex(r" ?")


def counted_string(low: int, high: int | None) -> Node:
    """Return the strings of ``low`` to ``high`` letters; None is without end."""
    return Concatenation((_QUOTE, Repeat(LETTER, low, high), _QUOTE))


def string_of(content: Node) -> Node:
    """Return the strings whose contents match an expression, which has only letters in it.

    Other expressions are automata first (`Rules.add_string`).
    """
    return Concatenation((_QUOTE, _escaped(content), _QUOTE))


def value_text(value: object) -> str:
    """Write a value as JSON.

    Raises:
        ValueError: a number in it is not finite, or a text is not Unicode.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text.encode()
    # Letters that stand for special tokens are written as escapes.
    return _PRIVATE.sub(lambda found: json.dumps(found[0])[1:-1], text)


def other_texts(names: Iterable[str]) -> Automaton:
    """Return the automaton of letters that are none of ``names``, nor begin like one.

    They differ from each name in one of its first letters: in how many depends on the number of
    names, because xgrammar visits the vocabulary for each state of the automaton.
    """
    depth = _OTHER_DEPTH
    names = [*names]
    while depth > 1 and len({name[:at] for name in names for at in range(depth)}) > _OTHER_STATES:
        depth -= 1
    beginnings = {name[:depth] for name in names}
    places = sorted({each[:at] for each in beginnings for at in range(len(each) + 1)} - {
        each for each in beginnings if len(each) == depth
    } | {""})  # fmt: skip
    numbers = {place: number for number, place in enumerate(places)}
    rest = len(places)
    moves: list[tuple[tuple[Ranges, int], ...]] = []
    final = {rest}
    for place in places:
        followers = {each[len(place)] for each in beginnings
                     if each.startswith(place) and len(each) > len(place)}  # fmt: skip
        others = common(PLAIN, all_but((ord(letter), ord(letter)) for letter in followers))
        found: list[tuple[Ranges, int]] = [(others, rest)]
        for letter in followers:
            goal = numbers.get(place + letter)
            if goal is not None and common(PLAIN, ((ord(letter), ord(letter)),)):
                found.append((((ord(letter), ord(letter)),), goal))
        moves.append(tuple(found))
        if place not in names and place:
            final.add(numbers[place])
    moves.append(((PLAIN, rest),))
    return Automaton(tuple(moves), frozenset(final))


def _escaped(node: Node) -> Node:
    match node:
        case CharClass(ranges):
            return _escaped_letter(ranges)
        case Concatenation(items):
            return Concatenation(tuple(map(_escaped, items)))
        case Alternation(items):
            return Alternation(tuple(map(_escaped, items)))
        case Repeat(item, low, high):
            return Repeat(_escaped(item), low, high)
        case _:
            raise TypeError("an expression of plain letters is expected")


def _escaped_letter(ranges: Ranges) -> Node:
    """Write a letter: as it is or by its short escape, by its number where it has neither.

    Letters with numbers beside others are left out: they would be ways of their own to count.
    """
    plain, short = common(ranges, PLAIN), short_escapes(ranges)
    if plain == PLAIN and len(_SHORT) == sum(high - low + 1 for low, high in short):
        return LETTER
    branches: list[Node] = []
    if plain:
        branches.append(CharClass(plain))
    if short:
        branches.append(Concatenation((text_node("\\"), CharClass(short))))
    if not branches:
        codes = (code for low, high in ranges for code in range(low, high + 1))
        branches = [text_node(f"\\u{code:04x}") for code in codes if code <= CONTROLS[0][1]]
    return branches[0] if len(branches) == 1 else Alternation(tuple(branches))


def short_escapes(ranges: Ranges) -> Ranges:
    """Return the letters after a backslash that stand for one of the letters."""
    found = (
        ord(short) for letter, short in _SHORT.items()
        if any(low <= ord(letter) <= high for low, high in ranges)
    )  # fmt: skip
    return ranges_of((code, code) for code in found)


def common(one: Ranges, other: Ranges) -> Ranges:
    """Return the letters of both ranges."""
    return all_but(ranges_of((*all_but(one), *all_but(other))))
