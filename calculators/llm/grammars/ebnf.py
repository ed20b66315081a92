"""Parser of grammars that clients write: xgrammar's EBNF without recursion.

A grammar without recursion is an expression with names for its parts, and becomes a deterministic
automaton. A recursive one could delay all answers of the engine at every token, and is refused.
"""

from __future__ import annotations

import re
from typing import Final

from calculators.llm.grammars.regular_expression import (
    LAST,
    MAX_COUNT,
    Alternation,
    Concatenation,
    Node,
    RegexError,
    Repeat,
    parse_regex,
    text_node,
)

MAX_RULES: Final = 1000
MAX_DEPTH: Final = 60


class GrammarError(ValueError):
    """The text is not a grammar, or has parts that are not supported; the message says where."""


def parse_ebnf(text: str) -> Node:
    """Parse a grammar; return the expression of its rule ``root``.

    Raises:
        GrammarError: the text cannot be read, or a rule refers to itself.
    """
    return _Grammar(text).node("root")


_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r]+|\#[^\n]*)|(?P<line>\n)|(?P<name>[A-Za-z_][\w.-]*)|(?P<is>::=)
    |(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<class>\[(?:[^\]\\\n]|\\.)*\])
    |(?P<count>\{\s*\d+\s*(?:,\s*\d*\s*)?\})|(?P<sign>[()|*+?])""",
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL
)
_SHORT: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "b": "\b", "v": "\v", "a": "\a",
                 "e": "\x1b", "0": "\0"}  # fmt: skip


class _Grammar:
    """The rules as tokens; `node` parses a rule when it is needed."""

    def __init__(self, text: str) -> None:
        self._rules: dict[str, list[tuple[str, str]]] = {}
        self._nodes: dict[str, Node] = {}
        self._open: list[str] = []
        self._split(text)
        if "root" not in self._rules:
            raise GrammarError('there is no rule "root"')

    def _split(self, text: str) -> None:
        at, line = 0, 1
        tokens: list[tuple[str, str, int]] = []
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise GrammarError(f"line {line}: {text[at : at + 12]!r} cannot be read")
            kind = str(found.lastgroup)
            if kind == "line":
                line += 1
            elif kind != "space":
                tokens.append((kind, found[0], line))
            at = found.end()
        rule: list[tuple[str, str]] | None = None
        for i, (kind, value, line) in enumerate(tokens):
            if kind == "name" and i + 1 < len(tokens) and tokens[i + 1][0] == "is":
                if value in self._rules:
                    raise GrammarError(f'line {line}: the rule "{value[:40]}" is there twice')
                rule = self._rules[value] = []
                if len(self._rules) > MAX_RULES:
                    raise GrammarError(f"more than {MAX_RULES} rules")
            elif kind == "is":
                if i == 0 or tokens[i - 1][0] != "name":
                    raise GrammarError(f"line {line}: ::= without the name of a rule")
            elif rule is None:
                raise GrammarError(f"line {line}: expected the name of a rule and ::=")
            else:
                rule.append((kind, value))

    def node(self, name: str) -> Node:
        known = self._nodes.get(name)
        if known is not None:
            return known
        tokens = self._rules.get(name)
        if tokens is None:
            raise GrammarError(f'there is no rule "{name[:40]}"')
        if name in self._open:
            raise GrammarError(
                f'the rule "{name[:40]}" refers to itself; recursive grammars are not supported'
            )
        if len(self._open) >= MAX_DEPTH:
            raise GrammarError(f"rules refer to rules deeper than {MAX_DEPTH}")
        self._open.append(name)
        reader = _Rule(self, name, tokens)
        node = self._nodes[name] = reader.whole()
        self._open.pop()
        return node


class _Rule:
    """Parser of the body of one rule."""

    def __init__(self, grammar: _Grammar, name: str, tokens: list[tuple[str, str]]) -> None:
        self._grammar = grammar
        self._name = name
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def whole(self) -> Node:
        node = self._choice()
        if self._at < len(self._tokens):
            raise self._error("an unopened parenthesis")
        return node

    def _choice(self) -> Node:
        branches = [self._sequence()]
        while self._peek() == "|":
            self._at += 1
            branches.append(self._sequence())
        return branches[0] if len(branches) == 1 else Alternation(tuple(branches))

    def _sequence(self) -> Node:
        items: list[Node] = []
        while self._peek() not in ("", "|", ")"):
            items.append(self._repeated(self._atom()))
        return items[0] if len(items) == 1 else Concatenation(tuple(items))

    def _atom(self) -> Node:
        kind, value = self._tokens[self._at]
        self._at += 1
        match kind:
            case "name":
                if self._peek() == "(":
                    raise self._error(f"{value[:40]}(...) is not supported")
                return self._grammar.node(value)
            case "text":
                text = _unescaped(value[1:-1])
                if any(ord(letter) > LAST for letter in text):
                    raise GrammarError("a letter that no answer has")
                return text_node(text)
            case "class":
                try:
                    return parse_regex(value)
                except RegexError as error:
                    raise self._error(f"{value[:20]}: {error}") from None
            case _:
                return self._group(value)

    def _group(self, value: str) -> Node:
        if value != "(":
            raise self._error(f"{value[:20]} repeats nothing")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._error(f"groups nested deeper than {MAX_DEPTH}")
        node = self._choice()
        self._depth -= 1
        if self._peek() != ")":
            raise self._error("a parenthesis that is not closed")
        self._at += 1
        return node

    def _repeated(self, node: Node) -> Node:
        while True:
            word = self._peek()
            match word:
                case "*":
                    node = Repeat(node, 0, None)
                case "+":
                    node = Repeat(node, 1, None)
                case "?":
                    node = Repeat(node, 0, 1)
                case _ if word.startswith("{") and self._tokens[self._at][0] == "count":
                    node = self._counted(node, word)
                case _:
                    return node
            self._at += 1

    def _counted(self, node: Node, word: str) -> Node:
        first, comma, second = word[1:-1].replace(" ", "").partition(",")
        if max(len(first.strip()), len(second.strip())) > 6:
            raise self._error(f"a count above {MAX_COUNT}")
        low = int(first)
        high = (int(second) if second.strip() else None) if comma else low
        if max(low, high or 0) > MAX_COUNT:
            raise self._error(f"a count above {MAX_COUNT}")
        if high is not None and high < low:
            raise self._error("a range of counts that is backwards")
        return Repeat(node, low, high)

    def _peek(self) -> str:
        return self._tokens[self._at][1] if self._at < len(self._tokens) else ""

    def _error(self, what: str) -> GrammarError:
        return GrammarError(f'the rule "{self._name[:40]}": {what}')


def _unescaped(text: str) -> str:
    def letter(found: re.Match[str]) -> str:
        number = found[1] or found[2] or found[3]
        if number is None:
            return _SHORT.get(found[4], found[4])
        code = int(number, 16)
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            raise GrammarError(f"{found[0]} is not a letter")
        return chr(code)

    return _ESCAPE.sub(letter, text)
