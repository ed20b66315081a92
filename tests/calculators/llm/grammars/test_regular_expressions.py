"""Regular expressions become automata of the same texts; others are refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.llm.grammars.automaton import TooComplex, make_automaton
from calculators.llm.grammars.regular_expression import RegexError, parse_regex
from tests.calculators.llm.grammars.automata import accepts

EXPRESSIONS = (
    "",
    "abc",
    "a|b|",
    "[a-c]{2}-[0-9]+",
    "(a|b)*abb",
    "(a*a*)*b",
    "(?:ab?){2,3}",
    "[^ab]c?",
    r"\d\w\s",
    r"\D\W\S",
    r"[\]\-^]+",
    r"a\.b\n\x41\u0042",
    "a{0}b{,}".replace("{,}", ""),
    "é+[à-ÿ]",
    ".a.",
    "(a+)+b",
    "a+?b*?",
)
LETTERS = "abc-01 .\n]^AéàB_"


@given(st.text(LETTERS, max_size=8))
@pytest.mark.parametrize("pattern", EXPRESSIONS)
def test_the_matched_texts_are_those_of_python(pattern: str, text: str) -> None:
    expected = re.fullmatch(pattern, text, re.ASCII) is not None
    assert accepts(make_automaton(parse_regex(pattern)), text) is expected


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("^a", ["a", "ab", "a\n"], ["ba", ""]),
        ("a$", ["a", "ba"], ["ab", ""]),
        ("^a$", ["a"], ["ab", "ba"]),
        ("^a|b$", ["ax", "xb"], ["xa", "bx"]),
        ("a", ["a"], ["ab", "ba"]),
    ],
)
def test_an_anchor_leaves_the_other_end_open(pattern: str, yes: list[str], no: list[str]) -> None:
    automaton = make_automaton(parse_regex(pattern))
    assert all(accepts(automaton, text) for text in yes)
    assert not any(accepts(automaton, text) for text in no)


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(abc", "a parenthesis that is not closed at character 1"),
        ("abc)", "an unopened parenthesis at character 4"),
        ("a{5,2}", "backwards at character 2"),
        ("a{2,9999}", "a count above 512"),
        ("a{99999999999999}", "a count above 512"),
        ("*", "nothing to repeat at character 1"),
        ("a**", "a repetition of a repetition"),
        ("(?<=a)b", "assertions and flags are not supported at character 1"),
        ("(?=a)b", "assertions and flags"),
        ("(?i)b", "assertions and flags"),
        (r"(a)\1", "back references are not supported at character 4"),
        (r"\p{L}", "Unicode classes are not supported"),
        (r"\bword", "word boundaries are not supported"),
        (r"a\y", "an unknown escape"),
        ("[z-a]", "backwards"),
        ("[a", "a class that is not closed"),
        (r"[^\s\S]", "a class of no letters"),
        ("a{b", "a brace that repeats nothing"),
        ("a^b", "an anchor in the middle at character 2"),
        ("a$b", "an anchor in the middle"),
        ("(a$)b", "an anchor in a group"),
        (r"\ud800", "no code point"),
        ("a\\", "a backslash at the end"),
        ("(" * 60 + "a" + ")" * 60, "groups nested deeper than 50"),
    ],
)
def test_unsupported_expressions_are_refused_with_their_place(pattern: str, why: str) -> None:
    with pytest.raises(RegexError, match=re.escape(why)):
        parse_regex(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["(a|b)*a(a|b){20}", "((a{0,500}){0,500}){0,500}", "(.{0,500}a){300}"],
)
def test_expressions_of_exponential_size_are_refused(pattern: str) -> None:
    with pytest.raises(TooComplex):
        make_automaton(parse_regex(pattern))
