"""``tools`` and ``tool_choice``: the tools of a chat request, and the choice among them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from calculators.kit.requests import fields
from calculators.kit.requests.members import Members, check_spelling, honoured, table
from calculators.kit.requests.readers import BOOLEAN, Value
from calculators.kit.requests.schema import array, ref
from calculators.language.tools import NO_TOOLS, Tools
from calculators.llm.requests.client_json import check_size
from calculators.llm.requests.request_limits import LIMITS, RequestLimits

_MEMBERS: Final = ("name", "description", "parameters", "strict")
_LETTERS: Final = r"[A-Za-z0-9_.-]"
#: The most characters of a name: in chat requests, as in OpenAI's API; and elsewhere, as in
#: Anthropic's. All tool parsers read the longest names.
CHAT_NAME: Final = 64
LONGEST_NAME: Final = 128
#: The most bytes of JSON: of the parameters of one tool, and of all tools. Real parameters have one
#: or two thousand.
MAX_SCHEMA: Final = 64 * 1024
MAX_TOGETHER: Final = 1024 * 1024

#: Why a tool that would run elsewhere is left out: completes "the string "web_search" ...".
NO_SUCH_TOOL: Final = "is no tool that this server has"

_DECLINED: Final = Tools(is_declined=True)

TOOL_MEMBERS: Final[Members] = table(
    honoured("tools", Value(array(ref("Tool"), maxItems=LIMITS.max_tools))),
    honoured("tool_choice", Value(ref("ToolChoice"))),
    honoured("parallel_tool_calls", BOOLEAN, "One answer may call several tools."),
)


def read_tools(
    body: Mapping[str, Any],
    limits: RequestLimits,
    *,
    paths: Sequence[str] | None = None,
    has_servers: bool = False,
    longest_name: int = LONGEST_NAME,
) -> Tools:
    """Read ``tools`` and ``tool_choice``.

    A tool is ``{"type": "function", "function": {"name", ...}}``, or flat as in OpenAI's responses
    API. With the choice "none" the tools are not checked. Source: OpenVINO Model Server
    ``llm/apis/openai_api_handler.cpp``.

    Args:
        paths: where the tools stand in the client's body, if not in ``tools`` one after the other.
        has_servers: the request names servers that have further tools, so "required" needs none.
        longest_name: the most characters of a name.

    Raises:
        RequestError: a tool or the choice is wrong, or there are too many tools.
    """
    if body.get("tools") is None and body.get("tool_choice") is None:
        return NO_TOOLS
    choice, chosen = _read_choice(body)
    if choice == "none":
        return _DECLINED
    items = fields.array(body, "tools") or []
    if len(items) > limits.max_tools:
        raise fields.invalid(
            "tools", f"{len(items)} tools are more than the maximum {limits.max_tools}"
        )
    check_size(items, MAX_TOGETHER, "tools")
    if paths is None:
        paths = [f"tools[{i}]" for i in range(len(items))]
    read = [_check_tool(path, tool, longest_name) for path, tool in zip(paths, items, strict=True)]
    _check_names(read)
    if chosen is not None:
        places = [i for i, tool in enumerate(read) if tool.name == chosen]
        items, read = [items[i] for i in places], [read[i] for i in places]
    if items:
        return Tools(items, choice, tuple(f"{tool.path}.parameters" for tool in read))
    if choice == "auto":
        return NO_TOOLS
    unmet = Tools([], choice, named=chosen or "")
    if not (limits.may_get_tools or (choice == "required" and has_servers)):
        refuse_unmet(unmet)
    return unmet


def refuse_unmet(tools: Tools) -> None:
    """Refuse a choice of tools that are neither the client's nor a node's.

    Raises:
        RequestError: it is one.
    """
    if tools.items:
        return
    if tools.choice == "named":
        raise fields.invalid(
            "tool_choice", f"{fields.describe(tools.named)} names none of the tools"
        )
    if tools.choice == "required":
        raise fields.invalid("tool_choice", '"required" needs tools')


def name_pattern(longest: int) -> str:
    """Return the regular expression of names of at most so many characters."""
    return f"{_LETTERS}{{1,{longest}}}"


def check_name(name: str, path: str, longest: int) -> None:
    """Refuse a name of other letters than `name_pattern` has.

    Raises:
        RequestError: it has.
    """
    if not re.fullmatch(name_pattern(longest), name):
        raise fields.invalid(
            path,
            f"{fields.describe(name)} is not 1 to {longest} letters, digits, underscores, "
            "dots and dashes",
        )


_Choice = Literal["none", "auto", "required", "named"]


def _read_choice(body: Mapping[str, Any]) -> tuple[_Choice, str | None]:
    """Return the choice, and the name of the tool with "named"."""
    value = body.get("tool_choice")
    match value:
        case None:
            return "auto", None
        case "none" | "auto" | "required":
            return value, None
        case {"function": {"name": str(name)}}:
            return "named", name
        case {"function": {}}:
            raise fields.invalid("tool_choice.function.name", "expected the name of a tool")
        case {"type": "function", "name": str(name)}:
            return "named", name
        case {"type": "function"}:
            raise fields.invalid("tool_choice.name", "expected the name of a tool")
        case str():
            raise fields.invalid(
                "tool_choice", f'{fields.describe(value)} is none of "none", "auto", "required"'
            )
        case _:
            raise fields.wrong_type(
                "tool_choice", 'a string or {"type": "function", "function": {"name": ...}}', value
            )


class _Tool(NamedTuple):
    """A tool that is well formed. ``path``: of the object with the name."""

    name: str
    path: str


def _check_names(tools: Sequence[_Tool]) -> None:
    """Refuse two tools of one name: a call could not distinguish them."""
    known: dict[str, str] = {}
    for name, path in tools:
        if name in known:
            raise fields.invalid(
                f"{path}.name", f'the name "{name}" is already that of {known[name]}'
            )
        known[name] = path


def _check_tool(path: str, tool: object, longest_name: int) -> _Tool:
    """Check a tool and return its name and place."""
    if not isinstance(tool, dict):
        raise fields.wrong_type(path, "an object", tool)
    kind = fields.string(tool, "type", f"{path}.type")
    if kind not in (None, "function"):
        raise fields.invalid(f"{path}.type", f'{fields.describe(kind)} is not "function"')
    function = fields.json_object(tool, "function", f"{path}.function")
    if function is None:
        if kind is None:
            raise fields.missing(f"{path}.function")
        function = tool
    else:
        path = f"{path}.function"
    name = fields.string(function, "name", f"{path}.name")
    if name is None:
        raise fields.missing(f"{path}.name")
    check_name(name, f"{path}.name", longest_name)
    # Templates show a tool as it is, so it may have any members except misspelt ones.
    check_spelling(function, path, _MEMBERS)
    fields.string(function, "description", f"{path}.description")
    fields.boolean(function, "strict", f"{path}.strict")
    parameters = fields.json_object(function, "parameters", f"{path}.parameters")
    if parameters is not None:
        check_size(parameters, MAX_SCHEMA, f"{path}.parameters")
    return _Tool(name, path)
