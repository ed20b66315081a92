"""Forms of answers on SmolLM2's vocabulary of 49,152 tokens."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest

from tests.process.http_client import HttpClient
from tests.real_models.asking import chat, message

PERSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 30},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "hobbies": {
            "type": "array",
            "items": {"type": "string", "maxLength": 20},
            "minItems": 1,
            "maxItems": 3,
        },
    },
    "required": ["name", "age", "hobbies"],
    "additionalProperties": False,
}
ABOUT = "Anna is 32 years old. She likes chess and hiking. Describe her as JSON."


@pytest.mark.parametrize("temperature", [0, 1])
def test_an_answer_follows_its_schema(client: HttpClient, temperature: float) -> None:
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
    body = chat(
        client, ABOUT, response_format=form, max_tokens=200, temperature=temperature, seed=3
    )
    assert body["choices"][0]["finish_reason"] == "stop"
    person = json.loads(message(body)["content"])
    jsonschema.validate(person, PERSON)
    if temperature == 0:
        assert person["name"].startswith("Anna")


def test_an_answer_is_some_json_object(client: HttpClient) -> None:
    form = {"type": "json_object"}
    body = chat(client, ABOUT, response_format=form, max_tokens=400)
    if body["choices"][0]["finish_reason"] == "stop":
        assert isinstance(json.loads(message(body)["content"]), dict)
    else:
        assert message(body)["content"].startswith("{")


def test_an_answer_is_one_of_the_choices(client: HttpClient) -> None:
    body = chat(
        client, "Is Paris a city or a river?", structured_outputs={"choice": ["city", "river"]}
    )
    assert message(body)["content"] in ("city", "river")


@pytest.mark.parametrize(
    "pattern", [r"[A-Z][a-z]{2,12}", r"\d{4}-\d{2}-\d{2}", r"(yes|no), \w{1,10}\.", r"[äöü€]{3}"]
)
def test_an_answer_matches_a_regular_expression(client: HttpClient, pattern: str) -> None:
    body = chat(client, structured_outputs={"regex": pattern})
    assert re.fullmatch(pattern, message(body)["content"])
    assert body["choices"][0]["finish_reason"] == "stop"


def test_an_answer_follows_a_grammar(client: HttpClient) -> None:
    grammar = 'root ::= "The capital is " city "."\ncity ::= "Paris" | "London" | "Rome"'
    content = message(chat(client, structured_outputs={"grammar": grammar}))["content"]
    assert content == "The capital is Paris."
