"""Forms over HTTP: what they hold an answer to, and what is said of the rest."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

from tests.process.http_client import CHAT, COMPLETIONS, HELLO, HttpClient, Reply

SET = {"type": "array", "items": {"type": "string", "maxLength": 5}, "uniqueItems": True}
TAGS = {
    "type": "object",
    "properties": {"tags": SET},
    "required": ["tags"],
    "additionalProperties": False,
}
UNIQUE = 'tags.uniqueItems" is not enforced: only values that the schema lists can differ'


def chat(client: HttpClient, **members: Any) -> Reply:
    body = {"model": "demo", "messages": HELLO, "max_tokens": 200, "temperature": 0, **members}
    return client.ask("POST", CHAT, body)


def schema_form(schema: Any, **members: Any) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, **members}}


def tool(name: str, schema: Any, **members: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": schema, **members}}


def test_letters_of_special_tokens_do_not_end_an_answer(client: HttpClient) -> None:
    pattern = "[a-z<|>_ A-Z.!?,]{200}"
    body = {"model": "demo", "prompt": "Hello", "temperature": 0, "max_tokens": 400}
    reply = client.ask("POST", COMPLETIONS, {**body, "guided_regex": pattern})
    [choice] = reply.json["choices"]
    assert choice["finish_reason"] == "stop"
    assert len(choice["text"]) == 200


@pytest.mark.parametrize("seed", [49, 50])
def test_an_answer_is_json_or_is_cut_off_with_length(client: HttpClient, seed: int) -> None:
    schema = {"type": "object", "properties": {"foo": {"type": "string"}}, "required": ["foo"]}
    form = schema_form(schema)
    [choice] = chat(client, temperature=1, seed=seed, response_format=form).json["choices"]
    if choice["finish_reason"] == "stop":
        json.loads(choice["message"]["content"])
    else:
        assert choice["finish_reason"] == "length"


def test_a_keyword_that_is_left_out_is_named(client: HttpClient) -> None:
    reply = chat(client, response_format=schema_form(TAGS))
    assert reply.status == 200
    assert UNIQUE.replace('"', '\\"') in reply.headers["warning"]
    jsonschema.validate(
        json.loads(reply.json["choices"][0]["message"]["content"]),
        {**TAGS, "properties": {"tags": {**SET, "uniqueItems": False}}},
    )


def test_a_strict_schema_is_refused_at_that_place(client: HttpClient) -> None:
    reply = chat(client, response_format=schema_form(TAGS, strict=True))
    assert reply.status == 400
    assert reply.error["param"] == (
        "response_format.json_schema.schema.properties.tags.uniqueItems"
    )


def test_one_tool_of_several_may_have_keywords_that_are_left_out(client: HttpClient) -> None:
    back = {"type": "object", "properties": {"p": {"type": "string", "pattern": r"^(a)\1$"}}}
    tools = [tool("tag", TAGS), tool("twice", back), tool("plain", {"type": "object"})]
    reply = chat(client, tools=tools, tool_choice="required")
    assert reply.status == 200
    assert reply.json["choices"][0]["message"]["tool_calls"]
    warning = reply.headers["warning"]
    assert "tools[0].function.parameters.properties.tags.uniqueItems" in warning
    assert "tools[1].function.parameters.properties.p.pattern" in warning
    strict = [tools[0], tool("twice", back, strict=True)]
    refused = chat(client, tools=strict, tool_choice="required")
    assert refused.status == 400
    assert refused.error["param"] == "tools[1].function.parameters.properties.p.pattern"


def test_json_objects_may_have_a_schema(client: HttpClient) -> None:
    schema = {"type": "object", "properties": {"a": {"const": 5}}, "required": ["a"]}
    form = {"type": "json_object", "schema": schema}
    content = chat(client, response_format=form).json["choices"][0]["message"]["content"]
    assert json.loads(content) == {"a": 5}


def test_integers_of_zod_are_taken(client: HttpClient) -> None:
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9007199254740991}},
        "required": ["n"],
        "additionalProperties": False,
    }
    form = schema_form(schema, strict=True)
    content = chat(client, response_format=form).json["choices"][0]["message"]["content"]
    jsonschema.validate(json.loads(content), schema)
