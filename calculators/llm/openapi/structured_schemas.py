"""The forms of structured output."""

from __future__ import annotations

from typing import Final

from calculators.llm.requests.structural_tag import FORMATS
from calculators.llm.requests.structured_output import (
    GRAMMAR_FORM,
    REGEX_FORM,
)
from calculators.requests.schema import (
    Schema,
    anything,
    const,
    flag,
    one_of,
    record,
    ref,
    request,
    string,
    tagged,
    word,
)

_TAGGED: Final = frozenset({"json_schema", "regex", "grammar"})

_FORMATS: Final[dict[str, Schema]] = {
    "AnyTextFormat": tagged("text", {}),
    "JsonFormat": record(
        {"type": const("json_object"), "schema": ref("JsonSchema")}, required=("type",)
    ),
    "RegexFormat": tagged("regex", {"pattern": REGEX_FORM}),
    "GrammarFormat": tagged("grammar", {"grammar": GRAMMAR_FORM}),
    "StructuralTag": tagged("structural_tag", {"format": ref("StructuralFormat")}),
    "StructuralFormat": record(
        {"type": word(sorted(FORMATS - _TAGGED))},
        "A format of xgrammar's structural tags, with formats inside.",
        required=("type",),
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
            "json_schema": request(
                {"name": string(), "strict": flag(), "schema": ref("JsonSchema")},
                "The schema may also stand in place of this object.",
            )
        },
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
