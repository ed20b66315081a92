"""Patterns that are refused, each with its place and with what to write instead."""

from __future__ import annotations

import hashlib
import threading

import pytest

from calculators.language.text_patterns import PatternError, Patterns, read_expression


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (r"\d+-x", "has a repeat without a bound at character 3, '+'; write {1,64}"),
        ("[*+]a*", "without a bound at character 6, '*'"),
        (r"\++b{2,}", "without a bound at character 3, '+'"),
        ("ab{2,}", "without a bound at character 3, '{2,}'"),
        ("a{0,2}", "matches the empty text"),
        (r"\b", "matches the empty text"),
        ("a|", "matches the empty text"),
        ("foo(?!bar)", "has a lookaround, which sees beyond the match at character 4"),
        ("(?<=a)b", "has a lookaround"),
        (r"(a)b\1", r"has a back reference at character 5, '\\1'"),
        ("(?P<x>a)(?P=x)", "has a back reference at character 9"),
        ("(a)?(?(1)b|c)", "has a back reference at character 5"),
        ("(?a)x", "has the flag a"),
        ("(?a:x)", "has the flag a"),
        ("(ab", "is not a regular expression: missing )"),
        ("[ab", "is not a regular expression"),
        ("[[:alpha:]]{3}", "has the class [:alpha:]"),
        ("a{9000}", "a match of 'a{9000}' may have 9000 characters; the maximum is 4096"),
        ("(?:a?){30}a{30}", "takes too long on text that almost matches it"),
        (r"(?:xy|a|ab|b){1,30}!", "takes too long on text that almost matches it"),
        (r"(?:\w{1,12} ?){1,12}!", "takes too long on text that almost matches it"),
    ],
)
def test_an_expression_that_cannot_be_used_is_refused_with_its_place(
    expression: str, words: str
) -> None:
    with pytest.raises(PatternError) as caught:
        Patterns((), ("x", expression))
    assert str(caught.value).startswith("patterns[1]: ")
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("a", ""), r"words\[1\]: the word is empty"),
        (("a" * 5000,), r"words\[0\]: 5000 characters are above the maximum 4096"),
    ],
)
def test_a_word_that_cannot_be_used_is_refused_with_its_place(
    words: tuple[str, ...], text: str
) -> None:
    with pytest.raises(PatternError, match=text):
        Patterns(words, ())


@pytest.mark.parametrize(
    "expression",
    [
        r"[\w.+-]{1,64}@(?:[\w-]{1,63}\.){1,4}\w{2,24}",
        r"\b(?:\d[ -]?){12,18}\d\b",
        r"(?x) \b [A-Z]{2} \d{2}  # country, check digits",
        r"(?i:key)[=:]\s{0,4}(?P<value>\S{8,64})",
        r"[^\]\\^-]{3}",
        "\U0001f600{2}",
    ],
)
def test_usual_expressions_are_taken(expression: str) -> None:
    assert read_expression(expression, ignore_case=False, place="patterns[0]").needed > 0


def test_a_text_that_an_expression_takes_too_long_for_is_an_error() -> None:
    patterns = Patterns((), ("(?:pq|qr|rs|st|ab|a|b){1,30}!",))
    with pytest.raises(TimeoutError):
        patterns.scan("ab" * 30 + "?", 0)


def test_other_threads_take_no_time_from_an_expression() -> None:
    """`regex` counts the processor time of all threads, and models load in many."""
    is_over = threading.Event()

    def work() -> None:
        data = bytes(20_000_000)
        while not is_over.is_set():
            hashlib.sha256(data)  # without the interpreter's lock

    threads = [threading.Thread(target=work) for _ in range(60)]
    for thread in threads:
        thread.start()
    try:
        read_expression(r"\b(?:\d[ -]?){12,18}\d\b", ignore_case=False, place="patterns[0]")
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
