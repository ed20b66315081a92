"""What an answer has to be: ``response_format``, and what vLLM's clients send for the same."""

from __future__ import annotations

from typing import Final

from calculators.llm.requests.structural_tag import FORMATS
from calculators.llm.requests.structured_output import MAX_CHOICES, MAX_REGEX, MAX_SIZE
from calculators.requests.schema import (
    Members,
    Schema,
    anything,
    array,
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

_REGEX: Final = string("A regular expression for the whole answer.", maxLength=MAX_REGEX)
_GRAMMAR: Final = string("A grammar (EBNF).", maxLength=MAX_SIZE)
_TAGGED: Final = frozenset({"json_schema", "regex", "grammar"})

_FORMATS: Final[dict[str, Schema]] = {
    "AnyTextFormat": tagged("text", {}),
    "JsonFormat": tagged("json_object", {}),
    "RegexFormat": tagged("regex", {"pattern": _REGEX}),
    "GrammarFormat": tagged("grammar", {"grammar": _GRAMMAR}),
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

_CHOICES: Final = array(string(), "The answer is one of these.", minItems=1, maxItems=MAX_CHOICES)
_SCHEMA: Final = one_of(ref("JsonSchema"), string(maxLength=MAX_SIZE), about="A JSON schema.")
_TAG: Final = one_of(anything(), string(maxLength=MAX_SIZE), about="A structural tag.")

#: At most one of them may ask for something.
STRUCTURED_MEMBERS: Final[Members] = {
    "response_format": ref("ResponseFormat"),
    "guided_json": _SCHEMA,
    "guided_regex": _REGEX,
    "guided_choice": _CHOICES,
    "guided_grammar": _GRAMMAR,
    "structural_tag": _TAG,
    "structured_outputs": request(
        {
            "json": _SCHEMA,
            "regex": _REGEX,
            "choice": _CHOICES,
            "grammar": _GRAMMAR,
            "structural_tag": _TAG,
            "json_object": flag(),
            "disable_fallback": {},
            "disable_additional_properties": {},
        },
        "vLLM's object: one of its members.",
        additionalProperties=False,
    ),
}
