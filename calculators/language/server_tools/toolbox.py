"""`Toolbox`: the tools of a node, ready to be called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import msgspec

from calculators.language.server_tools.messages import ToolSpec
from calculators.language.server_tools.tool_result import ToolResult

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
