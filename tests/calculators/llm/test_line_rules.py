"""Ends of an answer by its lines, as editors ask for them."""

from __future__ import annotations

import random

import pytest

from calculators.llm.answers.choice import LineRules


def shown(text: str, *, indent: int = 0, cuts: tuple[int, ...] = (), stop: str = "") -> str:
    """Return what is left of a text that arrives in pieces."""
    rules = LineRules([stop], include=False, least_indent=indent, most_seconds=0)
    kept = ""
    for begin, end in zip((0, *cuts), (*cuts, len(text)), strict=True):
        kept += rules.feed(text[begin:end])
    return kept if rules.matched is not None else kept + rules.finish()


CASES = [
    ("    a\n    b\nc", 4, "    a\n    b\n"),
    ("a\n    b\n", 4, "a\n    b\n"),
    ("a\n\n    b\n  c", 4, "a\n\n    b\n"),
    ("a\n \n    b", 4, "a\n \n    b"),
    ("a\n\tb\nc", 1, "a\n\tb\n"),
    ("a\nb", 0, "a\nb"),
    ("a\n  ", 4, "a\n  "),
    ("", 4, ""),
]


@pytest.mark.parametrize(("text", "indent", "left"), CASES)
def test_a_line_with_too_little_in_front_ends_the_text(text: str, indent: int, left: str) -> None:
    chance = random.Random(len(text))
    assert shown(text, indent=indent) == left
    for _ in range(20):
        cuts = sorted(chance.choices(range(len(text) + 1), k=4))
        assert shown(text, indent=indent, cuts=tuple(cuts)) == left


def test_stop_strings_still_end_the_text() -> None:
    assert shown("a\n    bEND c", indent=4, stop="END") == "a\n    b"


def test_time_ends_the_text_once_it_has_a_line() -> None:
    time = iter([0.0, 5.0])
    rules = LineRules([], include=False, least_indent=0, most_seconds=1, now=lambda: next(time))
    assert rules.feed("a") == "a"
    assert rules.feed("b") == "b"
    assert rules.matched is None, "no whole line yet"
    assert rules.feed("c\nd") == "c\nd"
    assert rules.matched == ""
    assert rules.feed("e") == ""
