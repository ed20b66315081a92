"""The parts of JSON texts as expressions: strings, literals, white space."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from calculators.llm.grammars.regular_expression import (
    EMPTY,
    CharClass,
    Choice,
    Node,
    Ranges,
    Repeat,
    Sequence,
    all_but,
    parse_regex,
    ranges_of,
    text_node,
)

_QUOTE: Final = text_node('"')
#: Letters that need no escape in a string.
PLAIN: Final = all_but(((0, 0x1F), (0x22, 0x22), (0x5C, 0x5C)))
_SHORT: Final = {'"': '"', "\\": "\\", "\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
_SHORT_ESCAPE: Final = parse_regex(r'\\["\\/bfnrt]')
#: One letter of a string; halves of surrogate pairs are no letters.
_ANY_LETTER: Final = Choice((
    CharClass(PLAIN),
    _SHORT_ESCAPE,
    parse_regex(r"\\u(?:[0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})"),
))  # fmt: skip
STRING: Final = Sequence((_QUOTE, Repeat(_ANY_LETTER, 0, None), _QUOTE))

#: White space as models write it: none, a blank, or a new line with its indentation. It is bounded:
#: some models would go on with it for ever.
SPACE: Final = parse_regex(r" ?|\n(?: {0,24}|\t{0,12})")
AFTER_COLON: Final = parse_regex(r" ?")


def counted_string(low: int, high: int | None) -> Node:
    """Return the strings of ``low`` to ``high`` letters; None is without end."""
    letter = Choice((CharClass(PLAIN), _SHORT_ESCAPE))
    return Sequence((_QUOTE, Repeat(letter, low, high), _QUOTE))


def string_of(content: Node) -> Node:
    """Return the strings whose contents match an expression."""
    return Sequence((_QUOTE, _escaped(content), _QUOTE))


def value_text(value: object) -> str:
    """Write a value as JSON.

    Raises:
        ValueError: a number in it is not finite, or a text is not Unicode.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text.encode()
    return text


def other_keys(names: Iterable[str]) -> Node:
    """Return the strings without escapes that are none of ``names``."""
    tree: _Tree = {}
    for name in names:
        here = tree
        for letter in name:
            here = here.setdefault(letter, {})
        here[""] = {}
    return Sequence((_QUOTE, _outside(tree), _QUOTE))


_Tree = dict[str, "_Tree"]
_REST: Final = Repeat(CharClass(PLAIN), 0, None)


def _outside(tree: _Tree) -> Node:
    children = {letter: inner for letter, inner in tree.items() if letter}
    branches: list[Node] = [] if "" in tree else [EMPTY]
    others = _common(PLAIN, all_but((ord(letter), ord(letter)) for letter in children))
    branches.append(Sequence((CharClass(others), _REST)))
    for letter, inner in children.items():
        branches.append(Sequence((text_node(letter), _outside(inner))))
    return Choice(tuple(branches))


def _escaped(node: Node) -> Node:
    match node:
        case CharClass(ranges):
            return _escaped_letter(ranges)
        case Sequence(items):
            return Sequence(tuple(map(_escaped, items)))
        case Choice(items):
            return Choice(tuple(map(_escaped, items)))
        case Repeat(item, low, high):
            return Repeat(_escaped(item), low, high)


def _escaped_letter(ranges: Ranges) -> Node:
    branches: list[Node] = []
    plain = _common(ranges, PLAIN)
    if plain:
        branches.append(CharClass(plain))
    for low, high in _common(ranges, all_but(PLAIN)):
        for code in range(low, high + 1):
            short = _SHORT.get(chr(code))
            branches.append(text_node("\\" + (short or f"u{code:04x}")))
    return branches[0] if len(branches) == 1 else Choice(tuple(branches))


def _common(one: Ranges, other: Ranges) -> Ranges:
    return all_but(ranges_of((*all_but(one), *all_but(other))))
