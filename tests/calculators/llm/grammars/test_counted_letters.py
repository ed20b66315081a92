"""Grammars of texts with a bounded number of letters: exact, and not larger for more letters."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import pytest

from calculators.llm.grammars import formats
from calculators.llm.grammars.regular_expression import parse_regex
from calculators.llm.grammars.rules import NEAR, Rules, counted_letters
from calculators.llm.grammars.schema_rules import schema_grammar
from tests.calculators.llm.grammars.answers import Answers

ESCAPED = '"\\\n'
PLAIN = "aé漢😀"


def string_grammar(**keywords: Any) -> str:
    return schema_grammar({"type": "string", **keywords})


def regex_grammar(pattern: str) -> str:
    rules = Rules()
    return rules.text(rules.add_expression(parse_regex(pattern)))


def matches(grammar: str, text: str) -> bool:
    """Return True if a text matches our grammar. Declared followers are not part of the text."""
    lines = dict(line.split(" ::= ", 1) for line in grammar.splitlines())

    def parts(sequence: str) -> list[str]:
        return re.findall(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|\S+', sequence)

    @cache
    def rule(name: str) -> list[list[str]]:
        body = lines[name].partition(" (= ")[0]
        sequences: list[list[str]] = [[]]
        for part in parts(body):
            if part == "|":
                sequences.append([])
            else:
                sequences[-1].append(part)
        return sequences

    @cache
    def one(part: str, at: int) -> frozenset[int]:
        if part.startswith('"'):
            letters = json.loads(part)
            return frozenset({at + len(letters)} if text.startswith(letters, at) else ())
        if part.startswith("["):
            found = re.compile(part).match(text, at)
            return frozenset({found.end()} if found else ())
        ends: set[int] = set()
        for sequence in rule(part):
            reached = {at}
            for each in sequence:
                reached = {end for start in reached for end in one(each, start)}
            ends |= reached
        return frozenset(ends)

    return len(text) in one("root", 0)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("low", [1, 2, NEAR])
def test_a_short_least_number_of_letters_shares_the_rule_of_a_bounded_one(
    low: int, is_first: bool
) -> None:
    least = {"type": "string", "minLength": low}
    both = [least, {"type": "string", "maxLength": 60}]
    grammar = schema_grammar({"type": "array", "prefixItems": both if is_first else both[::-1]})
    assert grammar.count("(=") == 1
    assert string_grammar(minLength=low).count("(=") == 0
    for count in (0, 1, low - 1, low, 61, 100):
        text = json.dumps(["x" * count, "x"] if is_first else ["x", "x" * count])
        assert matches(grammar, text) is (count >= low)


@pytest.mark.parametrize(
    ("low", "high"), [(0, NEAR + 1), (0, 40), (3, 40), (35, 40), (40, 40), (20, None)]
)
@pytest.mark.parametrize("letter", [*PLAIN, *ESCAPED])
def test_a_string_has_an_allowed_number_of_letters(letter: str, low: int, high: int | None) -> None:
    bounds = {"minLength": low} | ({} if high is None else {"maxLength": high})
    grammar = string_grammar(**bounds)
    for count in {0, 1, low - 1, low, low + 1, NEAR, 39, 40, 41, 60, (high or 0) + 1} - {-1}:
        text = json.dumps(letter * count, ensure_ascii=False)
        expected = low <= count and (high is None or count <= high)
        assert matches(grammar, text) is expected, count


@pytest.mark.parametrize(("low", "high"), [(0, 40), (3, 300), (20, None)])
def test_letters_without_some_are_counted_too(low: int, high: int | None) -> None:
    bounds = {"minLength": low} | ({} if high is None else {"maxLength": high})
    grammar = string_grammar(pattern=r"^[^\n\r]*$", **bounds)
    for count in {0, low - 1, low, 5, 6, 12, 13, high or 60, (high or 60) + 1} - {-1}:
        expected = low <= count and (high is None or count <= high)
        assert matches(grammar, json.dumps("\t" * count)) is expected, count
    assert not matches(grammar, json.dumps("a" * max(low, 1) + "\n"))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (".{2,40}", ["ab", "é" * 40], ["a", "a" * 41, "a\nb"]),
        ("a[b-d]{20}e", ["a" + "bcd" * 6 + "bb" + "e"], ["a" + "b" * 19 + "e", "a" + "b" * 21]),
        ("[a-c]{20,}", ["a" * 20, "c" * 90], ["a" * 19, "a" * 20 + "d"]),
        ("(?:ab|cd){15,20}", ["ab" * 15, "abcd" * 10], ["ab" * 14, "cd" * 21, "ab" * 15 + "c"]),
        ("(?:a|ab){15,20}", ["a" * 15, "ab" * 20], ["a" * 14, "b" * 15]),
        ("a{15,20}a", ["a" * 16, "a" * 21], ["a" * 15, "a" * 22]),
        (r"[\s\S]{15,20}", ["\n" * 15, "a" * 20], ["a" * 14, "a" * 21]),
    ],
)
def test_an_expression_keeps_its_texts(pattern: str, yes: list[str], no: list[str]) -> None:
    grammar = regex_grammar(pattern)
    assert all(matches(grammar, text) for text in yes)
    assert not any(matches(grammar, text) for text in no)


@pytest.mark.parametrize("pattern", ["(?:a|ab){15,20}", "a{15,20}a", "(?:a*b){15}", ".{3}", "a"])
def test_ambiguous_or_small_counts_are_left_to_the_automaton(pattern: str) -> None:
    assert counted_letters(parse_regex(pattern)) is None


def test_more_letters_need_no_more_states() -> None:
    few, many = (string_grammar(maxLength=count) for count in (NEAR + 1, 512))
    assert few.count("[\\u0020-") == many.count("[\\u0020-") < 2 * NEAR
    several = {f"p{count}": {"type": "string", "maxLength": count} for count in range(20, 200, 20)}
    made = schema_grammar({"type": "object", "properties": several, "required": list(several)})
    assert made.count("[\\u0020-") == few.count("[\\u0020-")


@pytest.mark.parametrize(
    ("keywords", "low", "high"),
    [
        ({"maxLength": 60}, 0, 60),
        ({"minLength": 45, "maxLength": 45}, 45, 45),
        ({"minLength": 20, "maxLength": 30}, 20, 30),
        ({"pattern": "^.{10,50}$"}, 10, 50),
        ({"pattern": '^["\\\\\\n😀é]{20,25}$'}, 20, 25),
    ],
)
def test_answers_of_the_model_keep_to_the_count(
    answers: Answers, keywords: dict[str, Any], low: int, high: int
) -> None:
    for text in answers.several(formats.json_schema({"type": "string", **keywords}, ""), 5):
        assert low <= len(json.loads(text)) <= high, text


def test_an_answer_follows_a_counted_expression(answers: Answers) -> None:
    for text in answers.several(formats.regex("[^x]{30,33}"), 5):
        assert 30 <= len(text) <= 33
        assert "x" not in text
