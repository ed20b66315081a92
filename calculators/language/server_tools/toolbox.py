"""`Toolbox`: the tools of a node, and how they are offered in a request.

`offer_tools` adds them to what the client offers; their calls go to a `Lane`, which runs them in
another process. Every end of a call is a `ToolResult`, failures too, which the model reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from calculators.kit.requests.http_payload import RequestError
from calculators.language import GenerationRequest, Tools, ToolServer
from calculators.language.server_tools.messages import ToolSpec


class ToolResult(NamedTuple):
    """The end of a call.

    Attributes:
        output: the text for the model; "" if the call failed.
        error: why it failed, for the model; None if it did not.
    """

    output: str
    error: str | None = None

    @property
    def text(self) -> str:
        """The message to the model."""
        return self.output if self.error is None else f"error: {self.error}"


#: As requests may name tools.
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
#: Bytes of JSON that the schema of one tool may have, and all tools together.
_MAX_SCHEMA: Final = 64 * 1024
_MAX_TOGETHER: Final = 1024 * 1024


class ToolsRefused(Exception):
    """Tools cannot be offered to models; the text says which and why."""


class Lane(Protocol):
    """Calls tools that run in other processes."""

    async def call(self, spec: ToolSpec, arguments: str, seconds: float) -> ToolResult:
        """Make a call of at most this many seconds; failures are results, too."""

    async def close(self) -> None:
        """End the processes."""


class Toolbox:
    """The tools of one `ToolsCalculator` node: a resource that all runs of a graph share.

    A tool whose process or server is down fails its calls, and the model reads why. So the graph
    stays ready.

    Attributes:
        tools: by name, in the order of the options.
        urls: of the servers that are reached by HTTP, by label.
        may_call: the bounds of a request leave a turn with tools, and a call.
    """

    unavailable_reason: str = ""

    def __init__(
        self,
        lanes: Sequence[tuple[Lane, Sequence[ToolSpec]]],
        *,
        call_seconds: float,
        urls: Mapping[str, str] | None = None,
        may_call: bool = True,
    ) -> None:
        """
        Raises:
            ToolsRefused: two tools of one name, a name or schema that no request could have.
        """
        self._lanes = [lane for lane, _ in lanes]
        self._call_seconds = call_seconds
        self._lane_of = {spec.name: lane for lane, specs in lanes for spec in specs}
        self.urls = dict(urls or {})
        self.may_call = may_call
        self.tools: dict[str, ToolSpec] = {}
        size = 0
        for _, specs in lanes:
            for spec in specs:
                size += _checked(spec, self.tools.get(spec.name))
                self.tools[spec.name] = spec
        if size > _MAX_TOGETHER:
            raise ToolsRefused(
                f"the schemas of all tools have {size} bytes, more than {_MAX_TOGETHER}; allow "
                f"fewer tools"
            )

    @property
    def labels(self) -> list[str]:
        """The labels of the servers, in the order of the options."""
        return list(dict.fromkeys(spec.server for spec in self.tools.values()))

    async def call(self, name: str, arguments: str) -> ToolResult:
        """Call a tool with a JSON object of arguments; failures are results, too."""
        spec = self.tools[name]
        return await self._lane_of[name].call(spec, arguments, self._call_seconds)

    async def close(self) -> None:
        for lane in self._lanes:
            await lane.close()


def _checked(spec: ToolSpec, other: ToolSpec | None) -> int:
    """Return the bytes of a tool's schema, if models may get it."""
    place = f'tool "{spec.name[:64]}" of "{spec.server}"'
    if not _NAME.fullmatch(spec.name):
        raise ToolsRefused(
            f"{place}: its name is not 1 to 64 letters, digits, underscores, dots and dashes; "
            f"leave it out of allow"
        )
    if other is not None:
        raise ToolsRefused(
            f'{place}: "{other.server}" has a tool of that name; leave one of them out of allow'
        )
    size = len(msgspec.json.encode(spec.parameters)) + len(spec.description.encode())
    if size > _MAX_SCHEMA:
        raise ToolsRefused(
            f"{place}: description and schema have {size} bytes, more than {_MAX_SCHEMA}"
        )
    return size


def offer_tools(request: GenerationRequest, toolbox: Toolbox) -> GenerationRequest:
    """Return the request with the tools that its model may call besides the client's.

    All tools are offered, and the client does not see their calls; unless it names servers by their
    labels: then theirs are, and the answer shows the calls. Completions have no tools. A request
    that may call none of this server's tools gets none, and the servers that it names have none.

    Raises:
        RequestError: a tool of the client has the name of one here, several answers are asked for,
            or a server is named that is not here.
    """
    if request.refusal is not None or request.prompts:
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
