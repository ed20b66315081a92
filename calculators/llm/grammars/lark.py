"""Parser of grammars in Lark's notation, as tools with a grammar of their input have them.

A grammar becomes one expression, and the expression a deterministic automaton. Rules that refer to
themselves at one end only, such as ``list: item | list "," item``, are systems of linear equations
between languages, which have expressions as solutions. Other recursion has none, and is
`UnsupportedGrammar`, as are parts that only Lark's own program could follow.

The expression is of the texts that the rules derive. A lexer takes the longest token at each place
and heeds priorities of terminals, so its language may be smaller; the order and the priorities
change nothing here.

Source: Lark's reference of grammars and its module ``common``; OpenAI's guide to function calling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from calculators.llm.grammars.ebnf import MAX_DEPTH, GrammarError
from calculators.llm.grammars.lark_reader import (
    NOTHING,
    AllOf,
    AnyOf,
    Count,
    LarkReader,
    LarkText,
    Part,
    Ref,
    UnsupportedGrammar,
    is_terminal,
)
from calculators.llm.grammars.regular_expression import (
    EMPTY,
    Alternation,
    Concatenation,
    Node,
    Repeat,
)

#: Parts of all rules when templates are written out.
_MAX_PARTS: Final = 50_000


def parse_lark(text: str) -> Node:
    """Parse a grammar; return the expression of the texts of its rule ``start``.

    Raises:
        UnsupportedGrammar: it has parts that cannot be followed.
        GrammarError: it cannot be read; the message has the line.
    """
    return _Language(LarkReader(text)).start()


class _NotLinear(Exception):
    """A rule refers to itself elsewhere than at one end."""


#: A language as a sum: for each unknown rule the expression beside it, and for "" the rest.
_Sum = dict[str, Node]


class _Language:
    """The rules of a grammar as expressions."""

    def __init__(self, reader: LarkReader) -> None:
        self._reader = reader
        self._parts = 0
        self._nodes: dict[str, Node] = {}
        self._open: list[str] = []
        self._needs: dict[str, frozenset[str]] = {}
        self._bodies: dict[str, Part] = {}
        self._known_reach: dict[str, set[str]] = {}
        self._ignored: Node = EMPTY

    def start(self) -> Node:
        rules = self._reader.rules
        if "start" not in rules:
            raise GrammarError('there is no rule "start"')
        for name, rule in rules.items():
            if not rule.parameters:
                self._bodies[name] = self._written_out(rule.body, {}, 0)
        for name, body in self._bodies.items():
            self._needs[name] = frozenset(_names(body)) & self._bodies.keys()
        if self._reader.ignored:
            ignored = self._written_out(AnyOf(tuple(self._reader.ignored)), {}, 0)
            self._ignored = Repeat(self._node(ignored, is_rule=False), 0, None)
        return Concatenation((self._ignored, self._rule("start")))

    def _written_out(self, part: Part, given: Mapping[str, Part], depth: int) -> Part:
        """Return a part with its templates written out."""
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise UnsupportedGrammar("it is too large when its templates are written out")
        if depth > MAX_DEPTH:
            raise UnsupportedGrammar(f"templates refer to templates deeper than {MAX_DEPTH}")
        match part:
            case Ref(name, arguments, line):
                if name in given and not arguments:
                    return given[name]
                rule = self._reader.rules.get(name)
                if rule is None:
                    if name in self._reader.declared:
                        raise UnsupportedGrammar(f'line {line}: "{name[:40]}" is only declared')
                    raise GrammarError(f'line {line}: "{name[:40]}" is not defined')
                if len(rule.parameters) != len(arguments):
                    raise GrammarError(
                        f'line {line}: "{name[:40]}" takes {len(rule.parameters)} arguments, '
                        f"got {len(arguments)}"
                    )
                if not arguments:
                    return part
                values = (self._written_out(each, given, depth + 1) for each in arguments)
                inner = dict(zip(rule.parameters, values, strict=True))
                return self._written_out(rule.body, inner, depth + 1)
            case AllOf(parts):
                return AllOf(tuple(self._written_out(each, given, depth) for each in parts))
            case AnyOf(parts):
                return AnyOf(tuple(self._written_out(each, given, depth) for each in parts))
            case Count(inner_part, low, high):
                return Count(self._written_out(inner_part, given, depth), low, high)
            case _:
                return part

    def _rule(self, name: str) -> Node:
        known = self._nodes.get(name)
        if known is not None:
            return known
        if len(self._open) >= MAX_DEPTH:
            raise UnsupportedGrammar(f"rules refer to rules deeper than {MAX_DEPTH}")
        self._open.append(name)
        together = self._together(name)
        if not together:
            self._nodes[name] = self._node(self._bodies[name], is_rule=not is_terminal(name))
        elif is_terminal(name):
            raise GrammarError(f'the terminal "{name[:40]}" refers to itself')
        else:
            self._nodes |= self._solved(name, together)
        self._open.pop()
        return self._nodes[name]

    def _together(self, name: str) -> list[str]:
        """Return the rules that refer to a rule and that it refers to; [] without recursion."""
        reached = self._reached(name)
        if name not in reached:
            return []
        return [each for each in sorted(reached) if name in self._reached(each)]

    def _reached(self, name: str) -> set[str]:
        found = self._known_reach.get(name)
        if found is None:
            found = self._known_reach[name] = set()
            waiting = list(self._needs[name])
            while waiting:
                each = waiting.pop()
                if each not in found:
                    found.add(each)
                    waiting += self._needs[each]
        return found

    def _node(self, part: Part, *, is_rule: bool) -> Node:
        """Return the expression of a part; in rules ignored texts may follow each terminal."""
        match part:
            case LarkText(node):
                return self._token(node) if is_rule else node
            case Ref(name, _, line):
                if not is_terminal(name):
                    if not is_rule:
                        raise GrammarError(
                            f'line {line}: a terminal cannot refer to the rule "{name[:40]}"'
                        )
                    return self._rule(name)
                node = self._rule(name)
                return self._token(node) if is_rule else node
            case AllOf(parts):
                return Concatenation(tuple(self._node(each, is_rule=is_rule) for each in parts))
            case AnyOf(parts):
                return Alternation(tuple(self._node(each, is_rule=is_rule) for each in parts))
            case Count(inner, low, high):
                return Repeat(self._node(inner, is_rule=is_rule), low, high)

    def _token(self, node: Node) -> Node:
        return node if self._ignored == EMPTY else Concatenation((node, self._ignored))

    # Recursion --------------------------------------------------------------

    def _solved(self, name: str, together: Sequence[str]) -> dict[str, Node]:
        """Return the expressions of rules that refer to each other at one end only."""
        for is_right in (True, False):
            try:
                sums = {
                    each: self._sum(self._bodies[each], together, is_right) for each in together
                }
            except _NotLinear:
                continue
            return _solution(sums, is_right)
        raise UnsupportedGrammar(
            f'the rule "{name[:40]}" refers to itself between other parts; such recursion is not '
            f"supported"
        )

    def _sum(self, part: Part, unknown: Sequence[str], is_right: bool) -> _Sum:
        if not any(name in unknown for name in _names(part)):
            return {"": self._node(part, is_rule=True)}
        match part:
            case Ref(name, _, _):
                return {name: EMPTY}
            case AnyOf(parts):
                found: _Sum = {}
                for each in parts:
                    _add(found, self._sum(each, unknown, is_right))
                return found
            case Count(inner, low, 1):
                return self._sum(AnyOf((inner, NOTHING)) if not low else inner, unknown, is_right)
            case AllOf(parts):
                end, others = (parts[-1], parts[:-1]) if is_right else (parts[0], parts[1:])
                if any(name in unknown for each in others for name in _names(each)):
                    raise _NotLinear
                beside = self._node(AllOf(others), is_rule=True)
                return _beside(beside, self._sum(end, unknown, is_right), is_right)
            case _:
                raise _NotLinear


def _names(part: Part) -> Iterator[str]:
    match part:
        case Ref(name, arguments, _):
            yield name
            for each in arguments:
                yield from _names(each)
        case AllOf(parts) | AnyOf(parts):
            for each in parts:
                yield from _names(each)
        case Count(inner, _, _):
            yield from _names(inner)
        case LarkText():
            pass


def _beside(node: Node, terms: _Sum, is_right: bool) -> _Sum:
    """Return a sum with an expression before the unknown at the right end, or after the left."""
    return {
        name: Concatenation((node, each)) if is_right else Concatenation((each, node))
        for name, each in terms.items()
    }


def _add(terms: _Sum, more: _Sum) -> None:
    for name, node in more.items():
        terms[name] = Alternation((terms[name], node)) if name in terms else node


def _solution(sums: dict[str, _Sum], is_right: bool) -> dict[str, Node]:
    """Solve X = A X + B by X = A* B, one unknown after the other (Arden's rule)."""
    order = list(sums)
    for at, name in enumerate(order):
        own = sums[name].pop(name, None)
        if own is not None:
            sums[name] = _beside(Repeat(own, 0, None), sums[name], is_right)
        for later in order[at + 1 :]:
            factor = sums[later].pop(name, None)
            if factor is not None:
                _add(sums[later], _beside(factor, sums[name], is_right))
    solved: dict[str, Node] = {}
    for name in reversed(order):
        terms = sums[name]
        for other in [each for each in terms if each]:
            factor = terms.pop(other)
            _add(terms, _beside(factor, {"": solved[other]}, is_right))
        # Without a rest no finite text fits.
        solved[name] = terms.get("", Alternation(()))
    return solved
