"""The tools of an Anthropic request, as chat requests and templates know them."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.members import check_object, leave_out_type
from calculators.language.generation_request import Tools
from calculators.llm.requests.request_limits import RequestLimits
from calculators.llm.requests.structured_output import check_size
from calculators.llm.requests.tools import MAX_SCHEMA, NO_SUCH_TOOL, is_toolset, read_tools

#: The types of tools in `_KNOWN`.
KNOWN_TYPES: Final = r"^(?:bash|text_editor|memory)_\d{8}$"
_VERSIONED: Final = re.compile(r"(?P<name>[a-z_]+)_(?P<date>\d{8})")
#: The first version of the text editor that cannot undo.
_WITHOUT_UNDO: Final = "20250429"


#: Those about caches, deferred tools and how arguments are sent have no effect.
_TOOL_MEMBERS: Final = (
    *("type", "name", "description", "input_schema", "strict", "cache_control", "defer_loading"),
    *("input_examples", "allowed_callers", "eager_input_streaming"),
)


def _commands(about: str, commands: Sequence[str], **properties: dict[str, Any]) -> dict[str, Any]:
    """Return a function of several commands, each of which needs some of the properties."""
    return {
        "description": about,
        "parameters": {
            "type": "object",
            "properties": {"command": {"type": "string", "enum": list(commands)}, **properties},
            "required": ["command"],
            "additionalProperties": False,
        },
    }


def _string(about: str) -> dict[str, Any]:
    return {"type": "string", "description": about}


_PATH: Final = _string("Absolute path of the file or folder.")
_RANGE: Final = {
    "type": "array",
    "items": {"type": "integer"},
    "description": "First and last line for view; -1 is the end.",
}
_LINE: Final = {"type": "integer", "description": "The line after which insert writes; 0: first."}
#: The functions that Anthropic's types of tools stand for, without the date of their version.
_KNOWN: Final[Mapping[str, dict[str, Any]]] = {
    "bash": {
        "description": "Run a command in a bash session that lives on between calls.",
        "parameters": {
            "type": "object",
            "properties": {
                "command": _string("The command to run."),
                "restart": {"type": "boolean", "description": "Begin a new session."},
            },
            "additionalProperties": False,
        },
    },
    "text_editor": _commands(
        "View, create and edit files.",
        ("view", "create", "str_replace", "insert", "undo_edit"),
        path=_PATH,
        view_range=_RANGE,
        file_text=_string("The whole text for create."),
        old_str=_string("The text that str_replace replaces; it must stand in the file once."),
        new_str=_string("The new text for str_replace; for older versions of insert too."),
        insert_line=_LINE,
        insert_text=_string("The text for insert."),
    ),
    "memory": _commands(
        "Read and write notes below /memories that outlive this conversation.",
        ("view", "create", "str_replace", "insert", "delete", "rename"),
        path=_PATH,
        view_range=_RANGE,
        file_text=_string("The whole text for create."),
        old_str=_string("The text that str_replace replaces."),
        new_str=_string("The new text for str_replace."),
        insert_line=_LINE,
        insert_text=_string("The text for insert."),
        old_path=_string("The present path for rename."),
        new_path=_string("The new path for rename."),
    ),
}


def read_messages_tools(
    body: Mapping[str, Any], limits: RequestLimits, *, has_servers: bool = False
) -> tuple[Tools, bool]:
    """Read ``tools`` and ``tool_choice``; True: one answer may call several tools.

    Tools that the client runs and whose schema Anthropic's models know get it here (`_KNOWN`).
    Tools that run at Anthropic, such as ``web_search_20250305``, are left out with a warning; a
    choice that forces one finds none of its name. ``has_servers``: the request names servers, whose
    tools of the type "mcp_toolset" are read elsewhere.

    Raises:
        RequestError: a tool or the choice is wrong.
    """
    choice, is_parallel = _read_choice(body)
    tools = body.get("tools", [])
    places = [i for i, tool in enumerate(tools) if not (has_servers and is_toolset(tool))]
    offered = [(f"tools[{i}]", _tool(tools[i], f"tools[{i}]")) for i in places]
    paths = [path for path, tool in offered if tool is not None]
    flat = [tool for _, tool in offered if tool is not None]
    read = read_tools(
        {"tools": flat, "tool_choice": choice}, limits, paths=paths, has_servers=has_servers
    )
    schemas = tuple(
        f"{path.removesuffix('.parameters')}.input_schema" for path in read.schema_paths
    )
    return replace(read, schema_paths=schemas), is_parallel


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


def _known_tool(tool: Mapping[str, Any], kind: str) -> dict[str, Any] | None:
    """Return a tool of the client as the function that its type stands for; None: it has none."""
    version = _VERSIONED.fullmatch(kind)
    if version is None or (known := _KNOWN.get(version["name"])) is None:
        return None
    if version["name"] == "text_editor" and version["date"] >= _WITHOUT_UNDO:
        known = copy.deepcopy(known)
        known["parameters"]["properties"]["command"]["enum"].remove("undo_edit")
    return {"type": "function", "name": tool.get("name"), **known}


def _tool(tool: object, path: str) -> dict[str, Any] | None:
    """Return a tool as a function, or None: it is left out."""
    if not isinstance(tool, dict):
        raise fields.wrong_type(path, "an object", tool)
    kind = fields.string(tool, "type", f"{path}.type")
    if kind not in (None, "custom"):
        if (known := _known_tool(tool, kind)) is not None:
            return known
        leave_out_type(kind, ("custom",), path, NO_SUCH_TOOL)
        return None
    name = fields.string(tool, "name", f"{path}.name")
    if name is None:
        raise fields.missing(f"{path}.name")
    schema = fields.json_object(tool, "input_schema", f"{path}.input_schema")
    if schema is None:
        raise fields.missing(f"{path}.input_schema", "the JSON schema of what the tool is given")
    check_size(schema, MAX_SCHEMA, f"{path}.input_schema")
    check_object(tool, path, _TOOL_MEMBERS)
    made: dict[str, Any] = {"type": "function", "name": name}
    description = fields.string(tool, "description", f"{path}.description")
    if description is not None:
        made["description"] = description
    made["parameters"] = schema
    if fields.boolean(tool, "strict", f"{path}.strict"):
        made["strict"] = True
    return made
