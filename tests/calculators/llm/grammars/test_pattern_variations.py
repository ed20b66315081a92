"""Variations of patterns: no text of their grammars is invalid for a validator."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import pytest
import regex

from tests.calculators.llm.grammars.derivations import Derivations
from tests.calculators.llm.grammars.test_corpora import grammar_of

#: Patterns with alternatives, anchors at one end, assertions and classes that languages differ in.
PATTERNS = [
    r"^a|b$", r"a|^b", r"^(a|b)$|c", r"x$|^y", r"^$|^[0-9]{3}$", r"\bfoo\b", r"^\p{Lu}\p{Ll}*$",
    r"^(?!admin$)[a-z]{3,8}$", r"^(?=.*\d)(?=.*[a-z]).{4,12}$", r"(?<=@)x",
    r"^[\w.+-]+@[\w-]+\.[\w.-]+$", r"^\S+$", r"^\s*$", r"^.{2,5}$", r"^(foo|foobar)(?!baz)",
    r"^[\s\S]{0,10}$", r"(ab)+?c", r"^\W+$", r"^\D+$", r"^[^\w-]+$", r"^a.c$", r"^[^\s\d]+$",
    r"o\Bx", r"^(?!.*\bfoo\b).{3,9}$",
]  # fmt: skip


def check(schema: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare with a validator whose expressions are Python's, with classes of Unicode."""
    monkeypatch.setattr("jsonschema._keywords.re", regex)
    grammar, notices = grammar_of(schema)
    if notices:
        return
    validator = jsonschema.Draft202012Validator(schema)
    derivations = Derivations(grammar)
    for seed in range(40):
        text = derivations.random_text(random.Random(seed))
        assert validator.is_valid(json.loads(text)), (schema, text)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_match_their_pattern(pattern: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check({"type": "string", "pattern": pattern}, monkeypatch)
    check({"allOf": [{"pattern": pattern}, {"type": "string", "maxLength": 30}]}, monkeypatch)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_texts_do_not_match_a_negated_pattern(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check({"type": "string", "not": {"pattern": pattern}}, monkeypatch)


def test_names_that_match_no_pattern_match_it_for_no_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    schema = {
        "type": "object",
        "patternProperties": {"^.x$": {"type": "integer"}},
        "additionalProperties": {"type": "string"},
        "minProperties": 1,
    }
    check(schema, monkeypatch)
