"""Toolboxes of tests: tools in real processes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

from calculators.language.server_tools.resources import ToolsResourceInitializer
from calculators.language.server_tools.toolbox import Toolbox, ToolResult
from graph_runtime import REGISTRY, Registry, ResourceSettings, parse_graph_text, validate_graph

HOSTILE = Path(__file__).with_name("hostile_server.py")
T = TypeVar("T")

GRAPH = """
input_stream: "DELTAS:said"
output_stream: "DELTAS:shown"
output_stream: "REQUEST:again"
node {
  name: "tools"
  calculator: "ToolsCalculator"
  input_side_packet: "TOOLS:tools"
  input_stream: "DELTAS:said"
  output_stream: "DELTAS:shown"
  output_stream: "REQUEST:again"
  node_options { [type.googleapis.com/graphrt.ToolsOptions] { %s } }
}
"""


def hostile(label: str = "hostile", *, allow: str = "*", start: str = "", more: str = "") -> str:
    """The options of a server with `HOSTILE`'s tools."""
    args = f'args: "{HOSTILE}"' + (f' args: "{start}"' if start else "")
    return f'server {{ label: "{label}" command: "python" {args} allow: "{allow}" {more} }}'


class OpenToolbox:
    """The toolbox of a node, on an event loop of its own."""

    def __init__(self, options: str, directory: Path) -> None:
        self._runner = asyncio.Runner()
        try:
            self.toolbox = self.run(make_toolbox(options, directory))
        except BaseException:
            self._runner.close()
            raise

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def call(self, name: str, arguments: str = "{}") -> ToolResult:
        return self.run(self.toolbox.call(name, arguments))

    def calls(self, *names: str) -> Mapping[str, ToolResult]:
        """Make several calls at the same time."""

        async def all_() -> list[ToolResult]:
            return await asyncio.gather(*(self.toolbox.call(name, "{}") for name in names))

        return dict(zip(names, self.run(all_()), strict=True))

    def close(self) -> None:
        self.run(self.toolbox.close())
        self._runner.close()


async def make_toolbox(options: str, directory: Path) -> Toolbox:
    plan = validate_graph(parse_graph_text(GRAPH % options), registry=Registry(REGISTRY))
    (node,) = plan.nodes
    return await ToolsResourceInitializer().make(node, ResourceSettings(directory))
