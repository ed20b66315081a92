"""The tools of an Anthropic request, as chat requests and templates know them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from calculators.language.tools import Tools
from calculators.llm.requests.client_json import check_size
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.tool_servers import is_toolset
from calculators.llm.requests.tools import (
    MAX_SCHEMA,
    read_tools,
)
from calculators.requests import fields
from calculators.requests.members import check_object


def read_messages_tools(
    body: Mapping[str, Any], limits: RequestLimits, *, has_servers: bool = False
) -> tuple[Tools, bool]:
    """Read ``tools`` and ``tool_choice``; True: one answer may call several tools.

    A tool of another type than "custom" would run at Anthropic, or has a schema that only
    Anthropic's models know; it is refused. ``has_servers``: the request names servers, whose tools
    of the type "mcp_toolset" are read elsewhere.

    Raises:
        RequestError: a tool or the choice is wrong.
    """
    choice, is_parallel = _read_choice(body)
    tools = body.get("tools", [])
    places = [i for i, tool in enumerate(tools) if not (has_servers and is_toolset(tool))]
    paths = [f"tools[{i}]" for i in places]
    flat = [_tool(tools[i], path) for i, path in zip(places, paths, strict=True)]
    read = read_tools(
        {"tools": flat, "tool_choice": choice}, limits, paths=paths, has_servers=has_servers
    )
    items = [
        {"type": "function", "function": {name: tool[name] for name in tool if name != "type"}}
        for tool in read.items
    ]
    schemas = tuple(
        f"{path.removesuffix('.parameters')}.input_schema" for path in read.schema_paths
    )
    return replace(read, items=items, schema_paths=schemas), is_parallel


def _read_choice(body: Mapping[str, Any]) -> tuple[Any, bool]:
    """Return OpenAI's ``tool_choice``, and True if one answer may have several calls."""
    choice = fields.json_object(body, "tool_choice")
    if choice is None:
        return "auto", True
    check_object(choice, "tool_choice", ("type", "name", "disable_parallel_tool_use"))
    is_single = fields.boolean(
        choice, "disable_parallel_tool_use", "tool_choice.disable_parallel_tool_use"
    )
    match choice.get("type"):
        case "auto" | "none" as kind:
            chosen: Any = kind
        case "any":
            chosen = "required"
        case "tool":
            name = fields.string(choice, "name", "tool_choice.name")
            if name is None:
                raise fields.missing("tool_choice.name", "the name of a tool")
            chosen = {"type": "function", "name": name}
        case None:
            raise fields.missing("tool_choice.type")
        case kind:
            raise fields.invalid(
                "tool_choice.type",
                f'{fields.describe(kind)} is none of "auto", "any", "tool", "none"',
            )
    return chosen, not is_single


def _tool(tool: object, path: str) -> dict[str, Any]:
    if not isinstance(tool, dict):
        raise fields.wrong_type(path, "an object", tool)
    kind = fields.string(tool, "type", f"{path}.type")
    if kind not in (None, "custom"):
        raise fields.invalid(
            f"{path}.type",
            f'{fields.describe(kind)} is not supported; only tools of the client are, "custom"',
        )
    name = fields.string(tool, "name", f"{path}.name")
    if name is None:
        raise fields.missing(f"{path}.name")
    schema = fields.json_object(tool, "input_schema", f"{path}.input_schema")
    if schema is None:
        raise fields.missing(f"{path}.input_schema", "the JSON schema of what the tool is given")
    check_size(schema, MAX_SCHEMA, f"{path}.input_schema")
    made: dict[str, Any] = {"type": "function", "name": name}
    description = fields.string(tool, "description", f"{path}.description")
    if description is not None:
        made["description"] = description
    made["parameters"] = schema
    if fields.boolean(tool, "strict", f"{path}.strict"):
        made["strict"] = True
    return made
