"""``tools`` and ``tool_choice``: the tools of a request, and the choice among them.

A request may also name servers of tools by their labels, for a node of the graph to call. A client
does not say where such a server is: an address from outside would make this server send requests
where the client wants. So the node refuses addresses that are not its own, and credentials are
refused here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    BOOLEAN,
    Array,
    Members,
    Value,
    check_object,
    check_spelling,
    honoured,
    table,
)
from calculators.kit.requests.schema import array, const, one_of, record, ref, word
from calculators.language.generation_request import NO_TOOLS, Tools, ToolServer
from calculators.llm.requests.request_limits import LIMITS, RequestLimits
from calculators.llm.requests.structured_output import check_size

#: The most servers that a request may name.
MAX_SERVERS: Final = 32
_MCP_MEMBERS: Final = (
    "type",
    "server_label",
    "server_url",
    "server_description",
    "allowed_tools",
    "require_approval",
    "headers",
    "authorization",
    "connector_id",
)
_SERVER_MEMBERS: Final = ("type", "name", "url", "authorization_token", "tool_configuration")
_TOOLSET_MEMBERS: Final = ("type", "mcp_server_name", "default_config", "configs", "cache_control")


def refuse_servers(servers: tuple[ToolServer, ...]) -> None:
    """Refuse servers whose tools no node of the graph has offered.

    Raises:
        RequestError: there is one.
    """
    for server in servers:
        if not server.is_offered:
            raise fields.invalid(
                server.path, "this model calls no tool servers; send the tools themselves"
            )


# Responses ----------------------------------------------------------------------------------------


def is_mcp(tool: object) -> bool:
    """Return True if a tool of a responses request is a server."""
    return isinstance(tool, dict) and tool.get("type") == "mcp"


def read_mcp_tools(body: Mapping[str, Any]) -> tuple[ToolServer, ...]:
    """Read the tools of the type "mcp" of a responses request.

    Raises:
        RequestError: one is wrong, needs approvals, or has credentials.
    """
    tools = body.get("tools")
    if not isinstance(tools, list):
        return ()
    servers = [_mcp(tool, f"tools[{i}]") for i, tool in enumerate(tools) if is_mcp(tool)]
    return _checked(servers, "tools")


def shown_mcp_tool(tool: Mapping[str, Any]) -> dict[str, object]:
    """Return a tool of the type "mcp" as the answer repeats it."""
    return {
        "type": "mcp",
        "server_label": tool["server_label"],
        "allowed_tools": tool.get("allowed_tools"),
        "require_approval": "never",
    }


def _mcp(tool: dict[str, Any], path: str) -> ToolServer:
    check_object(tool, path, _MCP_MEMBERS)
    label = fields.string(tool, "server_label", f"{path}.server_label")
    if not label:
        raise fields.missing(f"{path}.server_label", "the label of a server")
    for name in ("headers", "authorization", "connector_id"):
        _refuse_credentials(tool, name, path)
    approval = tool.get("require_approval")
    if approval != "never":
        raise fields.invalid(
            f"{path}.require_approval",
            'calls are not shown for approval; the operator allows tools, so send "never"',
        )
    fields.string(tool, "server_description", f"{path}.server_description")
    allowed = tool.get("allowed_tools")
    place = f"{path}.allowed_tools"
    if isinstance(allowed, dict):
        check_object(allowed, place, ("tool_names", "read_only"))
        if allowed.get("read_only") is not None:
            raise fields.invalid(f"{place}.read_only", "tools are not known to be read-only")
        allowed, place = allowed.get("tool_names"), f"{place}.tool_names"
    return ToolServer(
        label,
        f"{path}.server_label",
        fields.string(tool, "server_url", f"{path}.server_url") or "",
        _names(allowed, place),
    )


# Messages -----------------------------------------------------------------------------------------


def is_toolset(tool: object) -> bool:
    """Return True if a tool of a messages request is the choice of a server's tools."""
    return isinstance(tool, dict) and tool.get("type") == "mcp_toolset"


def read_mcp_servers(body: Mapping[str, Any]) -> tuple[ToolServer, ...]:
    """Read ``mcp_servers`` of a messages request, and the tools of the type "mcp_toolset".

    Raises:
        RequestError: one is wrong, or has credentials.
    """
    listed = fields.array(body, "mcp_servers") or []
    servers = [_server(server, f"mcp_servers[{i}]") for i, server in enumerate(listed)]
    found = {server.label: server for server in _checked(servers, "mcp_servers")}
    for tool, path, name in _toolsets(body):
        if name is None or name not in found:
            raise fields.invalid(f"{path}.mcp_server_name", "it names none of the mcp_servers")
        found[name] = _with_toolset(found[name], tool, path)
    return tuple(found.values())


def check_toolsets(body: Mapping[str, Any]) -> None:
    """Check the tools of the type "mcp_toolset" where no server is asked.

    Raises:
        RequestError: one is wrong.
    """
    for tool, path, name in _toolsets(body):
        if name is None:
            raise fields.missing(f"{path}.mcp_server_name", "the label of a server")
        _with_toolset(ToolServer("", "", "", None), tool, path)


def _toolsets(body: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str, str | None]]:
    """Yield the tools of the type "mcp_toolset", their paths, and the servers that they name."""
    tools = body.get("tools")
    for i, tool in enumerate(tools if isinstance(tools, list) else ()):
        if is_toolset(tool):
            path = f"tools[{i}]"
            yield tool, path, fields.string(tool, "mcp_server_name", f"{path}.mcp_server_name")


def _server(server: object, path: str) -> ToolServer:
    if not isinstance(server, dict):
        raise fields.wrong_type(path, "an object", server)
    check_object(server, path, _SERVER_MEMBERS)
    kind = fields.string(server, "type", f"{path}.type")
    if kind not in (None, "url"):
        raise fields.invalid(f"{path}.type", f'{fields.describe(kind)} is not "url"')
    name = fields.string(server, "name", f"{path}.name")
    if not name:
        raise fields.missing(f"{path}.name", "the label of a server")
    _refuse_credentials(server, "authorization_token", path)
    allowed: tuple[str, ...] | None = None
    place = f"{path}.tool_configuration"
    configuration = fields.json_object(server, "tool_configuration", place)
    if configuration is not None:
        check_object(configuration, place, ("enabled", "allowed_tools"))
        allowed = _names(configuration.get("allowed_tools"), f"{place}.allowed_tools")
        if fields.boolean(configuration, "enabled", f"{place}.enabled") is False:
            allowed = ()
    url = fields.string(server, "url", f"{path}.url") or ""
    return ToolServer(name, f"{path}.name", url, allowed)


def _with_toolset(server: ToolServer, tool: dict[str, Any], path: str) -> ToolServer:
    """Return a server with the choice of its tools."""
    check_object(tool, path, _TOOLSET_MEMBERS)
    default = fields.json_object(tool, "default_config", f"{path}.default_config") or {}
    is_enabled = fields.boolean(default, "enabled", f"{path}.default_config.enabled") is not False
    chosen: dict[str, bool] = {}
    configs = fields.json_object(tool, "configs", f"{path}.configs") or {}
    for name in configs:
        place = f"{path}.configs.{name}"
        config = fields.json_object(configs, name, place) or {}
        enabled = fields.boolean(config, "enabled", f"{place}.enabled")
        chosen[name] = is_enabled if enabled is None else enabled
    if is_enabled:
        refused = tuple(name for name, enabled in chosen.items() if not enabled)
        return server._replace(refused=refused)
    return server._replace(allowed=tuple(name for name, enabled in chosen.items() if enabled))


# Both ---------------------------------------------------------------------------------------------


def _checked(servers: list[ToolServer], path: str) -> tuple[ToolServer, ...]:
    if len(servers) > MAX_SERVERS:
        raise fields.invalid(path, f"{len(servers)} servers are more than {MAX_SERVERS}")
    known: set[str] = set()
    for server in servers:
        if server.label in known:
            raise fields.invalid(server.path, "another server has this label")
        known.add(server.label)
    return tuple(servers)


def _refuse_credentials(value: Mapping[str, Any], name: str, path: str) -> None:
    if value.get(name):
        raise RequestError(
            f'Invalid value for "{path}.{name}": this server connects to its own tool servers with '
            f"its own credentials; leave it out",
            param=f"{path}.{name}",
        )


def _names(value: object, path: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise fields.wrong_type(path, "an array of the names of tools", value)
    return tuple(value)


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
NO_SUCH_TOOL: Final = "is not a tool that this server has"

_DECLINED: Final = Tools(is_declined=True)

TOOL_MEMBERS: Final[Members] = table(
    honoured("tools", Value(array(ref("Tool"), maxItems=LIMITS.max_tools))),
    honoured("tool_choice", Value(ref("ToolChoice"))),
    honoured("parallel_tool_calls", BOOLEAN, "One answer may call several tools."),
)


_TOO_MANY: Final = "are more than the maximum"


def _function_call(value: Any, path: str) -> Any:
    match value:
        case "none" | "auto" | {"name": str()}:
            return value
        case _:
            raise fields.invalid(path, 'expected "none", "auto" or {"name": ...}')


_NO_FUNCTIONS: Final = record({"functions": one_of(const(None), array({}, maxItems=0))})
#: The predecessors of ``tools`` and ``tool_choice`` in chats.
FUNCTION_MEMBERS: Final[Members] = table(
    honoured(
        "functions",
        Array(ref("Function"), {"maxItems": LIMITS.max_tools}),
        "The predecessor of `tools`. An answer calls one of them at most, with a `function_call` "
        "in its message.",
        beside=one_of(
            _NO_FUNCTIONS,
            record(
                {"tools": one_of(const(None), array({}, maxItems=0)), "tool_choice": const(None)}
            ),
        ),
    ),
    honoured(
        "function_call",
        Value(one_of(word(("none", "auto")), ref("NamedTool")), _function_call),
        "The predecessor of `tool_choice`.",
        beside=one_of(
            record({"function_call": one_of(const(None), word(("none", "auto")))}),
            record({"functions": array({}, minItems=1)}, required=("functions",)),
        ),
    ),
)


def read_functions(body: Mapping[str, Any], limits: RequestLimits) -> Tools:
    """Read ``functions`` and ``function_call`` of a chat as the tools that came after them.

    Raises:
        RequestError: a function or the choice is wrong, or there are tools too.
    """
    functions = body.get("functions") or []
    choice = body.get("function_call")
    for name in ("tools", "tool_choice"):
        if functions and body.get(name):
            raise fields.invalid(name, "functions are there too; use tools and tool_choice alone")
    if len(functions) > limits.max_tools:
        raise fields.invalid(
            "functions", f"{len(functions)} functions {_TOO_MANY} {limits.max_tools}"
        )
    if isinstance(choice, dict):
        name = choice["name"]
        if not any(isinstance(each, dict) and each.get("name") == name for each in functions):
            shown = fields.describe(name)
            raise fields.invalid("function_call.name", f"{shown} names none of the functions")
        choice = {"type": "function", "name": name}
    tools = [{**each, "type": "function"} if isinstance(each, dict) else each for each in functions]
    paths = [f"functions[{i}]" for i in range(len(tools))]
    return read_tools(
        {"tools": tools, "tool_choice": choice}, limits, paths=paths, longest_name=CHAT_NAME
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
        raise fields.invalid("tools", f"{len(items)} tools {_TOO_MANY} {limits.max_tools}")
    check_size(items, MAX_TOGETHER, "tools")
    if paths is None:
        paths = [f"tools[{i}]" for i in range(len(items))]
    read = [_check_tool(path, tool, longest_name) for path, tool in zip(paths, items, strict=True)]
    _check_names(read)
    if chosen is not None:
        places = [i for i, tool in enumerate(read) if tool.name == chosen]
        items, read = [items[i] for i in places], [read[i] for i in places]
    if items:
        return Tools(
            [_nested(tool) for tool in items],
            choice,
            tuple(f"{tool.path}.parameters" for tool in read),
        )
    if choice == "auto":
        return NO_TOOLS
    unmet = Tools([], choice, named=chosen or "")
    if not (limits.may_get_tools or (choice == "required" and has_servers)):
        refuse_unmet(unmet)
    return unmet


def _nested(tool: dict[str, Any]) -> dict[str, Any]:
    """Return a tool as templates expect it, with the function in an object of its own."""
    if isinstance(tool.get("function"), dict):
        return tool
    # Like OpenVINO Model Server: the schema of the tool's result is not for the model.
    kept = {name: value for name, value in tool.items() if name not in ("type", "response")}
    return {"type": "function", "function": kept}


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


_CHOICE_MEMBERS: Final = ("type", "function", "name", "namespace", "disable_parallel_tool_use")
_Choice = Literal["none", "auto", "required", "named"]


def _read_choice(body: Mapping[str, Any]) -> tuple[_Choice, str | None]:
    """Return the choice, and the name of the tool with "named"."""
    value = body.get("tool_choice")
    if isinstance(value, dict):
        check_object(value, "tool_choice", _CHOICE_MEMBERS)
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
