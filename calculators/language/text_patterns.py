"""Words and regular expressions in text that comes in pieces.

`Patterns` finds where words and expressions match in text of which more may come. `read_expression`
takes regular expressions whose matches have a bounded length. An expression is parsed by Python's
own parser and written again in three forms for the package ``regex``, which can limit the time of a
search:

- ``exact``: the expression.
- ``growing``: each letter may also be the end of the text, so it matches what a match may become.
  Its alternatives have the order of the expression's, so where it ends before the end of the text,
  nothing that may follow changes the match. The partial matches of ``regex`` do not have that
  property: it prefers a complete match to a partial one that begins earlier or has precedence.
- ``head``: the first letter, for a quick search of places where a match can begin.
"""

from __future__ import annotations

import importlib
import operator
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

#: Seconds of processor time for one search, and the most that the limit is raised to.
SECONDS: Final = 0.05
_MOST_SECONDS: Final = 1.0
#: The longest match of an expression; as many characters may be held back.
MAX_WIDTH: Final = 4096
#: Characters of the texts that an expression is tried on, and the number of these texts.
_TRIED_CHARACTERS: Final = 1_500
_TRIED_TEXTS: Final = 12
#: Matches that these texts are made of: each takes other alternatives.
_SAMPLES: Final = 4

# The parser has no public name. It has had these operations since Python 3.11.
_parser: Final[Any] = importlib.import_module("re._parser")

_CATEGORIES: Final = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
_QUANTIFIERS: Final = {"MAX_REPEAT": "", "MIN_REPEAT": "?", "POSSESSIVE_REPEAT": "+"}
_LOOKAROUND: Final = frozenset({"ASSERT", "ASSERT_NOT", "FAILURE"})
_REFERENCES: Final = frozenset({"GROUPREF", "GROUPREF_EXISTS"})
#: Tokens of a pattern, to find the place of one that is refused.
_TOKEN: Final = re.compile(
    r"(?P<reference>\\[1-9]|\(\?P=|\(\?\()|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]"
    r"|(?P<lookaround>\(\?<?[=!])|\(\?|(?P<repeat>[*+]|\{\d*,\})[?+]?|.",
    re.DOTALL,
)
#: A class of POSIX, which would be read as a set of its letters.
_POSIX_CLASS: Final = re.compile(r"(?<!\\)\[:\^?[a-z]+:\]")


class PatternError(ValueError):
    """A word or expression that cannot be used; the text says which, why, and what to write."""


class Expression:
    """An expression, compiled.

    Attributes:
        needed: a match that reaches the end of a text which is not complete is certain if the text
            has as many characters from the beginning of the match on.
    """

    __slots__ = ("_exact", "_growing", "_head", "needed")

    def __init__(self, exact: Any, growing: Any, head: Any, needed: int) -> None:
        """Make it from the forms of the module, each a pattern of ``regex``."""
        self._exact = exact
        self._growing = growing
        # Useless where nearly every character may begin a match.
        self._head = None if head.match("a") else head
        self.needed = needed

    def search(self, text: str, place: int, *, is_end: bool) -> tuple[int, int]:
        """Return the first match from a place on, or the first text that may become one.

        Without one, both values are the length of the text. ``is_end``: the text is complete.

        Raises:
            TimeoutError: it takes too long.
        """
        # A search with a time limit takes three times as long.
        if self._head is None or self._head.search(text, place) is not None:
            # Decision 0059: partial matches of `regex` would let go of what may become a match.
            pattern = self._exact if is_end else self._growing
            found = _search(pattern, text, place)
            if found is not None:
                span: tuple[int, int] = found.span()
                return span
        return len(text), len(text)


def read_expression(pattern: str, *, ignore_case: bool, place: str) -> Expression:
    """Compile an expression.

    Args:
        place: where it is written, such as ``patterns[2]``, for errors.

    Raises:
        PatternError: it cannot be parsed, its matches have no bound or may be empty, or it looks at
            more than the match.
    """
    import regex  # not needed by graphs without expressions

    posix = _POSIX_CLASS.search(pattern)
    if posix is not None:
        raise PatternError(
            f"{place}: {pattern!r} has the class {posix[0]}, which these expressions do not have; "
            r"write \w, \d, \s, or the characters: [a-z]"
        )
    try:
        tree = _parser.parse(pattern, re.IGNORECASE if ignore_case else 0)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(f"{place}: {pattern!r} is not a regular expression: {error}") from None
    flags = tree.state.flags
    if flags & re.ASCII:
        raise PatternError(f"{place}: {pattern!r} has the flag a; write [0-9] for \\d and the like")
    forms = _Rewriting(pattern, place).sequence(tree, flags, is_first=True)
    if forms.low == 0:
        raise PatternError(f"{place}: {pattern!r} matches the empty text")
    if forms.high > MAX_WIDTH:
        raise PatternError(
            f"{place}: a match of {pattern!r} may have {forms.high} characters; the maximum is "
            f"{MAX_WIDTH}"
        )
    cased = "(?i:{})" if flags & re.IGNORECASE else "(?:{})"
    exact = regex.compile(cased.format(forms.exact), regex.VERSION0)
    growing = regex.compile(cased.format(rf"(?!\Z)(?={forms.head}){forms.growing}"), regex.VERSION0)
    for text in (text for sample in set(forms.samples) for text in _near_matches(sample)):
        try:
            _search(exact, text)
            _search(growing, text)
        except TimeoutError:
            raise PatternError(
                f"{place}: {pattern!r} takes too long on text that almost matches it; no repeated "
                "part may match the same text in several ways"
            ) from None
    head = regex.compile(cased.format(forms.head), regex.VERSION0)
    return Expression(exact, growing, head, forms.high + forms.beyond)


def _search(pattern: Any, text: str, place: int = 0) -> Any:
    """Search within `SECONDS` of this thread's processor time.

    Raises:
        TimeoutError: it takes longer.
    """
    limit = SECONDS
    while True:
        begun = time.thread_time()
        try:
            return pattern.search(text, place, timeout=limit)
        except TimeoutError:
            # `regex` counts the processor time of the whole process. While models load, other
            # threads have used up the limit before a search of a millisecond has begun.
            if limit > _MOST_SECONDS or time.thread_time() - begun >= SECONDS:
                raise
            limit *= 2


def _near_matches(sample: str) -> Iterator[str]:
    """Yield texts that are full of beginnings of a match, each broken off."""
    step = -(-len(sample) // _TRIED_TEXTS)
    for length in range(step, len(sample) + 1, step):
        broken = sample[:length] + "\0"
        yield broken * -(-_TRIED_CHARACTERS // len(broken))


class _Forms(NamedTuple):
    """A part of an expression.

    Attributes:
        exact, growing, head: see the module. ``head`` is "" for a part without letters.
        low, high: the number of characters of its shortest and its longest match.
        beyond: the most characters after a match that decide about it.
        samples: texts that match, as long as repeats allow.
        is_letter: it is a single letter of some set.
    """

    exact: str
    growing: str
    head: str
    low: int
    high: int
    beyond: int
    samples: tuple[str, ...]
    is_letter: bool = False


_NO_SAMPLES: Final = ("",) * _SAMPLES
_EMPTY: Final = _Forms("", "", "", 0, 0, 0, _NO_SAMPLES)


class _Rewriting:
    """Writes the forms of one expression. Flags of its parts are written out."""

    def __init__(self, pattern: str, place: str) -> None:
        self._pattern = pattern
        self._place = place

    def sequence(self, items: Iterable[Any], flags: int, *, is_first: bool) -> _Forms:
        """Return the forms of items one after the other.

        ``is_first``: no character of the match is before them.
        """
        made = _EMPTY
        for operation, value in items:
            part = self._part(operation.name, value, flags, is_first=is_first and not made.high)
            if made is _EMPTY:
                made = part
                continue
            made = _Forms(
                made.exact + part.exact,
                made.growing + part.growing,
                made.head if made.low else _either(made, part),
                made.low + part.low,
                made.high + part.high,
                max(made.beyond, part.beyond),
                tuple(map(operator.add, made.samples, part.samples)),
            )
        return made

    def _part(self, name: str, value: Any, flags: int, *, is_first: bool) -> _Forms:
        match name:
            case "LITERAL":
                return _letter(_literal(value), chr(value))
            case "NOT_LITERAL":
                return _letter(_other_letter(value), _other_than(f"[{_literal(value)}]"))
            case "ANY":
                return _letter("(?s:.)" if flags & re.DOTALL else ".", "a")
            case "IN":
                return _set(value)
            case "BRANCH":
                return self._branch(value[1], flags, is_first=is_first)
            case "SUBPATTERN":
                _, added, removed, inner = value
                return self._group(inner, flags, added, removed, is_first=is_first)
            case "ATOMIC_GROUP":
                return _wrapped("(?>{})", self.sequence(value, flags, is_first=is_first))
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                return self._repeat(name, value, flags, is_first=is_first)
            case "AT":
                return self._assertion(value.name, flags, is_first=is_first)
            case _ if name in _LOOKAROUND:
                raise self._refused("lookaround", "has a lookaround, which sees beyond the match")
            case _ if name in _REFERENCES:
                raise self._refused("reference", "has a back reference")
            case _:
                raise PatternError(f"{self._place}: {self._pattern!r} is not supported ({name})")

    def _branch(self, branches: Iterable[Any], flags: int, *, is_first: bool) -> _Forms:
        parts = [self.sequence(each, flags, is_first=is_first) for each in branches]
        heads = [part.head for part in parts]
        return _Forms(
            f"(?:{'|'.join(part.exact for part in parts)})",
            f"(?:{'|'.join(part.growing for part in parts)})",
            f"(?:{'|'.join(heads)})" if any(heads) else "",
            min(part.low for part in parts),
            max(part.high for part in parts),
            max(part.beyond for part in parts),
            tuple(parts[each % len(parts)].samples[each] for each in range(_SAMPLES)),
        )

    def _group(self, inner: Any, flags: int, added: int, removed: int, *, is_first: bool) -> _Forms:
        if added & re.ASCII:
            raise PatternError(
                f"{self._place}: {self._pattern!r} has the flag a; write [0-9] for \\d and the like"
            )
        made = self.sequence(inner, (flags | added) & ~removed, is_first=is_first)
        case = (added & re.IGNORECASE and "i") or (removed & re.IGNORECASE and "-i") or ""
        return _wrapped(f"(?{case}:{{}})", made)

    def _repeat(self, name: str, value: Any, flags: int, *, is_first: bool) -> _Forms:
        low, high, inner = value
        if high is _parser.MAXREPEAT or int(high) >= int(_parser.MAXREPEAT):
            raise self._refused("repeat", "has a repeat without a bound", "; write {1,64}")
        low, high = int(low), int(high)
        part = self.sequence(inner, flags, is_first=is_first and high < 2)
        count = f"{{{low},{high}}}{_QUANTIFIERS[name]}"
        growing = f"(?:{part.growing}){count}"
        if part.is_letter and high:
            # The same, in a form that regex is fast with.
            most = f"(?:{part.exact}){{0,{high - 1}}}+\\Z"
            again = f"(?:{part.exact}){count}"
            growing = f"(?:{again}|{most})" if name == "MIN_REPEAT" else f"(?>{most}|{again})"
            if name == "MAX_REPEAT":
                growing = f"(?:{most}|{again})"
        return _Forms(
            f"(?:{part.exact}){count}",
            growing,
            part.head if low or part.high else "",
            part.low * low,
            part.high * high,
            part.beyond,
            tuple(each * min(high, MAX_WIDTH // max(len(each), 1) + 1) for each in part.samples),
        )

    def _assertion(self, name: str, flags: int, *, is_first: bool) -> _Forms:
        # At the end of the text so far nobody knows what holds there.
        end, beyond = r"\Z", 1
        match name:
            case "AT_BEGINNING" if flags & re.MULTILINE:
                exact = "(?m:^)"
            case "AT_BEGINNING" | "AT_BEGINNING_STRING":
                exact = r"\A"
            case "AT_END" if flags & re.MULTILINE:
                exact = "(?m:$)"
            case "AT_END":
                exact, end, beyond = r"(?=\n?\Z)", r"\n?\Z", 2
            case "AT_END_STRING":
                exact = r"\Z"
            case "AT_BOUNDARY":
                exact = r"\b"
            case "AT_NON_BOUNDARY":
                exact = r"\B"
            case _:
                raise PatternError(f"{self._place}: {self._pattern!r} is not supported ({name})")
        if is_first and beyond == 1:
            # Text follows: the form is used where there is a character.
            return _Forms(exact, exact, exact, 0, 0, 0, _NO_SAMPLES)
        return _Forms(exact, f"(?:{end}|{exact})", exact, 0, 0, beyond, _NO_SAMPLES)

    def _refused(self, kind: str, what: str, instead: str = "") -> PatternError:
        for token in _TOKEN.finditer(self._pattern):
            if token[kind] is not None:
                what += f" at character {token.start() + 1}, {token[kind]!r}"
                break
        return PatternError(f"{self._place}: {self._pattern!r} {what}{instead}")


def _either(first: _Forms, second: _Forms) -> str:
    """Return the head of two parts of which the first may be empty."""
    if not first.high:
        return first.head + second.head
    return f"(?:{first.head}|{second.head})"


def _letter(exact: str, sample: str) -> _Forms:
    return _Forms(exact, rf"(?:{exact}|\Z)", exact, 1, 1, 0, (sample,) * _SAMPLES, True)


def _wrapped(template: str, part: _Forms) -> _Forms:
    return part._replace(
        exact=template.format(part.exact),
        growing=template.format(part.growing),
        head=template.format(part.head),
    )


def _literal(code: int) -> str:
    """Return a character for a pattern or a set in it."""
    character = chr(code)
    is_plain = code > 0x7F or character.isalnum()
    return character if is_plain else f"\\x{code:02x}"


def _other_letter(code: int) -> str:
    """Return an expression for every character but one.

    A set would be shorter, but regex 2026.11 takes ``[^a]|[^b]`` for a letter that is neither.
    """
    return f"(?:(?!{_literal(code)})(?s:.))"


def _set(items: Sequence[Any]) -> _Forms:
    is_negated = False
    made: list[str] = []
    codes: list[int] = []
    for operation, value in items:
        match operation.name:
            case "NEGATE":
                is_negated = True
            case "CATEGORY":
                made.append(_CATEGORIES[value.name])
            case _:
                low, high = value if operation.name == "RANGE" else (value, value)
                codes += (low, high)
                made.append(f"{_literal(low)}-{_literal(high)}" if low < high else _literal(low))
    members = "".join(made)
    if not is_negated:
        return _letter(f"[{members}]", _one_of(f"[{members}]", codes))
    sample = _other_than(f"[{members}]")
    if len(made) == 1 and codes and codes[0] == codes[1]:
        return _letter(_other_letter(codes[0]), sample)
    return _letter(f"[^{members}]", sample)


_USUAL: Final = "a0 -_.@A\n\t"


def _one_of(members: str, codes: Sequence[int]) -> str:
    """Return a character of a set. ``codes``: some of its characters."""
    for character in _USUAL:
        if re.match(members, character):
            return character
    return chr(codes[0]) if codes else "a"


def _other_than(members: str) -> str:
    """Return a character that is not in a set."""
    for character in _USUAL:
        if not re.match(members, character):
            return character
    return "\x01"


_Node = dict[str, Any]
#: The key of nodes at which a word ends. Its value is never looked at.
_END: Final = ""


class Words:
    """A tree of words by their letters.

    Attributes:
        fold: returns a text as the other methods take it; of equal length.
    """

    __slots__ = ("_root", "_search", "fold")

    def __init__(self, words: Sequence[str], *, ignore_case: bool) -> None:
        """
        Raises:
            PatternError: a word is empty or too long.
        """
        self.fold: Callable[[str], str] = _folded if ignore_case else str
        self._root: _Node = {}
        for place, word in enumerate(words):
            if not word:
                raise PatternError(f"words[{place}]: the word is empty")
            if len(word) > MAX_WIDTH:
                raise PatternError(
                    f"words[{place}]: {len(word)} characters are above the maximum {MAX_WIDTH}"
                )
            node = self._root
            for letter in self.fold(word):
                node = node.setdefault(letter, {})
            node[_END] = {}
        self._search = re.compile(_beginnings(self._root)).search

    def next(self, text: str, place: int) -> int:
        """Return the first place at which a word may begin; the length of the text if none may."""
        found = self._search(text, place)
        return len(text) if found is None else found.start()

    def longest(self, text: str, place: int) -> tuple[int, bool]:
        """Return the length of the longest word at a place, 0 without one.

        The second value: text that follows could make it longer.
        """
        node = self._root
        longest = 0
        for index in range(place, len(text)):
            below = node.get(text[index])
            if below is None:
                return longest, False
            node = below
            if _END in node:
                longest = index + 1 - place
        return longest, len(node) > (_END in node)


def _beginnings(root: _Node) -> str:
    """Return an expression for the first two letters of words, or the first at the text's end."""
    branches = []
    for letter, below in root.items():
        first = re.escape(letter)
        if _END in below:
            branches.append(first)
        else:
            branches.append(rf"{first}(?:[{''.join(map(re.escape, below))}]|\Z)")
    return "|".join(branches)


def _folded(text: str) -> str:
    """Return a text in which letters that differ only in case are equal."""
    return text.lower() if text.isascii() else text.translate(_FOLDS)


class _Folds(dict[int, int]):
    """The folds of characters, one for one: ß stays, and ẞ becomes it."""

    def __missing__(self, code: int) -> int:
        character = chr(code)
        for folded in (character.casefold(), character.lower()):
            if len(folded) == 1:
                if folded != character:
                    self[code] = ord(folded)
                return ord(folded)
        return code


_FOLDS: Final = _Folds()


#: Matches, each as its first place and the place after it.
Spans = Sequence[tuple[int, int]]

_NONE: Final[Spans] = ()


class Scanner(Protocol):
    """Finds matches in text; see `Patterns`."""

    def scan(self, text: str, place: int, *, is_end: bool = False) -> tuple[Spans, int]: ...

    def spans_of(self, text: str) -> Spans: ...


class Patterns:
    """A set of words and expressions.

    From left to right, the match at a place is the longest of all words and expressions, of an
    expression the one that it prefers. The next match begins after it. What a text's matches are
    does not depend on the pieces in which the text comes.
    """

    __slots__ = ("_expressions", "_words")

    def __init__(
        self, words: Sequence[str], expressions: Sequence[str], *, ignore_case: bool = False
    ) -> None:
        """
        Raises:
            PatternError: a word or an expression cannot be used.
        """
        self._words = Words(words, ignore_case=ignore_case) if words else None
        self._expressions: list[Expression] = [
            read_expression(each, ignore_case=ignore_case, place=f"patterns[{place}]")
            for place, each in enumerate(expressions)
        ]

    def scan(self, text: str, place: int, *, is_end: bool = False) -> tuple[Spans, int]:
        """Return the matches from a place on, and the place from which on more text may decide.

        Args:
            text: with the character before ``place``, unless the text begins there.
            is_end: no more text will come, so the second value is the length of the text.

        Raises:
            TimeoutError: an expression takes too long.
        """
        end = len(text)
        words = self._words
        if words is None:
            folded, word = text, end
        else:
            folded = words.fold(text)
            word = words.next(folded, place)
        first = word
        starts: list[int] = []
        stops: list[int] = []
        for expression in self._expressions:
            start, stop = expression.search(text, place, is_end=is_end)
            starts.append(start)
            stops.append(stop)
            first = min(first, start)
        if first == end:
            return _NONE, end  # like most text
        spans: list[tuple[int, int]] = []
        while True:
            longest, may_grow = 0, False
            if words is not None and word == first:
                longest, may_grow = words.longest(folded, first)
            for start, stop, expression in zip(starts, stops, self._expressions, strict=True):
                if start == first:
                    longest = max(longest, stop - start)
                    may_grow |= stop == end and end - start < expression.needed
            if may_grow and not is_end:
                return spans, first
            place = first + (longest or 1)
            if longest:
                spans.append((first, place))
            if words is not None and word < place:
                word = words.next(folded, place)
            for index, expression in enumerate(self._expressions):
                if starts[index] < place:
                    starts[index], stops[index] = expression.search(text, place, is_end=is_end)
            first = min((word, *starts))
            if first == end:
                return spans, end

    def spans_of(self, text: str) -> Spans:
        """Return the matches of a whole text. Raises TimeoutError as `scan`."""
        return self.scan(text, 0, is_end=True)[0]


@lru_cache(maxsize=256)
def patterns_of(
    words: tuple[str, ...], expressions: tuple[str, ...], ignore_case: bool
) -> Patterns:
    """Return the patterns of a node, which are the same in all runs of its graph.

    Raises:
        PatternError: as `Patterns`.
    """
    return Patterns(words, expressions, ignore_case=ignore_case)
