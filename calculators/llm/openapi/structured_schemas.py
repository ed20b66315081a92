"""The forms of structured output."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests.schema import (
    Schema,
    anything,
    array,
    const,
    flag,
    nullable,
    one_of,
    record,
    ref,
    string,
    tagged,
    union,
)
from calculators.llm.requests.structural_tag import MAX_TEXT
from calculators.llm.requests.structured_output import (
    GRAMMAR_FORM,
    REGEX_FORM,
    SCHEMA_WORDS,
)

_TEXT: Final = string(maxLength=MAX_TEXT)


def _some_text() -> Schema:
    return string(minLength=1, maxLength=MAX_TEXT)


def _several(name: str) -> Schema:
    return array(ref(name), minItems=1)


_EXCLUDES: Final = nullable(array(_some_text(), minItems=1))
_HOW_MANY: Final[dict[str, Schema]] = {
    name: nullable(flag()) for name in ("at_least_one", "stop_after_first")
}

_FORMATS: Final[dict[str, Schema]] = {
    "AnyTextFormat": tagged("text", {}),
    "JsonFormat": record(
        {"type": const("json_object"), "schema": nullable(ref("JsonSchema"))}, required=("type",)
    ),
    "RegexFormat": tagged("regex", {"pattern": REGEX_FORM}),
    "GrammarFormat": tagged("grammar", {"grammar": GRAMMAR_FORM}),
    "StructuralTag": tagged("structural_tag", {"format": ref("InnerFormat")}),
    **union(
        "StructuralFormat",
        "A format of xgrammar's structural tags, with formats inside.",
        FixedText=tagged("const_string", {"value": _some_text()}),
        FreeText=record({"type": const("any_text"), "excludes": _EXCLUDES}, required=("type",)),
        JoinedFormats=tagged("sequence", {"elements": _several("InnerFormat")}),
        EitherFormat=tagged("or", {"elements": _several("InnerFormat")}),
        TaggedFormat=tagged(
            "tag",
            {
                "begin": _TEXT,
                "content": ref("InnerFormat"),
                "end": one_of(_TEXT, array(_TEXT, minItems=1)),
            },
        ),
        SeparatedTags=record(
            {
                "type": const("tags_with_separator"),
                "tags": _several("TaggedFormat"),
                "separator": _TEXT,
                **_HOW_MANY,
            },
            required=("type", "tags", "separator"),
        ),
        TriggeredTags=record(
            {
                "type": const("triggered_tags"),
                "triggers": array(_some_text(), minItems=1),
                "tags": _several("TaggedFormat"),
                "excludes": _EXCLUDES,
                **_HOW_MANY,
            },
            required=("type", "triggers", "tags"),
        ),
    ),
}

STRUCTURED_SCHEMAS: Final[dict[str, Schema]] = {
    "JsonSchema": anything("A JSON schema; one that cannot be honoured to the letter is refused."),
    "TextFormat": one_of(
        ref("FlatSchemaFormat"), *map(ref, _FORMATS), about="What the answer has to be."
    ),
    "ResponseFormat": one_of(
        ref("SchemaFormat"), *map(ref, _FORMATS), about="What the answer has to be."
    ),
    "SchemaFormat": tagged(
        "json_schema",
        {
            "json_schema": one_of(
                record(
                    {
                        "name": nullable(string()),
                        "strict": nullable(flag()),
                        "schema": ref("JsonSchema"),
                    },
                    required=("schema",),
                ),
                anything(
                    "The schema itself.",
                    properties={"schema": {"not": {}}},
                    anyOf=[{"required": [name]} for name in SCHEMA_WORDS],
                ),
            )
        },
    ),
    "InnerFormat": one_of(
        ref("StructuralFormat"),
        ref("RegexFormat"),
        ref("GrammarFormat"),
        tagged("json_schema", {"json_schema": one_of(ref("JsonSchema"), const(True))}),
    ),
    "FlatSchemaFormat": record(
        {
            "type": const("json_schema"),
            "name": {"type": ["string", "null"]},
            "strict": {"type": ["boolean", "null"]},
            "schema": ref("JsonSchema"),
        },
        required=("type", "schema"),
    ),
    **_FORMATS,
}
