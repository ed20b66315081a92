"""`Rules`: a grammar in the notation of the engine's library (EBNF), rule by rule.

`BoundedRepeat` is a text of a bounded number of letters, in rules that are cheap to compile. In an
automaton each letter has a state of its own, and for each state the engine's library checks the
whole vocabulary: 30 to 75 ms for 150,000 tokens. Here all letters but the last `NEAR` share one
rule, with a declared lookahead: `NEAR` more letters, or the end. So the library knows without
counting that every token up to that length fits. It does so only for a rule that is referred to
once (xgrammar 0.1.31, "exact lookahead"), so the count is in the rules above it.

Longer tokens are not allowed; their texts are still written, in shorter tokens.

A text of at least a few letters has one state for each of these, which costs less than the rule
that counts, unless another text of such letters has that rule anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, pairwise
from typing import Final

from calculators.llm.grammars import json_text
from calculators.llm.grammars.automaton import Automaton, make_automaton
from calculators.llm.grammars.regular_expression import (
    LAST,
    Alternation,
    CharClass,
    Concatenation,
    Node,
    Ranges,
    Repeat,
)

#: Letters at the end that have states of their own. Tokens longer than one more are not allowed.
#: xgrammar visits the whole vocabulary for each state: `maxLength: 32` as states took more than a
#: second with 150,000 tokens, so only the last 12 repeats have states (decision 0017).
NEAR: Final = 12
#: The same in strings with nearly all letters, but not all of them (``[^\n\r]{0,300}``): with
#: 150,000 tokens each kind of such letters takes 0.2 s, and 0.04 s less with these.
_NEAR_OF_OTHERS: Final = 5
#: Letters that one rule reads where each is one character; it divides `NEAR`. The library reads the
#: letters of one rule fast, but it looks at all tokens up to the end of the rule.
_STEP: Final = 3
#: Letters from which on an end that all of some texts have is written once.
_LONG_END: Final = 4
#: Letters of a text in all places but one, above which it has a rule of its own.
_OFTEN: Final = 40
#: Ways to write one letter; with more the automaton is used.
MAX_WAYS: Final = 16
Word = tuple[Ranges, ...]


@dataclass(frozen=True, slots=True)
class BoundedRepeat:
    """``low`` to ``high`` letters between two texts; None is without end.

    Attributes:
        ways: the ways to write one letter; none is a prefix of another or of ``end``.
        stop: the first letter of ``end``, or a letter with which no way begins.
    """

    begin: Word
    letter: Node
    ways: tuple[Word, ...]
    low: int
    high: int | None
    end: Word
    stop: Word

    @property
    def is_short(self) -> bool:
        """True if states of its own cost less than the rule that counts, but for other counts."""
        return self.high is None and self.low <= self.reach

    @property
    def reach(self) -> int:
        """The number of letters at the end that have states of their own."""
        is_escaped = len(self.ways) > 1 and any(way[-1][-1][1] == LAST for way in self.ways)
        return _NEAR_OF_OTHERS if is_escaped and self.letter != json_text.LETTER else NEAR

    @property
    def far(self) -> int:
        """The number of letters that rules count."""
        return self.low if self.high is None else self.high - self.reach

    @property
    def near(self) -> Node:
        """The remaining letters and the end, for an automaton."""
        rest = None if self.high is None else self.reach
        # Letters that are not counted may have all escapes, as in any string.
        is_any = rest is None and self.letter == json_text.LETTER
        letter = json_text.ANY_LETTER if is_any else self.letter
        node = Repeat(letter, max(0, self.low - self.far), rest)
        return Concatenation((node, *map(CharClass, self.end)))


def counted_letters(node: Node) -> BoundedRepeat | None:
    """Convert an expression of this kind; None where it is another, or too short to pay off."""
    parts = node.items if isinstance(node, Concatenation) else (node,)
    places = [at for at, part in enumerate(parts) if isinstance(part, Repeat)]
    if len(places) != 1:
        return None
    counted = parts[places[0]]
    assert isinstance(counted, Repeat)
    if not counted.low if counted.high is None else counted.high <= NEAR:
        return None
    begin = _only(Concatenation(parts[: places[0]]))
    end = _only(Concatenation(parts[places[0] + 1 :]))
    ways = _ways(counted.item)
    if begin is None or end is None or not ways:
        return None
    stop = end[:1] or _other_letter(ways)
    if not stop or not all(_differ(*pair) for pair in combinations((*ways, stop), 2)):
        return None
    return BoundedRepeat(begin, counted.item, ways, counted.low, counted.high, end, stop)


def _only(node: Node) -> Word | None:
    words = _words(node)
    return words[0] if words is not None and len(words) == 1 else None


def _ways(node: Node) -> tuple[Word, ...] | None:
    """Return the ways to write a letter; ways that differ only in their last letter are one."""
    words = _words(node)
    if words is None or () in words:
        return None
    lasts: dict[Word, list[tuple[int, int]]] = {}
    for word in words:
        lasts.setdefault(word[:-1], []).extend(word[-1])
    if len(lasts) > MAX_WAYS or any(_overlap(last) for last in lasts.values()):
        return None
    return tuple((*first, tuple(sorted(last))) for first, last in lasts.items())


def _words(node: Node) -> list[Word] | None:
    """List the texts of an expression, letter by letter; None where they are endless."""
    match node:
        case CharClass(ranges):
            return [(ranges,)]
        case Alternation(items):
            found = [_words(item) for item in items]
            return [word for words in found for word in words or ()] if all(found) else None
        case Concatenation(items):
            made: list[Word] = [()]
            for item in items:
                words = _words(item)
                if words is None or len(words) * len(made) > 100:
                    return None
                made = [(*first, *second) for first in made for second in words]
            return made
        case _:
            return None


def _other_letter(ways: tuple[Word, ...]) -> Word:
    for code in range(0x80):
        word = (((code, code),),)
        if all(_differ(word, way) for way in ways):
            return word
    return ()


def _differ(one: Word, other: Word) -> bool:
    """True if the words differ at a position that both have, where no character fits both."""
    pairs = zip(one, other, strict=False)
    return any(not _overlap([*mine, *others]) for mine, others in pairs)


def _overlap(ranges: list[tuple[int, int]]) -> bool:
    ordered = sorted(ranges)
    return any(low <= last for (_, last), (low, _) in pairwise(ordered))


#: Characters of all rules of one grammar.
MAX_SIZE: Final = 1_000_000
#: Repetitions are counted in blocks, of so many blocks each, so that a count takes few rules.
#: The chain counts in blocks of blocks: `maxLength: 16777216` takes 130 ms, as `maxLength: 60` does
#: (decision 0017).
_BLOCK: Final = 16


class GrammarTooLarge(ValueError):
    """The rules exceed `MAX_SIZE`."""


class UnboundedGrammarError(ValueError):
    """No finite text fits the rules."""


class Rules:
    """The rules of one grammar, by name; equal bodies are one rule."""

    def __init__(self) -> None:
        self._bodies: list[str] = []
        self._numbers: dict[str, int] = {}
        self._expressions: dict[Node, str] = {}
        #: Short counts, and the ways to write a letter that others count already.
        self._short: list[tuple[str, Automaton, BoundedRepeat]] = []
        self._counted: set[tuple[Word, ...]] = set()
        self._size = 0

    def reserve(self) -> str:
        """Return a name whose rule is defined later, for rules that refer to themselves."""
        self._bodies.append("")
        return f"r{len(self._bodies) - 1}"

    def define(self, name: str, body: str) -> None:
        """Define the rule of a reserved name.

        Raises:
            GrammarTooLarge: there are too many rules.
        """
        self._size += len(body) + len(name)
        if self._size > MAX_SIZE:
            raise GrammarTooLarge("it becomes too large a grammar")
        self._bodies[int(name[1:])] = body

    def add(self, body: str) -> str:
        """Add a rule; return its name."""
        number = self._numbers.get(body)
        if number is not None:
            return f"r{number}"
        name = self.reserve()
        self.define(name, body)
        self._numbers[body] = int(name[1:])
        return name

    def add_expression(self, node: Node) -> str:
        """Add the rules of an expression; return the name of the first.

        Raises:
            TooComplex: see `make_automaton`.
        """
        known = self._expressions.get(node)
        if known is not None:
            return known
        counted = counted_letters(node)
        if counted is None:
            name = self._add_automaton(node)
        elif counted.is_short:
            # Decided when all is known: whether another count has made its rule.
            name = self.reserve()
            self._short.append((name, make_automaton(node), counted))
        else:
            name = self._add_counted(counted)
        self._expressions[node] = name
        return name

    def _add_automaton(self, node: Node) -> str:
        return self.add_automaton(make_automaton(node))

    def add_automaton(self, automaton: Automaton) -> str:
        """Add the rules of an automaton; return the name of the first."""
        names = [self.reserve() for _ in automaton.moves]
        for state, moves in enumerate(automaton.moves):
            branches = ['""'] if state in automaton.final else []
            branches += [f"{letters(ranges)} {names[goal]}" for ranges, goal in moves]
            self.define(names[state], " | ".join(branches))
        return names[0]

    def any_string(self) -> str:
        """Add the rules of any JSON string; return the name of the first."""
        return self.add(f"{literal(chr(34))} {self.add_expression(json_text.STRING_REST)}")

    def add_string(self, automaton: Automaton) -> str:
        """Add the rules of the JSON strings with these letters; return the name of the first."""
        names = [self.reserve() for _ in automaton.moves]
        quote = literal('"')
        rest = None
        for state, moves in enumerate(automaton.moves):
            if state in automaton.final and moves == ((((0, LAST),), state),):
                # Any letters may follow: the rest of any string.
                rest = rest or self.add_expression(json_text.STRING_REST)
                self.define(names[state], rest)
                continue
            branches = [quote] if state in automaton.final else []
            for ranges, goal in moves:
                branches += (f"{each} {names[goal]}" for each in _in_string(ranges))
            self.define(names[state], " | ".join(branches))
        return self.add(f"{quote} {names[0]}")

    def add_pieces(self, node: Node) -> str:
        """Add the rules of a sequence whose last repetition is counted; return the first's name.

        Raises:
            TooComplex: see `make_automaton`.
            NoTextError: no text matches.
        """
        items = _flat(node)
        counted = counted_letters(Concatenation(items))
        if counted is not None:
            return self.add_expression(Concatenation(items))
        at = max((at for at, item in enumerate(items) if isinstance(item, Repeat)), default=0)
        tail = Concatenation(items[at:])
        if not at or counted_letters(tail) is None:
            return self.add_expression(node)
        return self.add(
            f"{self.add_expression(Concatenation(items[:at]))} {self.add_expression(tail)}"
        )

    def one_of(self, texts: Iterable[str]) -> str:
        """Add the rule of one of some literals; return its name.

        No two ways of a rule begin with the same byte here: xgrammar 0.1.31 joins ways that begin
        or end alike, and takes `"dc" | "xab" | "xac"` for a rule that "db" fits too.
        """
        ways = [tuple(_LETTER.findall(text[1:-1])) for text in texts]
        # What follows all of them, in a form that has marks, is written once.
        end = min(_alike([way[::-1] for way in ways]), min(map(len, ways)) - _alike(ways))
        if end < _LONG_END:
            return self._one_of(ways)
        begun = self._one_of([way[:-end] for way in ways])
        return self.add(f'{begun} "{"".join(ways[0][-end:])}"')

    def _one_of(self, texts: Sequence[tuple[str, ...]]) -> str:
        alike: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
        for text in texts:
            alike.setdefault(text[:1], []).append(text)
        ways: list[str] = []
        for those in alike.values():
            length = _alike(those)
            way = f'"{"".join(those[0][:length])}"'
            if len(those) > 1:
                way += f" {self._one_of([text[length:] for text in those])}"
            if not "".join(those[0][:1]).isascii():
                # Letters of several bytes may begin with the same one: the way is a rule.
                way = self.add(f"{way} {self.add(literal(''))}")
            ways.append(way)
        return self.add(" | ".join(ways))

    def nothing(self) -> str:
        """Return the rule that no text fits."""
        name = self.reserve()
        self.define(name, name)
        return name

    def counted(self, step: str, low: int, high: int, end: str, *, last: str | None = None) -> str:
        """Add the rule of ``low`` to ``high`` steps and an end; return its name.

        Args:
            step, end: names of rules. No text of a step begins a text of the end.
            last: the rule after ``high`` steps, for which ``end`` is one possible text.
        """
        name = end if last is None else last
        left, level = high - low, 0
        while left:
            # A whole block, or an end within it: the two are read side by side.
            left, digit = divmod(left, _BLOCK) if left > _BLOCK * 4 else (0, left)
            for _ in range(digit):
                name = self.add(
                    f"{self._block(step, level)} {name} | {self._within(step, level, end)}"
                )
            level += 1
        left, level = low, 0
        while left:
            left, digit = divmod(left, _BLOCK) if left > _BLOCK * 4 else (0, left)
            for _ in range(digit):
                name = self.add(f"{self._block(step, level)} {name}")
            level += 1
        return name

    def _block(self, step: str, level: int) -> str:
        """Return the rule of ``_BLOCK ** level`` steps."""
        if not level:
            return step
        return self.add(" ".join([self._block(step, level - 1)] * _BLOCK))

    def _within(self, step: str, level: int, end: str) -> str:
        """Return the rule of an end after fewer steps than a block has."""
        name = end
        for inner in range(level):
            within = self._within(step, inner, end)
            for _ in range(_BLOCK - 1):
                name = self.add(f"{self._block(step, inner)} {name} | {within}")
        return name

    def _define_short(self) -> None:
        for name, automaton, counted in self._short:
            is_shared = counted.ways in self._counted
            made = self._add_counted(counted) if is_shared else self.add_automaton(automaton)
            self.define(name, made)
        self._short.clear()

    def _add_counted(self, counted: BoundedRepeat) -> str:
        self._counted.add(counted.ways)
        nothing = self.add('""')
        stop = self.add(f"{_word(counted.stop)} {nothing}")
        following = stop
        if counted.ways[0][1:] or counted.ways[1:]:
            ways = " | ".join(self._way(way, nothing) for way in counted.ways)
            letter = self.add(ways)
            for _ in range(counted.reach):
                following = self.add(f"{letter} {following} | {stop}")
        else:
            [(ranges,)] = counted.ways
            ways = _kept("", ranges, nothing)
            step, end = self._steps(ranges, counted.stop, nothing)
            for _ in range(counted.reach // _STEP):
                following = self.add(f"{step} {following} | {end}")
        # The lookahead must stand at the end of its rule, and `_useful` leaves it there: the last
        # way is the one that needs it, and is completed after the others.
        far = self.add(f"{self.add(f'{ways} (= {following})')} {nothing}")
        low = min(counted.low, counted.far)
        if counted.end == counted.stop and counted.high is not None and low == counted.low:
            near = following
        else:
            near = self.add_expression(counted.near)
        end = self.add(f"{_word(counted.end)} {nothing}") if counted.end else nothing
        name = self.counted(far, low, counted.far, end, last=near)
        return self.add(f"{_word(counted.begin)} {name}")

    def _steps(self, ranges: Ranges, stop: Word, nothing: str) -> tuple[str, str]:
        """Add the rules of a few letters, and of an end after fewer; return their names."""
        letter = f"{letters(ranges)} "
        ends = (f"{letter * count}{_word(stop)} {nothing}" for count in range(_STEP))
        return self.add(_kept(letter * (_STEP - 1), ranges, nothing)), self.add(" | ".join(ends))

    def _way(self, way: Word, nothing: str) -> str:
        """Write a way to write a letter; longer ones end in a rule of their own."""
        if len(way) == 1:
            return _word(way)
        return f"{_word(way[:-1])} {self.add(f'{_word(way[-1:])} {nothing}')}"

    def text(self, first: str) -> str:
        """Return the grammar that begins with this rule, without alternatives that cannot end.

        Raises:
            UnboundedGrammarError: no finite text fits the rule.
        """
        self._define_short()
        useful = self._useful()
        if int(first[1:]) not in useful:
            raise UnboundedGrammarError(
                "no finite answer fits it: it refers to itself without a way out"
            )
        reached = {int(first[1:])}
        waiting = list(reached)
        while waiting:
            for needed in _alternatives(useful[waiting.pop()]).values():
                waiting += needed - reached
                reached |= needed
        bodies = {number: useful[number] for number in sorted(reached)}
        bodies |= _shared_texts(bodies, len(self._bodies))
        lines = [f"root ::= {first}", *(f"r{number} ::= {bodies[number]}" for number in bodies)]
        return "\n".join(lines) + "\n"

    def _useful(self) -> dict[int, str]:
        """Return the rules with a finite text, with only the alternatives that have one."""
        waiting: dict[int, list[tuple[int, str]]] = {}
        missing: dict[tuple[int, str], int] = {}
        useful: dict[int, list[str]] = {}
        found: list[int] = []

        def completed(number: int, alternative: str) -> None:
            if number not in useful:
                useful[number] = []
                found.append(number)
            useful[number].append(alternative)

        for number, body in enumerate(self._bodies):
            for alternative, needed in _alternatives(body).items():
                for name in needed:
                    waiting.setdefault(name, []).append((number, alternative))
                if needed:
                    missing[number, alternative] = len(needed)
                else:
                    completed(number, alternative)
        while found:
            for key in waiting.get(found.pop(), ()):
                missing[key] -= 1
                if not missing[key]:
                    completed(*key)
        return {number: " | ".join(useful[number]) for number in sorted(useful)}


def _shared_texts(bodies: Mapping[int, str], unused: int) -> dict[int, str]:
    """Return the rules that have texts which come often, with a rule for each of these texts.

    The library looks at tokens for each byte of a text, wherever it is written. Rules of several
    ways stay as they are: it merges their beginnings and ends, and wrongly where both are short.

    Args:
        unused: a number from which on no rule has one.
    """
    found = {
        number: _TEXT.findall(body)
        for number, body in bodies.items()
        if " | " not in body and body[0] != "T"
    }
    counts: dict[str, int] = {}
    for text in chain.from_iterable(found.values()):
        counts[text] = counts.get(text, 0) + 1
    often = [text for text, count in counts.items() if (count - 1) * len(text) > _OFTEN]
    names = {text: f"r{unused + at}" for at, text in enumerate(often, 1)}
    changed = {
        number: _TEXT.sub(lambda found: names.get(found[0], found[0]), bodies[number])
        for number, texts in found.items()
        if not names.keys().isdisjoint(texts)
    }
    # A rule without a reference would be written where it is referred to.
    added = {int(name[1:]): f"{text} r{unused}" for text, name in names.items()}
    return changed | added | ({unused: '""'} if added else {})


def _alike(texts: Sequence[tuple[str, ...]]) -> int:
    """Return the number of letters with which all texts begin."""
    columns = enumerate(zip(*texts, strict=False))
    return next((at for at, column in columns if len({*column}) > 1), min(map(len, texts)))


def _flat(node: Node) -> tuple[Node, ...]:
    """Return the items of a sequence, without sequences among them."""
    if not isinstance(node, Concatenation):
        return (node,)
    return tuple(each for item in node.items for each in _flat(item))


def _in_string(ranges: Ranges) -> Iterator[str]:
    """Write letters of a JSON string: as they are, and as escapes."""
    plain = json_text.common(ranges, json_text.PLAIN)
    if plain:
        yield letters(plain)
    short = json_text.short_escapes(ranges)
    if short:
        yield f"{literal(chr(92))} {letters(short)}"
    if not plain and not short:
        for low, high in json_text.common(ranges, json_text.CONTROLS):
            for code in range(low, high + 1):
                yield literal(f"\\u{code:04x}")


_TEXT: Final = re.compile(r'"[^"]+"')
_LETTER: Final = re.compile(r"\\u.{4}|\\U.{8}|.", re.DOTALL)
_TOKEN: Final = re.compile(
    r'TagDispatch\(.*\)$|\(=|"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|r(\d+)|[^\s]'
)
#: The rules of tags in the library's rule of any text; names are not part of its literals.
_DISPATCHED: Final = re.compile(r'", r(\d+)\)')


def _alternatives(body: str) -> dict[str, set[int]]:
    """Split the body of a rule into its alternatives, with the rules that each needs."""
    found: dict[str, set[int]] = {}
    words: list[str] = []
    needed: set[int] = set()
    for token in [*_TOKEN.finditer(body), None]:
        if token is None or token[0] == "|":
            found[" ".join(words)] = needed
            words, needed = [], set()
        else:
            words.append(token[0])
            if token[1] is not None:
                needed.add(int(token[1]))
            elif token[0].startswith("TagDispatch"):
                needed.update(int(found[1]) for found in _DISPATCHED.finditer(token[0]))
    return found


def literal(text: str) -> str:
    """Write a text as a literal."""
    return '"' + "".join(map(_in_text, text)) + '"'


def _word(word: Word) -> str:
    return " ".join(map(letters, word))


def _kept(before: str, ranges: Ranges, nothing: str) -> str:
    """Write a letter after others so that the library keeps its rule as a rule of its own.

    It inlines a rule without references. One after every letter would cost more.
    """
    (low, last), *others = ranges
    rest = ((low, last - 1), *others) if low < last else tuple(others)
    kept = f"{before}{letters(((last, last),))} {nothing}"
    return f"{before}{letters(rest)} | {kept}" if rest else kept


def letters(ranges: Ranges) -> str:
    """Write ranges as a class of letters."""
    shown = (
        _in_class(low) if low == high else f"{_in_class(low)}-{_in_class(high)}"
        for low, high in _by_bytes(ranges)
    )
    return "[" + "".join(shown) + "]"


def _by_bytes(ranges: Ranges) -> Iterator[tuple[int, int]]:
    """Split ranges so that each part is one range at each of its bytes in UTF-8.

    Source: the construction of RE2, ``re2/compile.cc``. xgrammar 0.1 misreads other ranges.
    Surrogates are left out: they have no UTF-8.
    """
    waiting = [part for low, high in reversed(ranges) for part in ((max(low, 0xE000), high),
               (low, min(high, 0xD7FF)))]  # fmt: skip
    while waiting:
        low, high = waiting.pop()
        if low > high:
            continue
        middle = _split_at(low, high)
        if middle is None:
            yield low, high
        else:
            waiting += [(middle, high), (low, middle - 1)]


def _split_at(low: int, high: int) -> int | None:
    """Return the first code point of the second part; None: the range need not be split."""
    for last in (0x7F, 0x7FF, 0xFFFF):
        if low <= last < high:
            return last + 1
    if high > 0x7F:
        for tail in (0x3F, 0xFFF, 0x3FFFF):
            if low & ~tail != high & ~tail:
                if low & tail:
                    return (low | tail) + 1
                if high & tail != tail:
                    return high & ~tail
    return None


def _in_text(letter: str) -> str:
    code = ord(letter)
    if letter in '"\\' or code < 0x20 or code == 0x7F:
        return _escaped(code)
    return letter


def _in_class(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else _escaped(code)


def _escaped(code: int) -> str:
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
