"""The tools of chat requests and of responses, nested and flat."""

from __future__ import annotations

from typing import Final

from calculators.kit.requests.schema import Schema, const, one_of, record, ref, string, union, word
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

TOOL_SCHEMAS: Final[dict[str, Schema]] = {
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
        ChosenTool=record(
            {"function": record({"name": string()}, required=("name",))},
            "The tool to call.",
            required=("function",),
        ),
        FlatChosenTool=record(
            {"type": const("function"), "name": string()},
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
