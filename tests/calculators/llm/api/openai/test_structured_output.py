"""Structured output: every way to request it, and the errors of such requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.language.generation_request import StructuredOutput
from calculators.llm.engine.settings import GenerationSettings
from calculators.llm.grammars.form_grammar import FormError, grammar_of
from calculators.llm.grammars.grammar import AnswerForm
from calculators.llm.requests.checked_request import read_body
from calculators.llm.requests.completions_request import CHAT_MEMBERS
from calculators.llm.requests.structured_output import (
    read_format,
    read_structured_output,
    read_text_format,
    refuse_settings,
)

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
ANY_OBJECT = {"type": "object"}
CONST = {"type": "const_string", "value": "x"}


def structured(body: dict[str, Any]) -> StructuredOutput | None:
    return read_structured_output(read_body(body, CHAT_MEMBERS))


def read(**body: Any) -> tuple[dict[str, Any], str]:
    output = structured(body)
    assert output is not None
    # Accepted requests have a form.
    grammar_of(AnswerForm(json.dumps(output.format)))
    return output.format, output.param


def refusal(**body: Any) -> RequestError:
    """Return the refusal by the server, or the error that it makes of the grammar process's."""

    def read_here_and_there() -> None:
        output = structured(body)
        assert output is not None
        grammar_of(AnswerForm(json.dumps(output.format)))

    with pytest.raises((RequestError, FormError)) as raised:
        read_here_and_there()
    error: Exception = raised.value
    if isinstance(error, FormError):
        error = fields.invalid(error.path, str(error))
    assert isinstance(error, RequestError)
    return error


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"response_format": None},
        {"response_format": {"type": "text"}},
        {"guided_json": None, "structured_outputs": None},
        {"structured_outputs": {}},
        {"structured_outputs": {"json": None, "json_object": False}},
        {"response_format": {"type": "text"}, "guided_regex": None},
    ],
)
def test_without_a_request_there_is_no_form(body: dict[str, Any]) -> None:
    assert structured(body) is None


def schema(asked: Any, path: str) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": asked, "path": path}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            {"response_format": {"type": "json_object"}},
            schema(ANY_OBJECT, "response_format"),
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": SCHEMA, "strict": True},
                }
            },
            {**schema(SCHEMA, "response_format.json_schema.schema"), "strict": True},
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", **SCHEMA}}},
            schema(SCHEMA, "response_format.json_schema"),
        ),
        ({"guided_json": SCHEMA}, schema(SCHEMA, "guided_json")),
        ({"guided_json": json.dumps(SCHEMA)}, schema(SCHEMA, "guided_json")),
        ({"structured_outputs": {"json": SCHEMA}}, schema(SCHEMA, "structured_outputs.json")),
        (
            {"structured_outputs": {"json_object": True, "disable_fallback": True}},
            schema(ANY_OBJECT, "structured_outputs.json_object"),
        ),
        (
            {"guided_regex": "a+"},
            {"type": "regex", "pattern": "a+", "path": "guided_regex"},
        ),
        (
            {"response_format": {"type": "regex", "pattern": "a+"}},
            {"type": "regex", "pattern": "a+", "path": "response_format.pattern"},
        ),
        (
            {"guided_grammar": 'root ::= "a"'},
            {"type": "grammar", "grammar": 'root ::= "a"', "path": "guided_grammar"},
        ),
        (
            {"guided_choice": ['y"es', "no", "no"]},
            {"type": "choice", "choices": ['y"es', "no", "no"], "path": "guided_choice"},
        ),
        ({"response_format": {"type": "structural_tag", "format": CONST}}, CONST),
        ({"response_format": CONST}, CONST),
        (
            {"structured_outputs": {"structural_tag": json.dumps({"format": CONST})}},
            CONST,
        ),
    ],
)
def test_every_way_to_request_a_form_is_accepted(
    body: dict[str, Any], expected: dict[str, Any]
) -> None:
    made, _ = read(**body)
    assert made == expected


def test_formats_may_be_nested() -> None:
    made, param = read(
        response_format={
            "type": "sequence",
            "elements": [
                {"type": "json_schema", "json_schema": SCHEMA},
                {"type": "or", "elements": [CONST, {"type": "regex", "pattern": "[a-z]"}]},
                {
                    "type": "triggered_tags",
                    "triggers": ["<a"],
                    "tags": [
                        {
                            "type": "tag",
                            "begin": "<a>",
                            "content": {"type": "any_text"},
                            "end": "</a>",
                        }
                    ],
                },
            ],
        }
    )
    assert param == "response_format"
    assert made["elements"][0]["json_schema"] == SCHEMA
    assert made["elements"][2]["at_least_one"] is False


@pytest.mark.parametrize("texts", [["a", "a"], ["ab", "a"], ["a", "ab", "a"]])
def test_texts_that_begin_with_others_are_dropped(texts: list[str]) -> None:
    form = {"type": "any_text", "excludes": texts}
    assert read_format(form, "x")["excludes"] == ["a"]


def test_a_trigger_cannot_be_excluded() -> None:
    tag = {"type": "tag", "begin": "<a>", "content": {"type": "any_text"}, "end": "</a>"}
    form = {"type": "triggered_tags", "triggers": ["<a"], "excludes": ["<a>"], "tags": [tag]}
    with pytest.raises(RequestError, match="excludes one of the triggers"):
        read_format(form, "x")


def test_the_format_of_the_responses_api_is_accepted() -> None:
    output = read_text_format(
        {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}, "text.format"
    )
    assert output is not None
    assert output.format == {**schema(SCHEMA, "text.format.schema"), "strict": True}
    assert read_text_format({"type": "text"}, "text.format") is None
    with pytest.raises(RequestError) as raised:
        read_text_format({"type": "json_schema", "name": "n"}, "text.format")
    assert raised.value.param == "text.format.schema"


def test_schemas_of_pydantic_are_accepted() -> None:
    from pydantic import BaseModel, Field

    class Item(BaseModel):  # type: ignore[misc]
        """An item."""

        name: str = Field(description="its name", examples=["x"])
        price: float = Field(gt=0, le=10)
        kind: str | None = None
        tags: list[str] = Field(default_factory=list, max_length=3)
        extra: dict[str, int] = {}

    class Order(BaseModel):  # type: ignore[misc]
        items: list[Item] = Field(min_length=1)
        first: Item
        pair: tuple[int, str]

    made, _ = read(
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "Order", "schema": Order.model_json_schema()},
        }
    )
    assert made["type"] == "json_schema"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"response_format": "json"}, "response_format"),
        ({"response_format": []}, "response_format"),
        ({"response_format": {}}, "response_format.type"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n"}}},
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": "{}"}}},
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": None}}},
            "response_format.json_schema.schema",
        ),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"schema": SCHEMA, "strict": "yes"},
                }
            },
            "response_format.json_schema.strict",
        ),
        ({"guided_json": "{"}, "guided_json"),
        ({"guided_json": r'{"const": "\ud800"}'}, "guided_json"),
        ({"guided_json": {"not": {}}}, "guided_json"),
        ({"guided_json": {"not": 5}}, "guided_json.not"),
        ({"guided_json": {"enum": []}}, "guided_json.enum"),
        ({"guided_json": {"$ref": "http://x/y"}}, "guided_json.$ref"),
        ({"guided_json": {"required": [1]}}, "guided_json.required"),
        ({"guided_json": {"patternProperties": {"((": {}}}}, "guided_json.patternProperties"),
        ({"guided_json": {"description": "x" * 70_000}}, "guided_json"),
        ({"guided_json": '{"const": NaN}'}, "guided_json"),
        ({"guided_json": '{"maximum": 1e999}'}, "guided_json"),
        ({"guided_json": "[" * 60_000}, "guided_json"),
        ({"guided_json": '{"const": ' + "9" * 5000 + "}"}, "guided_json"),
        ({"structural_tag": '{"format": {"type": "const_string", "value": "\\udc00"}}'},
         "structural_tag"),
        ({"response_format": {**CONST, "more": "x" * 70_000}}, "response_format"),
        ({"guided_json": {"type": "string", "pattern": "(?=a"}}, "guided_json.pattern"),
        ({"guided_regex": "(abc"}, "guided_regex"),
        ({"guided_regex": "a" * 5000}, "guided_regex"),
        ({"guided_regex": 5}, "guided_regex"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": ["a", 1]}, "guided_choice[1]"),
        ({"guided_choice": ["a"] * 1001}, "guided_choice"),
        ({"guided_grammar": "root ::= root"}, "guided_grammar"),
        ({"guided_grammar": 'root ::= "' + "a" * 70_000 + '"'}, "guided_grammar"),
        ({"response_format": {"type": "json_object", "schema": 5}}, "response_format.schema"),
        ({"response_format": {"type": "text", "strict": True}}, "response_format.strict"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {}, "stric": 1}}},
            "response_format.json_schema.stric",
        ),
        ({"structured_outputs": []}, "structured_outputs"),
        ({"structured_outputs": {"whitespace_pattern": " *"}},
         "structured_outputs.whitespace_pattern"),
        ({"structured_outputs": {"regex": "(", "json": None}}, "structured_outputs.regex"),
        ({"structured_outputs": {"regex": "a", "choice": ["a"]}}, "structured_outputs.choice"),
        ({"guided_regex": "a", "guided_json": SCHEMA}, "guided_regex"),
        ({"guided_regex": "a", "response_format": {"type": "json_object"}}, "guided_regex"),
        ({"response_format": {"type": "structural_tag"}}, "response_format.format"),
        (
            {"response_format": {"type": "sequence", "elements": [{"type": "nope"}]}},
            "response_format.elements[0].type",
        ),
        (
            {"response_format": {"type": "tag", "begin": "<", "end": ">"}},
            "response_format.content",
        ),
        (
            {"response_format": {"type": "tag", "begin": "<", "end": 5, "content": CONST}},
            "response_format.end",
        ),
        ({"response_format": {"type": "const_string", "value": ""}}, "response_format.value"),
        (
            {"response_format": {"type": "triggered_tags", "triggers": [], "tags": [CONST]}},
            "response_format.triggers",
        ),
        (
            {"response_format": {"type": "tags_with_separator", "separator": "", "tags": [CONST]}},
            "response_format.tags[0].type",
        ),
    ],
)  # fmt: skip
def test_errors_name_the_place(body: dict[str, Any], param: str) -> None:
    error = refusal(**body)
    assert error.param == param
    assert len(str(error)) < 300


def test_formats_that_are_nested_too_deeply_are_refused() -> None:
    deep: dict[str, Any] = CONST
    for _ in range(30):
        deep = {"type": "sequence", "elements": [deep]}
    assert "nested deeper" in str(refusal(response_format=deep))


@pytest.mark.parametrize(
    ("settings", "param"),
    [
        (GenerationSettings(ignore_eos=True), "ignore_eos"),
        (GenerationSettings(min_new_tokens=3), "min_tokens"),
        (GenerationSettings(num_beams=2), "best_of"),
    ],
)
def test_settings_that_would_make_the_engine_leave_a_grammar_are_refused(
    settings: GenerationSettings, param: str
) -> None:
    with pytest.raises(RequestError) as raised:
        refuse_settings(settings, "response_format")
    assert raised.value.param == param
    assert "response_format" in str(raised.value)


def test_other_settings_are_accepted() -> None:
    refuse_settings(GenerationSettings(do_sample=True, temperature=1.0, logprobs=True), "x")


def test_errors_that_only_the_rules_show_name_the_place() -> None:
    output = structured(
        {"guided_json": {"properties": {"a": {"type": "integer", "minimum": 3, "maximum": 1}}}}
    )
    assert output is not None
    with pytest.raises(FormError) as raised:
        grammar_of(AnswerForm(json.dumps(output.format)))
    assert raised.value.path == "guided_json.properties.a"
