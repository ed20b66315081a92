"""Redacted text: independent of cuts, without leaks, holding back only what may still match."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calculators.language.redaction.redactors import TextRedactor
from calculators.language.testing import every_cut
from calculators.language.text_patterns import Patterns
from tests.calculators.language.redaction.cases import redacted_whole


def fed(patterns: Patterns, pieces: Sequence[str], mask: str = "*") -> str:
    redactor = TextRedactor(patterns, mask)
    return "".join([*map(redactor.feed, pieces), redactor.finish()])


_SETS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("ab",), ()),
    (("ab", "abc", "cab"), ()),
    (("abab", "abac", "b"), ()),
    ((), ("abca|b",)),
    ((), ("ab|abca",)),
    ((), ("a{2,4}",)),
    ((), ("a{1,3}?b",)),
    ((), (r"\bab\b",)),
    ((), (r"a\B", r"\b[bc]{1,2}\b")),
    ((), (r"ab$", "^c")),
    ((), ("(?:a|bc){1,3}c",)),
    ((), ("(?>a{1,3})b", "a{1,2}+c")),
    (("ca",), ("[^a]b{1,2}", ".c")),
    (("abc",), (r"\bab\b", r"c\ba", "(?i:B)c")),
]


@pytest.mark.parametrize(("words", "expressions"), _SETS)
def test_all_cuts_of_a_text_give_the_same_result(
    words: tuple[str, ...], expressions: tuple[str, ...]
) -> None:
    patterns = Patterns(words, expressions)
    source = random.Random(repr((words, expressions)))
    texts = ["".join(source.choices("abc ", k=9)) for _ in range(6)]
    texts.append("".join(source.choices("abc ", k=12)))
    for text in texts:
        expected = redacted_whole(text, words, expressions)
        for pieces in every_cut(text):
            assert fed(patterns, pieces) == expected, pieces


def _expressions() -> st.SearchStrategy[str]:
    atoms = st.sampled_from(["a", "b", "c", "[ab]", "[^a]", ".", r"\w", r"\b", r"\B", "$", "^"])
    counts = st.sampled_from(["?", "??", "{2}", "{1,2}", "{1,3}?", "{0,2}+", "{0,3}"])

    def larger(smaller: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        return st.one_of(
            st.tuples(smaller, smaller).map("".join),
            st.tuples(smaller, smaller).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
            st.tuples(smaller, counts).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
            smaller.map(lambda each: f"(?>{each})"),
        )

    return st.recursive(atoms, larger, max_leaves=6)


@settings(max_examples=80, deadline=None)
@given(
    expressions=st.lists(_expressions(), min_size=1, max_size=2),
    words=st.lists(st.text("abc", min_size=1, max_size=4), max_size=2),
    text=st.text("abc \n", max_size=7),
)
def test_random_expressions_give_the_same_result_however_the_text_is_cut(
    expressions: list[str], words: list[str], text: str
) -> None:
    # A letter more, so that no expression matches the empty text.
    expressions = [f"{each}[abc]" for each in expressions]
    patterns = Patterns(words, expressions)
    expected = redacted_whole(text, words, expressions)
    for pieces in every_cut(text):
        assert fed(patterns, pieces) == expected, pieces


@given(st.text("pasword d", max_size=40), st.data())
def test_no_word_of_the_list_is_left_in_a_text(text: str, data: st.DataObject) -> None:
    patterns = Patterns(("pass", "password", "word"), ())
    places = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12)))
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    made = fed(patterns, pieces)
    assert "pass" not in made
    assert "word" not in made


def test_text_that_cannot_become_a_match_is_let_go_at_once() -> None:
    redactor = TextRedactor(Patterns(("password",), ()), "***")
    assert redactor.feed("The pas") == "The "
    assert redactor.held == 3
    assert redactor.feed("ta is") == "pasta is"
    assert redactor.held == 0


def test_the_mask_is_not_looked_at_again() -> None:
    patterns = Patterns(("ab",), ())
    assert fed(patterns, ["aab", "b"], "a") == "aab"


def test_case_is_ignored_letter_by_letter_in_every_alphabet() -> None:
    patterns = Patterns(("größe", "οδός", "kelvin"), (), ignore_case=True)
    text = "GRÖẞE Größe ΟΔΌΣ \u212aelvin"
    assert fed(patterns, list(text)) == "* * * *"


@pytest.mark.parametrize(
    ("pieces", "expression", "expected"),
    [
        (["ab", "cd"], "abcd|b", "*"),
        (["ab", "ce"], "abcd|b", "a*ce"),
        (["abc", "d"], "abcd|ab", "*"),
        (["pass", "port"], r"\bpass\b", "passport"),
        (["foo", "x"], r"foo\B", "*x"),
        (["-", "foo"], r"-\bfoo", "*"),
        (["a\n", "b"], "a$", "a\nb"),
        (["a", "\n"], "a$", "*\n"),
        (["a", "b"], "(?:[^a]|[^b])c?", "**"),
        (["a", "\n", "b"], "(?ms)a.^b", "*"),
    ],
)
def test_a_match_that_only_seems_decided_is_not(
    pieces: list[str], expression: str, expected: str
) -> None:
    assert fed(Patterns((), (expression,)), pieces) == expected
    assert fed(Patterns((), (expression,)), ["".join(pieces)]) == expected


def test_two_expressions_that_negate_a_letter_both_match() -> None:
    assert fed(Patterns((), ("[^a]x", "[^b]x")), list("axbx")) == "**"


def test_a_large_text_with_many_matches_takes_time_in_proportion() -> None:
    patterns = Patterns(("ab",), (r"\d{3}-\d{2}",))
    assert fed(patterns, ["ab " * 50_000]) == "* " * 50_000
