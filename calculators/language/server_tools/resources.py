"""`ToolsResourceInitializer`: makes the side packet ``TOOLS``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from calculators.kit.child_process.supervisor import LoadError
from calculators.kit.tasks.options import naming_node
from calculators.language.server_tools.function_lane import FunctionLane
from calculators.language.server_tools.mcp_lane import McpLane
from calculators.language.server_tools.messages import LoadFunctions, LoadServers, ToolSpec
from calculators.language.server_tools.toolbox import Lane, Toolbox, ToolsRefused
from calculators.language.server_tools.tools_options import (
    CALCULATOR,
    ToolsSettings,
    code_files,
    read_settings,
)
from graph_runtime import (
    LoadProgress,
    NodePlan,
    NodeResource,
    ResourceError,
    ResourceSettings,
    identity_of,
)

RESOURCES_TAG = "TOOLS"


class ToolsResourceInitializer:
    """Starts the processes of every `ToolsCalculator` node."""

    tag: str = RESOURCES_TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator == CALCULATOR

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        with naming_node(node):
            read_settings(node, settings)
        return ()

    def identity(self, node: NodePlan, settings: ResourceSettings) -> str | None:
        """See `graph_runtime.SharingInitializer`. All code that tools may import counts, as far as
        it is beside the graph or in the packages of the modules."""
        with naming_node(node):
            read = read_settings(node, settings)
        return identity_of(read, files=code_files(read))

    async def adopt(
        self, resource: NodeResource, node: NodePlan, settings: ResourceSettings
    ) -> NodeResource:
        """Return ``resource``: the calculator reads the bounds, which are no part of it."""
        return resource

    async def make(self, node: NodePlan, settings: ResourceSettings) -> Toolbox:
        with naming_node(node):
            read = await asyncio.to_thread(read_settings, node, settings)
            try:
                return await load_toolbox(read, node.config.name, settings.progress)
            except (LoadError, ToolsRefused) as error:
                raise ResourceError(str(error)) from error


async def load_toolbox(settings: ToolsSettings, name: str, progress: LoadProgress) -> Toolbox:
    """Start the processes of a node; if one fails, all are ended.

    Raises:
        LoadError: a server or module cannot be loaded.
        ToolsRefused: their tools cannot be offered.
    """
    lanes: list[FunctionLane | McpLane] = []
    if settings.python:
        functions = LoadFunctions(
            list(settings.python),
            str(settings.directory),
            list(settings.allow_paths),
            settings.max_output_bytes,
        )
        lanes.append(
            FunctionLane(functions, f'tools process of "{name}"', settings.python_processes)
        )
    if settings.servers:
        servers = LoadServers(
            list(settings.servers), str(settings.directory), settings.max_output_bytes
        )
        lanes.append(McpLane(servers, f'tool server process of "{name}"'))
    started: list[tuple[Lane, Sequence[ToolSpec]]] = []
    try:
        for lane, part in zip(lanes, progress.split(*(1.0 for _ in lanes)), strict=True):
            started.append((lane, await lane.start(part)))
            part.finish()
        return Toolbox(
            started,
            call_seconds=settings.call_seconds,
            urls={server.label: server.url for server in settings.servers if server.url},
            may_call=settings.may_call,
        )
    except BaseException:
        await asyncio.gather(*(lane.close() for lane in lanes))
        raise
