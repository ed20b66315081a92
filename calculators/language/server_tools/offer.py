"""Addition of this server's tools to a request."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from calculators.kit.requests.http_payload import RequestError
from calculators.language import Api, GenerationRequest, Tools, ToolServer
from calculators.language.server_tools.messages import ToolSpec
from calculators.language.server_tools.toolbox import Toolbox


def offer_tools(request: GenerationRequest, toolbox: Toolbox) -> GenerationRequest:
    """Return the request with the tools that its model may call besides the client's.

    All tools are offered, and the client does not see their calls; unless it names servers by their
    labels: then theirs are, and the answer shows the calls. Completions have no tools. A request
    that may call none of this server's tools gets none, and the servers that it names have none.

    Raises:
        RequestError: a tool of the client has the name of one here, several answers are asked for,
            or a server is named that is not here.
    """
    if request.refusal is not None or request.api is Api.COMPLETIONS:
        return request
    client = request.tools
    servers = tuple(_resolved(asked, toolbox) for asked in request.tool_servers)
    is_declined = (
        client.is_declined
        or (client.choice == "named" and bool(client.items))  # the client's tool, and no other
        or request.max_tool_calls == 0
        or not toolbox.may_call
    )
    if is_declined:
        return _without_tools(request, servers)
    if servers:
        offered = [spec for server in servers for spec in _specs(server, toolbox)]
    else:
        offered = list(toolbox.tools.values())
    if client.choice == "named":
        offered = [spec for spec in offered if spec.name == client.named]
    if not offered:
        return _without_tools(request, servers)
    if request.n > 1:
        raise RequestError(
            f'Invalid value for "n": {request.n} answers cannot share the tools of this server; '
            f"ask for one",
            param="n",
        )
    own = {spec.name for spec in offered}
    for place, name in enumerate(names_of(request.tools)):
        if name in own:
            raise RequestError(
                f'Invalid value for "tools[{place}].function.name": this server has a tool of the '
                f'name "{name}"; leave it out, or rename it',
                param=f"tools[{place}].function.name",
            )
    tools = Tools(
        [*client.items, *map(_item, offered)],
        "auto" if client.choice == "none" else client.choice,
        (*client.schema_paths, *(f"tools.{spec.name}.parameters" for spec in offered)),
        grammars=client.grammars,
    )
    return replace(request, tools=tools, tool_servers=servers)


def _without_tools(
    request: GenerationRequest, servers: tuple[ToolServer, ...]
) -> GenerationRequest:
    if not servers:
        return request
    return replace(request, tool_servers=tuple(each._replace(tools=()) for each in servers))


def names_of(tools: Tools) -> Iterable[str]:
    """Yield the names of tools, in their order."""
    for item in tools.items:
        yield (item.get("function") or item)["name"]


def _resolved(asked: ToolServer, toolbox: Toolbox) -> ToolServer:
    """Return a server that the client names, with its tools.

    Raises:
        RequestError: there is none of that label, or the client gives another address.
    """
    specs = [spec for spec in toolbox.tools.values() if spec.server == asked.label]
    if not specs:
        known = ", ".join(f'"{label}"' for label in toolbox.labels)
        raise RequestError(
            f'Invalid value for "{asked.path}": this server has no tools "{asked.label[:64]}"; '
            f"it has {known}",
            param=asked.path,
        )
    if asked.url and asked.url != toolbox.urls.get(asked.label):
        # An address from outside would make this server send requests where the client wants.
        raise RequestError(
            f'Invalid value for "{asked.path}": this server connects to its own tool servers only; '
            f"name one by its label, without an address",
            param=asked.path,
        )
    specs = [spec for spec in specs if spec.name not in asked.refused]
    if asked.allowed is not None:
        specs = [spec for spec in specs if spec.name in asked.allowed]
    return asked._replace(tools=tuple(map(_function, specs)), is_offered=True)


def _specs(server: ToolServer, toolbox: Toolbox) -> Sequence[ToolSpec]:
    return [toolbox.tools[function["name"]] for function in server.tools]


def _function(spec: ToolSpec) -> dict[str, Any]:
    return {
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
    }


def _item(spec: ToolSpec) -> dict[str, Any]:
    return {"type": "function", "function": _function(spec)}
