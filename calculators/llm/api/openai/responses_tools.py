"""The tools of a responses request: written flat, where a chat request nests the function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from calculators.language.tools import Tools
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.tool_servers import is_mcp, shown_mcp_tool
from calculators.llm.requests.tools import read_tools
from calculators.requests import fields


def read_responses_tools(
    body: Mapping[str, Any], limits: RequestLimits, *, has_servers: bool = False
) -> Tools:
    """Read ``tools`` and ``tool_choice``, and nest the tools as templates expect them.

    Flat and nested tools are accepted. Tools that are not functions would run at OpenAI, and are
    refused. ``has_servers``: some of the type "mcp" are there, which are read elsewhere.

    Raises:
        RequestError: a tool or the choice is wrong.
    """
    choice = body.get("tool_choice")
    places = None
    if has_servers:
        places = [i for i, tool in enumerate(body["tools"]) if not is_mcp(tool)]
        body = {**body, "tools": [body["tools"][i] for i in places]}
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        everything = read_tools({**body, "tool_choice": "auto"}, limits, places=places)
        own = replace(limits, may_get_tools=False)  # the list is of the client's functions
        tools = read_tools(_only_allowed(body, choice, everything), own)
        left = {_function(tool)["name"] for tool in tools.items}
        pairs = zip(everything.items, everything.schema_paths, strict=True)
        paths = tuple(path for tool, path in pairs if _function(tool)["name"] in left)
    else:
        tools = read_tools(body, limits, places=places, has_servers=has_servers)
        paths = tools.schema_paths
    items = [_nested(tool) for tool in tools.items]
    return replace(tools, items=items, schema_paths=paths)


def shown_tools(body: Mapping[str, Any], tools: Tools) -> list[dict[str, Any]]:
    """Return the tools as the answer repeats them: flat, with the members that clients read.

    These are all tools of the request, or only servers if no tool of the client may be called.
    """
    return [
        shown_mcp_tool(tool) if is_mcp(tool) else _flat(tool)
        for tool in body.get("tools") or ()
        if is_mcp(tool) or tools.choice != "none"
    ]


def shown_tool_choice(body: Mapping[str, Any]) -> Any:
    """Return ``tool_choice`` as the answer repeats it; it has been checked."""
    match body.get("tool_choice"):
        case None:
            return "auto"
        case {"function": {"name": name}}:
            return {"type": "function", "name": name}
        case choice:
            return choice


def _only_allowed(
    body: Mapping[str, Any], choice: Mapping[str, Any], everything: Tools
) -> dict[str, Any]:
    """Return the body with only the allowed tools."""
    mode = choice.get("mode")
    if mode not in ("auto", "required"):
        raise fields.invalid(
            "tool_choice.mode", f'{fields.describe(mode)} is neither "auto" nor "required"'
        )
    allowed = set()
    for i, tool in enumerate(fields.array(choice, "tools", "tool_choice.tools") or []):
        match tool:
            case {"type": "function", "name": str(name)} | {"function": {"name": str(name)}}:
                allowed.add(name)
            case _:
                raise fields.invalid(
                    f"tool_choice.tools[{i}]", 'expected {"type": "function", "name": ...}'
                )
    tools = [tool for tool in everything.items if _function(tool)["name"] in allowed]
    return {**body, "tools": tools, "tool_choice": mode}


def _function(tool: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the name of a tool."""
    function = tool.get("function")
    return function if isinstance(function, dict) else tool


def _nested(tool: dict[str, Any]) -> dict[str, Any]:
    if isinstance(tool.get("function"), dict):
        return tool
    # Like OpenVINO Model Server: the schema of the tool's result is not for the model.
    kept = {name: value for name, value in tool.items() if name not in ("type", "response")}
    return {"type": "function", "function": kept}


def _flat(tool: dict[str, Any]) -> dict[str, Any]:
    function = _function(tool)
    members = ("name", "description", "parameters", "strict")
    return {"type": "function", **{name: function.get(name) for name in members}}
