"""Regular expressions become automata of the same texts; others are refused."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.llm.grammars.automaton import TooComplex, make_automaton
from calculators.llm.grammars.regular_expression import RegexError, parse_regex, parse_search

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
    # Where readers differ in the letters of classes, as ECMA 262 and Python do, neither is wrong.
    expected = all(re.fullmatch(pattern, text, flags) for flags in (re.ASCII, re.UNICODE))
    assert make_automaton(parse_regex(pattern)).accepts(text) is expected


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
    assert all(automaton.accepts(text) for text in yes)
    assert not any(automaton.accepts(text) for text in no)


SEARCHES = (
    "b", "^a", "b$", "^a|b$", "(^a|b$)c", "a^b|c", r"\bab\b", r"\Bb\B|^$", r"a\b-",
    "^(?=.*b)(?=.*c).{2,4}$", "^(?!ab)a", "(?<=a)b", "(?<!a)b", "a(?!b|$)", "b(?=c)", "(?!.*a)b",
    "^(?:(?!ab)a|b)", "^a(?:(?=b)[a-c]|c)?$", "^(?=(?!ab)a)",
)  # fmt: skip


@given(st.text("abc- \n_", max_size=7))
@pytest.mark.parametrize("pattern", SEARCHES)
def test_a_pattern_is_found_in_the_texts_in_which_python_finds_it(pattern: str, text: str) -> None:
    # Python's dollar is also before a line end. Where that makes a difference, the text is none.
    ways = (pattern, pattern.replace("$", r"\Z"))
    expected = all(re.search(each, text, re.ASCII) is not None for each in ways)
    assert make_automaton(parse_search(pattern)).accepts(text) is expected


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"^\p{L}+$", "aéΩ漢", "1_ "),
        (r"^\p{Lu}$", "AÉΩ", "aé1"),
        (r"^\P{L}$", "1_ ", "aΩ"),
        (r"^[\p{Nd}\-]$", "1٣-", "a"),
        (r"^\p{Script=Greek}$", "Ωα", "a漢"),
    ],
)
def test_classes_of_letters_by_their_properties(pattern: str, yes: str, no: str) -> None:
    automaton = make_automaton(parse_search(pattern))
    assert all(map(automaton.accepts, yes))
    assert not any(map(automaton.accepts, no))


def test_no_letter_of_a_word_is_where_conventions_differ() -> None:
    automaton = make_automaton(parse_search(r"foo\b"))
    assert automaton.accepts("foo.")
    # A letter to Python, none to ECMA 262.
    assert not automaton.accepts("fooé")


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(abc", "a parenthesis that is not closed at character 1"),
        ("abc)", "an unopened parenthesis at character 4"),
        ("a{5,2}", "backwards at character 2"),
        ("a{2,9999999}", "a count above 1000000"),
        ("a{99999999999999}", "a count above 1000000"),
        ("*", "nothing to repeat at character 1"),
        ("a**", "a repetition of a repetition"),
        ("((?<=a)b)", "assertions about the text before them are not supported in a group"),
        ("(?=a)(?<=b)", "an assertion about the text before another one at character 6"),
        ("(?i)b", "flags are not supported at character 1"),
        (r"(a)\1", "back references are not supported at character 4"),
        (r"\p{Nonsense}", "a class of letters that is not known at character 1"),
        (r"\p", "no class of letters at character 1"),
        ("\U00100000", "a letter that no answer has"),
        (r"a\y", "an unknown escape"),
        ("[z-a]", "backwards"),
        ("[a", "a class that is not closed"),
        (r"[^\s\S]", "a class of no letters"),
        ("a{b", "a brace that repeats nothing"),
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
    ["(a|b)*a(a|b){20}", "((a{0,500}){0,500}){0,500}", "a{100000}b", "(.{0,500}a){300}"],
)
def test_expressions_of_exponential_size_are_refused(pattern: str) -> None:
    with pytest.raises(TooComplex):
        make_automaton(parse_regex(pattern))
