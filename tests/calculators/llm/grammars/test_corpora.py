"""Schemas that others write: all compile, and no text of their grammars is invalid."""

from __future__ import annotations

import gzip
import json
import random
import re
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest

from calculators.llm.grammars import formats
from calculators.llm.grammars.form_grammar import form_grammar
from calculators.llm.grammars.grammar import AnswerForm
from calculators.llm.grammars.regular_expression import LAST
from calculators.llm.grammars.rules import Rules, UnboundedGrammarError
from calculators.llm.grammars.schema_document import SchemaError, check_schema
from calculators.llm.grammars.schema_rules import SchemaRules
from tests.calculators.llm.grammars.derivations import Derivations

_FOLDER: Final = Path(__file__).parent / "corpora"
#: The end of a class of nearly all letters, which is what a large vocabulary makes slow: 15 ms
#: each for 151,851 tokens.
_WIDE: Final = f"U{LAST:08x}]"
_CHECKED: Final = jsonschema.FormatChecker(["email", "ipv4", "ipv6", "date", "uuid", "regex"])


def corpus(name: str) -> list[dict[str, Any]]:
    lines = gzip.decompress((_FOLDER / f"{name}.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


def grammar_of(schema: Any, *, is_strict: bool = False) -> tuple[str, dict[str, str]]:
    check_schema(schema)
    rules = Rules()
    made = SchemaRules(schema, rules, is_strict=is_strict)
    return rules.text(made.root()), made.notices


def _with_null(schema: Any) -> Any:
    """Return a schema with OpenAPI 3.0's ``nullable`` as JSON Schema says it."""
    if isinstance(schema, list):
        return [_with_null(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: _with_null(value) for name, value in schema.items()}
    return {"anyOf": [made, {"type": "null"}]} if made.get("nullable") is True else made


def validator(case: dict[str, Any]) -> Any:
    kind: Any = jsonschema.Draft4Validator  # OpenAPI 3.0 has its keywords
    schema = _with_null(case["schema"])
    if not re.search("openapi|openApi|openAi", case["id"]):
        newest = jsonschema.Draft202012Validator
        kind = jsonschema.validators.validator_for(schema, default=newest)
    return kind(schema, format_checker=_CHECKED)


def texts(grammar: str, count: int) -> list[Any]:
    chance, derivations = random.Random(7), Derivations(grammar)
    return [json.loads(derivations.random_text(chance)) for _ in range(count)]


@pytest.mark.parametrize("case", corpus("agents"), ids=lambda case: str(case["id"]))
def test_tools_of_agents_compile_fast_and_are_followed(case: dict[str, Any]) -> None:
    grammar, notices = grammar_of(case["schema"], is_strict=True)
    assert not notices
    assert len(grammar) < 20_000
    assert grammar.count(_WIDE) <= 30
    check = validator(case)
    for value in texts(grammar, 5):
        check.validate(value)


def test_tools_share_their_rules_in_any_order() -> None:
    every = [
        formats.tag(
            f'{{"name": "t{i}", "arguments": ', formats.json_schema(case["schema"], "t"), "}"
        )
        for i, case in enumerate(corpus("agents"))
    ]
    for tools in (every, every[::-1]):
        made = form_grammar(
            AnswerForm(
                json.dumps({"type": "tags_with_separator", "tags": tools, "separator": ", "})
            )
        )
        assert not made.notices
        assert len(made.grammar.text) < 80_000
        assert made.grammar.text.count(_WIDE) <= 80


@pytest.mark.parametrize("case", corpus("generators"), ids=lambda case: str(case["id"]))
def test_schemas_of_generators_are_followed(case: dict[str, Any]) -> None:
    grammar, notices = grammar_of(case["schema"])
    if case["id"] == "typebox" or notices:
        # Its items are a list beside keywords of a later draft, which no validator knows together.
        assert texts(grammar, 5)
        return
    check = validator(case)
    for value in texts(grammar, 5):
        check.validate(value)


@pytest.mark.parametrize("case", corpus("json_schema_test_suite"), ids=lambda case: str(case["id"]))
def test_no_value_that_the_public_suite_calls_invalid_is_accepted(case: dict[str, Any]) -> None:
    try:
        grammar, _ = grammar_of(case["schema"], is_strict=True)
    except (SchemaError, UnboundedGrammarError):
        return  # no value fits it, or it cannot be followed strictly
    derivations = Derivations(grammar)
    for value in case["invalid"]:
        assert not derivations.matches(json.dumps(value, ensure_ascii=False)), value


#: Dynamic references, values that are not listed, formats, a not of what has no opposite, and
#: multiples of the smallest number.
_LOOSE: Final = {
    "dynamicRef", "uniqueItems", "format", "regex", "uri-template", "ecmascript-regex",
    "unevaluatedProperties", "unevaluatedItems", "multipleOf",
}  # fmt: skip


def test_few_groups_of_the_suite_are_left_out_of_forms() -> None:
    noticed = set()
    for case in corpus("json_schema_test_suite"):
        try:
            if grammar_of(case["schema"])[1]:
                noticed.add(case["id"].partition(":")[0])
        except (SchemaError, UnboundedGrammarError):
            continue  # no value fits, or it refers to other documents
    assert noticed <= _LOOSE
