"""Requests with a hostile structure: deep, long, or exponential when expanded."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

from tests.process.http_client import HELLO

#: Placeholder for arrays or schemas too deep for any library to write.
DEEP: Final = "@deep@"
DEEP_SCHEMA: Final = "@deep schema@"


def nested(depth: int, opening: str = "[", closing: str = "]", inner: str = "1") -> str:
    return opening * depth + inner + closing * depth


def text_of(members: dict[str, Any]) -> str:
    """Return the body of a chat request."""
    body = {"model": "demo", "messages": HELLO, "max_tokens": 2, **members}
    return (
        json.dumps(body)
        .replace(f'"{DEEP}"', nested(1000))
        .replace(f'"{DEEP_SCHEMA}"', nested(1000, '{"items":', "}", "{}"))
    )


def tools(count: int) -> list[dict[str, Any]]:
    parameters = {"type": "object", "properties": {"a": {"type": "string"}}}
    return [
        {"type": "function", "function": {"name": f"f{i}", "parameters": parameters}}
        for i in range(count)
    ]


def history(arguments: str, times: int = 1) -> list[dict[str, Any]]:
    """Return a conversation in which a tool was called with these arguments."""
    function = {"name": "f", "arguments": arguments}
    call = {"id": "a", "type": "function", "function": function}
    turn: list[dict[str, Any]] = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "x"},
    ]
    return turn * times


def schema(value: Any) -> dict[str, Any]:
    return {
        "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": value}}
    }


def doubled(word: str, times: int) -> dict[str, Any]:
    """Return a schema that doubles with every definition when expanded."""
    definitions: dict[str, Any] = {"a0": {"type": "object", "properties": {"x": {}}}}
    for i in range(1, times):
        before = {"$ref": f"#/$defs/a{i - 1}"}
        definitions[f"a{i}"] = {word: [before, before]}
    return {"$ref": f"#/$defs/a{times - 1}", "$defs": definitions}


_SCHEMA: Final = "response_format.json_schema.schema"

#: Refused requests, with the status, and the param as far as it is known.
REFUSED: Final[dict[str, tuple[dict[str, Any], int, str | None]]] = {
    "2,000 tools": ({"tools": tools(2000)}, 400, "tools"),
    "2,000 tools that have to be called": (
        {"tools": tools(2000), "tool_choice": "required"},
        400,
        "tools",
    ),
    "a description of 1 MB": (
        {"tools": [{"type": "function", "function": {"name": "f", "description": "x" * 10**6}}]},
        400,
        "messages",
    ),
    "8 MiB of arguments": (
        {"messages": history(json.dumps({"a": "x" * (8 * 2**20)}))},
        413,
        None,
    ),
    "7 MiB of arguments": (
        {"messages": history(json.dumps({"a": "x" * (7 * 2**20)}))},
        400,
        "messages",
    ),
    "1,300 calls": ({"messages": history(json.dumps({"a": "x" * 1000}), 1300)}, 400, "messages"),
    "10 MB that nobody reads": ({"metadata": {"a": "x" * 10**7}}, 413, None),
    "deep JSON in the body": ({"metadata": DEEP}, 400, None),
    "deep JSON in a schema": (schema(DEEP_SCHEMA), 400, None),
    "deep JSON in a tool": (
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": DEEP_SCHEMA}}]},
        400,
        None,
    ),
    "deep JSON in text": (
        {"guided_json": nested(1000, '{"items":', "}", "{}")},
        400,
        "guided_json",
    ),
    "deep JSON in text, for another member": (
        {"structured_outputs": {"json": nested(1000, '{"items":', "}", "{}")}},
        400,
        "structured_outputs.json",
    ),
    "a deep structural tag in text": (
        {"structured_outputs": {"structural_tag": nested(1000, '{"format":', "}", "{}")}},
        400,
        "structured_outputs.structural_tag",
    ),
    "a doubling oneOf": (schema(doubled("oneOf", 30)), 400, _SCHEMA),
    "3,000 optional properties": (
        schema({"type": "object", "properties": {f"p{i}": {} for i in range(3000)}}),
        400,
        _SCHEMA,
    ),
    "a million items at least": (schema({"type": "array", "minItems": 10**6}), 400, _SCHEMA),
    "a million properties": (schema({"type": "object", "minProperties": 10**6}), 400, _SCHEMA),
    "a regex that explodes": ({"guided_regex": "(a{1,500}){1,500}"}, 400, "guided_regex"),
    "a regex that explodes five times": (
        {"guided_regex": "((((a{0,50}){0,50}){0,50}){0,50}){0,50}"},
        400,
        "guided_regex",
    ),
    "a regex that has to remember": ({"guided_regex": "(a|b)*a(a|b){200}"}, 400, "guided_regex"),
    "a regex that counts to a billion": ({"guided_regex": "a{1000000000}"}, 400, "guided_regex"),
    "2,000 groups": ({"guided_regex": nested(2000, "(", ")", "a")}, 400, "guided_regex"),
    "a grammar that explodes": (
        {"guided_grammar": 'root ::= (("a"){1,1000}){1,1000}'},
        400,
        "guided_grammar",
    ),
    "a grammar that doubles": (
        {
            "guided_grammar": "\n".join(
                [
                    "root ::= r29",
                    *(f"r{i} ::= r{i - 1} r{i - 1}" for i in range(1, 30)),
                    'r0 ::= "a"',
                ]
            )
        },
        400,
        "guided_grammar",
    ),
    "a grammar of a million groups": (
        {"guided_grammar": "root ::= " + nested(30000, "(", ")", '"a"')},
        400,
        "guided_grammar",
    ),
    "2,000 choices": ({"guided_choice": [str(i) for i in range(2000)]}, 400, "guided_choice"),
}

#: Honoured or refused, depending on the machine's speed, but soon.
EITHER: Final[dict[str, dict[str, Any]]] = {
    "128 tools": {"tools": tools(128)},
    "1,000 tools": {"tools": tools(1000)},
    "1,000 tools that have to be called": {"tools": tools(1000), "tool_choice": "required"},
    "deep arguments": {"messages": history(nested(1000))},
    "very deep arguments": {"messages": history(nested(10**6))},
    "arguments with a very long number": {"messages": history("9" * 10**5)},
    "nested quantifiers": {"guided_regex": "((a+)+)+b"},
    "a quantified nothing": {"guided_regex": "(a*)*"},
    "a thousand stars": {"guided_regex": "a*" * 1000},
    "a doubling anyOf": schema(doubled("anyOf", 30)),
    "a doubling allOf": schema(doubled("allOf", 30)),
    "a million items at most": schema({"type": "array", "maxItems": 10**6}),
    "a million characters": schema({"type": "string", "minLength": 10**6}),
    "a pattern that explodes": schema({"type": "string", "pattern": "(a{1,500}){1,500}"}),
    "a strict pattern that explodes": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {
                "name": "x",
                "strict": True,
                "schema": {"type": "string", "pattern": "(a{1,500}){1,500}"},
            },
        }
    },
    "999 optional properties": schema(
        {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(999)}}
    ),
    "arrays of a thousand arrays": schema(
        {
            "type": "array",
            "minItems": 1000,
            "items": {"type": "array", "minItems": 1000, "items": {"type": "array", "minItems": 9}},
        }
    ),
    "an enum of 60 kB": schema({"enum": [f"value{i}" for i in range(4000)]}),
    "arguments as deep as they may be": {"messages": history(nested(400))},
    "arguments with a number that is none": {"messages": history("[1e999999999]")},
}


class Broken(NamedTuple):
    """A failing chat template, and the text of its error."""

    source: str
    message: str


_FOREVER: Final = "{% for i in range(100000) %}"

#: By the text of the user.
TEMPLATES: Final = {
    "raise": Broken("{{ raise_exception('not like this') }}", "not like this"),
    "loop": Broken(_FOREVER * 2 + "{% endfor %}" * 2, "chat template"),
    "grow": Broken(_FOREVER + "{{ 'a' * 4000000 }}{% endfor %}", "chat template"),
    "divide": Broken("{{ 1 / 0 }}", "chat template"),
}


def hostile_template(own: str) -> str:
    """Return a template that fails when the user says so."""
    return (
        "".join(
            f"{{% if messages[0].content == '{word}' %}}{broken.source}{{% endif %}}"
            for word, broken in TEMPLATES.items()
        )
        + own
    )
