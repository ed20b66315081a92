"""`LarkReader`: parser of the statements of a grammar in Lark's notation.

Source: Lark's reference of grammars and its module ``common``.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar

from calculators.llm.grammars.ebnf import MAX_DEPTH, MAX_RULES, GrammarError
from calculators.llm.grammars.regular_expression import (
    LAST,
    MAX_COUNT,
    Alternation,
    CharClass,
    Concatenation,
    Node,
    RegexError,
    Repeat,
    UnsupportedRegex,
    parse_token,
    ranges_of,
    text_node,
)

#: The terminals of Lark's module ``common``.
_COMMON: Final[Mapping[str, str]] = {
    "DIGIT": "[0-9]",
    "HEXDIGIT": "[a-fA-F0-9]",
    "INT": "[0-9]+",
    "SIGNED_INT": "[+-]?[0-9]+",
    "DECIMAL": r"[0-9]+\.[0-9]*|\.[0-9]+",
    "_EXP": "[eE][+-]?[0-9]+",
    "FLOAT": r"[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    "SIGNED_FLOAT": (
        r"[+-]?(?:[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    ),
    "NUMBER": r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    "SIGNED_NUMBER": r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?",
    "_STRING_INNER": r"[^\n]*",
    "_STRING_ESC_INNER": r"(?:[^\\\n]|\\[^\n])*",
    "ESCAPED_STRING": r'"(?:[^"\\\n]|\\[^\n])*"',
    "LCASE_LETTER": "[a-z]",
    "UCASE_LETTER": "[A-Z]",
    "LETTER": "[A-Za-z]",
    "WORD": "[A-Za-z]+",
    "CNAME": "[A-Za-z_][A-Za-z_0-9]*",
    "WS_INLINE": r"[ \t]+",
    "WS": r"[ \t\f\r\n]+",
    "CR": r"\r",
    "LF": r"\n",
    "NEWLINE": r"(?:\r?\n)+",
    "SH_COMMENT": r"#[^\n]*",
    "CPP_COMMENT": r"\/\/[^\n]*",
    "C_COMMENT": r"\/\*(?:[^*]|\*+[^*\/])*\*+\/",
    "SQL_COMMENT": r"--[^\n]*",
}


class UnsupportedGrammar(GrammarError):
    """The grammar may be valid, but no automaton here can follow it."""


class Ref(NamedTuple):
    """The use of a rule, a terminal or a template's parameter, by name."""

    name: str
    arguments: tuple[Part, ...]
    line: int


class LarkText(NamedTuple):
    """A string, a range of letters or a regular expression."""

    node: Node


class AllOf(NamedTuple):
    """Parts one after the other."""

    parts: tuple[Part, ...]


class AnyOf(NamedTuple):
    """One of some parts."""

    parts: tuple[Part, ...]


class Count(NamedTuple):
    """A part ``low`` to ``high`` times; None is without end."""

    part: Part
    low: int
    high: int | None


Part = Ref | LarkText | AllOf | AnyOf | Count
NOTHING: Final = AllOf(())


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule, a terminal, or with parameters a template."""

    body: Part
    parameters: tuple[str, ...] = ()


_Found = TypeVar("_Found")


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r\f]+|\\[ ]*\n|//[^\n]*|\#[^\n]*)|(?P<line>\n)|(?P<directive>%[a-z_]+)
    |(?P<regexp>/(?!/)(?:\\/|\\\\|[^/])*?/[imslux]*)|(?P<text>"(?:[^"\\\n]|\\.)*"i?)
    |(?P<special><[^<>\s]{1,200}>)|(?P<name>[^\W\d]\w*)|(?P<sign>->|\.\.|[()\[\]{}|*+?~:,.!])
    |(?P<number>[+-]?\d+)""",
    re.VERBOSE,
)
_ATOMS: Final = ("name", "text", "regexp", "special", "directive")


def is_terminal(name: str) -> bool:
    return name.lstrip("_")[:1].isupper()


class LarkReader:
    """Parser of the statements of a grammar.

    Attributes:
        rules: rules, terminals and templates by name.
        ignored: the terminals that may stand between all others.
        declared: terminals whose texts only Lark's program knows.
    """

    def __init__(self, text: str) -> None:
        self.rules: dict[str, Rule] = {}
        self.ignored: list[Part] = []
        self.declared: set[str] = set()
        self._tokens = list(_tokens(text))
        self._at = 0
        self._depth = 0
        while self._peek().kind != "end":
            if not self._take_kind("line"):
                self._statement()

    def _statement(self) -> None:
        token = self._peek()
        if token.kind == "directive":
            self._at += 1
            self._directive(token)
        else:
            self._define(lambda name, rule: self._new(name, rule, token))
        if self._peek().kind not in ("line", "end"):
            raise self._unexpected("the end of the line")

    def _new(self, name: str, rule: Rule, token: _Token) -> None:
        if name in self.rules:
            raise _error(token, f'"{name[:40]}" is defined twice')
        self.rules[name] = rule
        if len(self.rules) > MAX_RULES:
            raise GrammarError(f"more than {MAX_RULES} rules")

    def _define(self, keep: Callable[[str, Rule], None]) -> None:
        while self._take("!") or self._take("?"):
            pass
        name = self._name("the name of a rule or a terminal")
        if self._peek().text == "[":
            raise self._unsupported("options of a rule are")
        parameters: list[str] = []
        if self._take("{"):
            parameters.append(self._name("the name of a parameter"))
            while self._take(","):
                parameters.append(self._name("the name of a parameter"))
            self._expect("}")
        if self._take(".") and not self._take_kind("number"):
            raise self._unexpected("a priority")
        self._expect(":")
        keep(name, Rule(self._choice(), tuple(parameters)))

    def _directive(self, token: _Token) -> None:
        match token.text:
            case "%ignore":
                self.ignored.append(self._choice())
            case "%import":
                self._import()
            case "%override":
                self._define(self.rules.__setitem__)
            case "%extend":
                self._define(self._extend)
            case "%declare":
                self.declared.add(self._name("the name of a terminal"))
                while self._peek().kind == "name":
                    self.declared.add(self._name("the name of a terminal"))
            case "%json" | "%llguidance" | "%regex" | "%lark":
                raise _unsupported(token, f"{token.text} is")
            case _:
                raise _error(token, f"there is no directive {token.text[:40]}")

    def _extend(self, name: str, rule: Rule) -> None:
        known = self.rules.get(name)
        if known is None:
            raise _error(self._peek(), f'"{name[:40]}" is not defined, and cannot be extended')
        self.rules[name] = replace(known, body=AnyOf((known.body, rule.body)))

    def _import(self) -> None:
        token = self._peek()
        if self._take("."):
            raise _unsupported(token, "imports of other grammars are")
        path = [self._name("the name of a module")]
        while self._take("."):
            path.append(self._name("the name of a terminal"))
        if self._take("("):
            names = [self._name("the name of a terminal")]
            while self._take(","):
                names.append(self._name("the name of a terminal"))
            self._expect(")")
        elif len(path) > 1:
            names = [path.pop()]
        else:
            raise self._unexpected('"." and the name of a terminal')
        if path != ["common"]:
            raise _unsupported(token, f'imports of "{".".join(path)[:40]}" are')
        alias = self._name("a name") if self._take("->") else None
        for name in names:
            if name not in _COMMON:
                raise _error(token, f'the module "common" has no terminal "{name[:40]}"')
            self.rules[alias or name] = Rule(LarkText(_common(name)))

    def _choice(self) -> Part:
        parts = [self._sequence()]
        while self._take_bar():
            parts.append(self._sequence())
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def _take_bar(self) -> bool:
        """Take a ``|``, which may stand on a later line."""
        at = self._at
        while self._take_kind("line"):
            pass
        if self._take("|"):
            return True
        if not self._depth:
            self._at = at
        return False

    def _sequence(self) -> Part:
        parts: list[Part] = []
        while True:
            while self._depth and self._take_kind("line"):
                pass
            token = self._peek()
            if token.kind in _ATOMS or token.text in ("(", "["):
                parts.append(self._counted(self._atom()))
                continue
            if self._take("->"):  # the name of the branch in Lark's tree
                self._name("a name")
            return parts[0] if len(parts) == 1 else AllOf(tuple(parts))

    def _atom(self) -> Part:
        token = self._peek()
        self._at += 1
        match token.kind:
            case "text":
                return self._string(token)
            case "regexp":
                return LarkText(_regexp(token))
            case "name":
                return Ref(token.text, self._arguments(), token.line)
            case "special" | "directive":
                raise _unsupported(token, f"{token.text[:40]} is")
            case _:
                part = self._inside(self._choice, ")" if token.text == "(" else "]")
                return part if token.text == "(" else Count(part, 0, 1)

    def _arguments(self) -> tuple[Part, ...]:
        if not self._take("{"):
            return ()
        return self._inside(self._listed, "}")

    def _listed(self) -> tuple[Part, ...]:
        found = [self._choice()]
        while self._take(","):
            found.append(self._choice())
        return tuple(found)

    def _inside(self, read: Callable[[], _Found], closing: str) -> _Found:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _error(self._peek(), f"groups nested deeper than {MAX_DEPTH}")
        found = read()
        while self._take_kind("line"):
            pass
        self._depth -= 1
        self._expect(closing)
        return found

    def _string(self, token: _Token) -> Part:
        text, is_folded = _string_value(token)
        if self._take(".."):
            last = self._peek()
            if not self._take_kind("text"):
                raise self._unexpected("the last letter of a range")
            end, _ = _string_value(last)
            if len(text) != 1 or len(end) != 1 or end < text:
                raise _error(token, "a range needs two letters in their order")
            return LarkText(CharClass(((ord(text), ord(end)),)))
        node = text_node(text)
        return LarkText(_folded(node) if is_folded else node)

    def _counted(self, part: Part) -> Part:
        while True:
            if self._take("*"):
                part = Count(part, 0, None)
            elif self._take("+"):
                part = Count(part, 1, None)
            elif self._take("?"):
                part = Count(part, 0, 1)
            elif self._take("~"):
                low = self._number()
                high = self._number() if self._take("..") else low
                if high < low:
                    raise _error(self._peek(), "a range of counts that is backwards")
                part = Count(part, low, high)
            else:
                return part

    def _number(self) -> int:
        token = self._peek()
        if not self._take_kind("number"):
            raise self._unexpected("a number")
        if len(token.text) > 7 or not 0 <= int(token.text) <= MAX_COUNT:
            raise _error(token, f"a count that is not between 0 and {MAX_COUNT}")
        return int(token.text)

    def _name(self, what: str) -> str:
        token = self._peek()
        if not self._take_kind("name"):
            raise self._unexpected(what)
        return token.text

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise self._unexpected(f'"{sign}"')

    def _unexpected(self, expected: str) -> GrammarError:
        token = self._peek()
        found = {"end": "the end", "line": "the end of the line"}.get(token.kind, repr(token.text))
        return _error(token, f"expected {expected}, got {found[:42]}")

    def _unsupported(self, what: str) -> GrammarError:
        return _unsupported(self._peek(), what)

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, sign: str) -> bool:
        token = self._tokens[self._at]
        if token.kind != "sign" or token.text != sign:
            return False
        self._at += 1
        return True

    def _take_kind(self, kind: str) -> bool:
        if self._tokens[self._at].kind != kind:
            return False
        self._at += 1
        return True


def _tokens(text: str) -> Iterator[_Token]:
    at, line = 0, 1
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise GrammarError(f"line {line}: {text[at : at + 12]!r} cannot be read")
        if found.lastgroup != "space":
            yield _Token(str(found.lastgroup), found[0], line)
        line += found[0].count("\n")
        at = found.end()
    yield _Token("end", "", line)


def _error(token: _Token, what: str) -> GrammarError:
    return GrammarError(f"line {token.line}: {what}")


def _unsupported(token: _Token, what: str) -> UnsupportedGrammar:
    return UnsupportedGrammar(f"line {token.line}: {what} not supported")


_ESCAPE: Final = re.compile(
    r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL
)
_SHORT: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "\\": "\\", '"': '"'}


def _string_value(token: _Token) -> tuple[str, bool]:
    """Return the letters of a string, and True if their case does not matter."""
    is_folded = token.text.endswith("i")

    def letter(found: re.Match[str]) -> str:
        number = found[1] or found[2] or found[3]
        if number is None:
            return _SHORT.get(found[4], found[0])  # other backslashes are letters
        code = int(number, 16)
        return chr(code) if code <= LAST and not 0xD800 <= code <= 0xDFFF else "\ud800"

    text = _ESCAPE.sub(letter, token.text[1 : -2 if is_folded else -1])
    if any(ord(each) > LAST or 0xD800 <= ord(each) <= 0xDFFF for each in text):
        raise _error(token, "a letter that no answer has")
    return text, is_folded


_ASSERTION: Final = re.compile(r"(?<!\\)\(\?<?[=!]")


def _regexp(token: _Token) -> Node:
    pattern, _, flags = token.text[1:].rpartition("/")
    if _ASSERTION.search(pattern):
        # It would look at the tokens after this one.
        raise _unsupported(token, "assertions in terminals are")
    if "x" in flags or ("m" in flags and re.search(r"[\^$]", pattern)):
        raise _unsupported(token, f'the flags "{flags}" of a regular expression are')
    try:
        node = parse_token(pattern, dot_is_any="s" in flags)
    except UnsupportedRegex as error:
        raise UnsupportedGrammar(f"line {token.line}: regular expression: {error}") from None
    except RegexError as error:
        raise _error(token, f"not a regular expression: {error}") from None
    return _folded(node) if "i" in flags else node


@lru_cache(maxsize=64)
def _common(name: str) -> Node:
    return parse_token(_COMMON[name])


@lru_cache(maxsize=1)
def _cases() -> tuple[tuple[int, int], ...]:
    """Return all pairs of letters that differ in their case only, by the first."""
    pairs = {
        (code, ord(other))
        for code in range(0x41, 0x1E944)
        for other in {chr(code).lower(), chr(code).upper()}
        if len(other) == 1 and ord(other) != code
    }
    return tuple(sorted(pairs | {(other, code) for code, other in pairs}))


def _folded(node: Node) -> Node:
    """Return the expression of the same texts in any case."""
    match node:
        case CharClass(ranges):
            cases = _cases()
            found = list(ranges)
            for low, high in ranges:
                first, last = (bisect_right(cases, (end, -1)) for end in (low, high + 1))
                found += ((other, other) for _, other in cases[first:last])
            return CharClass(ranges_of(found))
        case Concatenation(items):
            return Concatenation(tuple(map(_folded, items)))
        case Alternation(items):
            return Alternation(tuple(map(_folded, items)))
        case Repeat(item, low, high):
            return Repeat(_folded(item), low, high)
        case _:
            return node
