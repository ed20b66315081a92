"""Servers of tools that a request names by their labels, for a node of the graph to call.

A client names a server; it does not say where it is. An address from outside would make this server
send requests where the client wants, so addresses that are not the node's own are refused there,
and credentials here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import check_object
from calculators.language.tools import ToolServer

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
    """True if a tool of a responses request is a server."""
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


def shown_mcp_tool(tool: Mapping[str, Any]) -> dict[str, Any]:
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
    """True if a tool of a messages request is the choice of a server's tools."""
    return isinstance(tool, dict) and tool.get("type") == "mcp_toolset"


def read_mcp_servers(body: Mapping[str, Any]) -> tuple[ToolServer, ...]:
    """Read ``mcp_servers`` of a messages request, and the tools of the type "mcp_toolset".

    Raises:
        RequestError: one is wrong, or has credentials.
    """
    listed = fields.array(body, "mcp_servers") or []
    servers = [_server(server, f"mcp_servers[{i}]") for i, server in enumerate(listed)]
    found = {server.label: server for server in _checked(servers, "mcp_servers")}
    tools = body.get("tools")
    for i, tool in enumerate(tools if isinstance(tools, list) else ()):
        if is_toolset(tool):
            name = fields.string(tool, "mcp_server_name", f"tools[{i}].mcp_server_name")
            if name is None or name not in found:
                raise fields.invalid(
                    f"tools[{i}].mcp_server_name", "it names none of the mcp_servers"
                )
            found[name] = _with_toolset(found[name], tool, f"tools[{i}]")
    return tuple(found.values())


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
