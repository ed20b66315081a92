"""The schemas that several endpoints refer to: tools, structured output, usage, finish reasons."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests.schema import (
    Schema,
    anything,
    array,
    const,
    flag,
    integer,
    nullable,
    one_of,
    record,
    ref,
    request,
    string,
    tagged,
    union,
    word,
)
from calculators.llm.requests.checked_request import STREAM_OPTIONS
from calculators.llm.requests.structured_output import (
    GRAMMAR_FORM,
    MAX_TEXT,
    REGEX_FORM,
    SCHEMA_WORDS,
)
from calculators.llm.requests.tools import CHAT_NAME, LONGEST_NAME, name_pattern


def _name(longest: int) -> Schema:
    return string(pattern=f"^{name_pattern(longest)}$")


FUNCTION: Final[dict[str, Schema]] = {
    "name": _name(CHAT_NAME),
    "description": {"type": ["string", "null"]},
    "parameters": {
        "type": ["object", "null"],
        "description": "The JSON schema of what it is given.",
    },
    "strict": {"type": ["boolean", "null"]},
}

#: A file of text or a PDF in a prompt, and the members of which it has one.
FILE: Final[dict[str, Schema]] = {
    "file_data": nullable(string("A file of text or a PDF, as a `data:` URL or Base64.")),
    "file_id": nullable(string("Of a file that the client has uploaded.")),
    "file_url": nullable(string("Of a host in `--allowed_media_domains`.")),
    "filename": {"type": ["string", "null"]},
}
HAS_FILE: Final[list[Schema]] = [
    {"required": [name], "properties": {name: string()}}
    for name in ("file_data", "file_id", "file_url")
]

TOOL_SCHEMAS: Final[dict[str, Schema]] = {
    "Function": record(FUNCTION, "A function as chats had it before tools.", required=("name",)),
    "NamedTool": record({"name": string()}, required=("name",)),
    "AllowedTool": one_of(
        record(
            {"type": word(("function", "custom", "namespace")), "name": string()},
            required=("type", "name"),
        ),
        record({"function": ref("NamedTool")}, required=("function",)),
        record({"type": const("custom"), "custom": ref("NamedTool")}, required=("type", "custom")),
        record(
            {
                "type": {
                    "type": "string",
                    "not": {"enum": ["function", "custom", "namespace", "mcp"]},
                }
            },
            required=("type",),
        ),
    ),
    "ServerTool": record(
        {"type": const("mcp")},
        "A server of tools, where this endpoint takes none: left out with a warning.",
        required=("type",),
    ),
    **union(
        "Tool",
        FunctionTool=record(
            {
                "type": {"type": ["string", "null"], "enum": ["function", None]},
                "function": record(FUNCTION, required=("name",)),
            },
            "A tool as chat requests have it.",
            required=("function",),
        ),
        FlatFunctionTool=record(
            {"type": const("function"), **FUNCTION, "name": _name(LONGEST_NAME)},
            "A tool as responses have it.",
            required=("type", "name"),
        ),
    ),
    **union(
        "ToolChoice",
        ToolMode=word(("none", "auto", "required")),
        ToolModeObject=record(
            {"type": word(("none", "auto", "required", "any"))}, "The same.", required=("type",)
        ),
        ChosenTool=record(
            {"function": record({"name": string()}, required=("name",))},
            "The tool to call.",
            required=("function",),
        ),
        FlatChosenTool=record(
            {"type": word(("function", "tool")), "name": string()},
            "The tool to call.",
            required=("type", "name"),
        ),
    ),
    "ToolCall": record(
        {
            "id": string(),
            "type": const("function"),
            "function": record(
                {"name": string(), "arguments": string("A JSON object, as text.")},
                required=("name", "arguments"),
            ),
        },
        required=("id", "type", "function"),
    ),
}


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
        ref("FlatSchemaFormat"),
        ref("SchemaFormat"),
        *map(ref, _FORMATS),
        about="What the answer has to be.",
    ),
    "ResponseFormat": one_of(
        ref("SchemaFormat"),
        ref("FlatSchemaFormat"),
        *map(ref, _FORMATS),
        about="What the answer has to be.",
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
        tagged("json_schema", {"json_schema": one_of(ref("JsonSchema"), flag())}),
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


FINISH_REASON: Final = word(("stop", "length", "tool_calls", "function_call", "content_filter"))

#: With ``return_token_ids``.
TOKEN_IDS: Final = array(
    integer(minimum=0), "With `return_token_ids`: the tokens; in events, those since the last one."
)
PROMPT_TOKEN_IDS: Final = nullable(
    array(
        integer(minimum=0),
        "With `return_token_ids`: the tokens of the prompt; in events, only the first one has them."
        " Null if the model sees images.",
    )
)

SHARED_SCHEMAS: Final[dict[str, Schema]] = {
    **STRUCTURED_SCHEMAS,
    **TOOL_SCHEMAS,
    "StreamOptions": request(
        {name: flag(about) for name, about in STREAM_OPTIONS.items()},
        "Only with `stream`.",
        additionalProperties=False,
    ),
    "CompletionUsage": record(
        {
            "prompt_tokens": integer(minimum=0),
            "completion_tokens": integer(minimum=0),
            "total_tokens": integer(minimum=0),
            "prompt_tokens_details": record(
                {name: integer(minimum=0) for name in ("cached_tokens", "audio_tokens")},
            ),
            "completion_tokens_details": record(
                {name: integer(minimum=0) for name in ("reasoning_tokens", "audio_tokens")},
            ),
        },
        required=("prompt_tokens", "completion_tokens", "total_tokens"),
    ),
    "Verbose": record(
        {"prompt": string(), "content": string()},
        "Only with `--verbose_response`: the prompt, and the raw text of the answer.",
        required=("prompt", "content"),
    ),
}
