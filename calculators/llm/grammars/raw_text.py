"""Texts that are written as they are, up to a mark: rules of any text, and of strings of schemas.

Such a text has no escapes, so it cannot have its mark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from calculators.llm.grammars.automaton import (
    Automaton,
    NoTextError,
    TooComplex,
    intersection,
    make_automaton,
    smallest,
)
from calculators.llm.grammars.grammar import SpecialLetters
from calculators.llm.grammars.json_text import common
from calculators.llm.grammars.notation import Notation
from calculators.llm.grammars.regular_expression import (
    ANY_TEXT,
    LAST,
    Alternation,
    CharClass,
    Concatenation,
    Node,
    Not,
    Ranges,
    Repeat,
    all_but,
    text_node,
)
from calculators.llm.grammars.rules import NEAR, Rules, literal
from calculators.llm.grammars.schema_document import NoValueError, SchemaError
from calculators.llm.grammars.schema_parts import SchemaPart
from calculators.llm.grammars.schema_scalars import Strings, hostname_rule

#: Letters that are counted together with those that may begin a mark.
_FEW: Final = 3
_NO_MARK: Final[Ranges] = ((0, LAST),)


def dispatch(
    rules: Rules,
    pairs: Sequence[tuple[str, str]],
    ends: Sequence[str],
    excludes: Iterable[str],
    *,
    loops: bool,
) -> str:
    """Add the library's rule of any text; return its name.

    Args:
        pairs: texts at which the rule of this name follows; these and all others are in the
            letters of special tokens.
        ends: texts that end it.
        loops: the text goes on after a rule that followed.
    """
    arguments = [
        *(f"({literal(text)}, {rule})" for text, rule in pairs),
        f"stop_eos={'false' if ends else 'true'}",
        f"stop_str=({', '.join(map(literal, ends))})",
        f"loop_after_dispatch={'true' if loops else 'false'}",
    ]
    # The library heeds them only in a text that goes on after the tags.
    refused = ", ".join(map(literal, excludes)) if loops else ""
    return rules.add(f"TagDispatch({', '.join([*arguments, f'excludes=({refused})'])})")


def text_until(rules: Rules, special: SpecialLetters, mark: str) -> str:
    """Add the rule of any text without special tokens, and of the mark; return its name.

    ``mark``: in the letters of special tokens.
    """
    if ord(mark[0]) > LAST:
        any_letters = Repeat(CharClass(_NO_MARK), 0, None)
        return rules.add(f"{rules.add_expression(any_letters)} {literal(mark)}")
    return dispatch(rules, (), (mark,), special.others(mark), loops=True)


def without(automaton: Automaton, mark: str) -> Automaton:
    """Return the automaton of those of its texts that do not have a mark.

    Raises:
        NoTextError, TooComplex: there are none, or it has too many states.
    """
    if ord(mark[0]) > LAST:
        return automaton
    others = make_automaton(Not(Concatenation((ANY_TEXT, text_node(mark), ANY_TEXT))))
    return smallest(intersection(automaton, others))


class RawStrings:
    """Makes the rules of strings that are written as they are, with what stands around them."""

    def __init__(self, rules: Rules, notation: Notation, special: SpecialLetters) -> None:
        self._rules = rules
        self._special = special
        self._stop = notation.stop
        self._pad = self._rest = ""
        if notation.is_raw:
            assert notation.frame is not None
            frame = notation.frame
            self._begin, self._pad, self._rest = frame.before("string"), frame.pad, frame.rest
        else:
            self._begin = notation.quote
            if notation.frame is not None:
                self._begin = notation.frame.before("string") + self._begin
                self._rest = notation.frame.after

    def rule(self, parts: Sequence[SchemaPart], leave_out: Callable[[str, str], None]) -> str:
        """Add the rule of the strings that some parts allow; return its name.

        Raises:
            NoValueError: there are none.
        """
        strings = Strings(parts, leave_out)
        place = parts[0].place if parts else ""
        has_counts = strings.low > 0 or strings.high is not None
        if has_counts and len(strings.nodes) == 1 and not strings.refused:
            node = strings.nodes[0][0]
            if isinstance(node, Repeat) and isinstance(node.item, CharClass):
                return self._counted(strings.low, strings.high, node.item.ranges)
        after = self._pad + self._stop
        if strings.is_hostname and not (after[0].isalnum() or after[0] in "-."):
            return self._framed(hostname_rule(self._rules, "", after[0]), after[1:] + self._rest)
        if strings.nodes or strings.refused:
            try:
                return self.of_automaton(strings.language(leave_out))
            except NoTextError:
                raise NoValueError(place, "no string is valid") from None
            except TooComplex as error:
                raise SchemaError(place, str(error)) from None
        if has_counts:
            return self._counted(strings.low, strings.high)
        return self._framed(text_until(self._rules, self._special, self._stop), self._rest)

    def of_automaton(self, automaton: Automaton) -> str:
        """Add the rule of the strings with these letters; return its name.

        Raises:
            NoTextError, TooComplex: no string is without the mark, or it has too many states.
        """
        made = self._rules.add_automaton(self._without_mark(automaton))
        return self._framed(made, self._pad + self._stop + self._rest)

    def _without_mark(self, automaton: Automaton) -> Automaton:
        try:
            exact = without(automaton, self._stop)
        except TooComplex:
            return without(automaton, self._stop[:2])
        if len(exact.moves) <= 2 * len(automaton.moves):
            return exact
        # A state for each beginning of the mark, in each of which nearly any letter may follow,
        # costs the library up to ten times as much. Few texts have its first two letters.
        try:
            return without(automaton, self._stop[:2])
        except NoTextError:
            return exact

    def _counted(self, low: int, high: int | None, letters: Ranges = _NO_MARK) -> str:
        stop = self._stop
        least = low + bool(self._pad)  # the parser leaves out the pad, which counts as a letter
        is_any = letters is _NO_MARK and len(stop) > 1 and ord(stop[0]) <= LAST
        if high is None and is_any and least <= NEAR:
            return self._framed(self._at_least(least), self._rest)
        # Letters are counted one by one, so none may begin the mark.
        letters = common(letters, all_but(((ord(stop[0]),) * 2,)))
        end = stop
        pad = ord(self._pad[0]) if self._pad else LAST + 1
        if any(first <= pad <= last for first, last in letters):
            # The parser leaves out the pad, which counts as a letter here.
            if not low or high is None or low < high:
                low += low > 0
            else:
                letters = common(letters, all_but(((pad, pad),)))
                end = self._pad + end
        else:
            end = self._pad + end
        # One letter ends what is counted: rules of longer ends cost as much again.
        node = Concatenation((Repeat(CharClass(letters), low, high), text_node(end[0])))
        return self._framed(self._rules.add_expression(node), end[1:] + self._rest)

    def _at_least(self, low: int) -> str:
        """Return the rule of texts with at least so many letters, and the mark.

        Of these letters, those with which the mark begins count as one together with the one that
        follows them, which is not the mark's second one; if many are needed, they are not taken.
        """
        first, second = (((ord(letter),) * 2,) for letter in self._stop[:2])
        step: Node = CharClass(all_but(first))
        if low <= _FEW:
            other = CharClass(all_but(tuple(sorted({*first, *second}))))
            begun = CharClass(first) if first == second else Repeat(CharClass(first), 1, None)
            step = Alternation((step, Concatenation((begun, other))))
        begin = self._rules.add_expression(Repeat(step, low, low))
        return self._rules.add(f"{begin} {text_until(self._rules, self._special, self._stop)}")

    def _framed(self, rule: str, after: str) -> str:
        parts = (literal(self._begin) if self._begin else "", rule, literal(after) if after else "")
        return self._rules.add(" ".join(filter(None, parts)))
