"""`ToolsSettings`: the checked options of a tools node."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from calculators.kit.installed_points import is_installed
from calculators.language.server_tools.messages import McpServerSettings
from graph_runtime import GraphError, NodePlan, ResourceError, ResourceSettings, find_options
from protos import messages

CALCULATOR: Final = "ToolsCalculator"
OPTIONS_TYPE = messages.ToolsOptions
_MCP: Final = 2
_MAX_PROCESSES: Final = 64


@dataclass(frozen=True, slots=True)
class ToolsBounds:
    """The bounds of one request."""

    max_turns: int
    max_calls: int
    total_seconds: float

    @property
    def leave_calls(self) -> bool:
        """True if the model may call a tool at all: the last turn has no tools."""
        return self.max_turns > 1 and self.max_calls > 0


@dataclass(frozen=True, slots=True)
class ToolsSettings:
    """The options of `ToolsCalculator`; see ``protos/graphrt/tools.proto``.

    Attributes:
        directory: of the graph, absolute.
        allow_paths: absolute paths for the Python functions.
        may_call: the bounds of a request leave a call. The other bounds are the node's alone, so
            that the tools outlive an edit of them.
    """

    servers: tuple[McpServerSettings, ...]
    python: tuple[str, ...]
    directory: Path
    allow_paths: tuple[str, ...]
    python_processes: int
    call_seconds: float
    max_output_bytes: int
    may_call: bool


def read_settings(node: NodePlan, settings: ResourceSettings) -> ToolsSettings:
    """Read the options of a node.

    Raises:
        ResourceError: an option is wrong, or an extra is not installed; the text says which.
    """
    options = find_options(node.config, OPTIONS_TYPE)
    if not options.server and not options.python:
        raise ResourceError(
            "it has no tools; it needs at least node_options: { "
            '[type.googleapis.com/graphrt.ToolsOptions]: { python: "my_tools" } }, or a server'
        )
    directory = settings.directory.resolve()
    servers = tuple(
        _server(f"server[{place}]", server, directory)
        for place, server in enumerate(options.server)
    )
    labels = [server.label for server in servers] + [
        module.rpartition(".")[2] for module in options.python
    ]
    for label in labels:
        if labels.count(label) > 1:
            raise ResourceError(f'two servers or modules have the label "{label}"')
    if servers:
        _need_mcp()
    _need(
        1 <= options.python_processes <= _MAX_PROCESSES,
        f"python_processes: {options.python_processes} is not from 1 to {_MAX_PROCESSES}",
    )
    _need(options.call_seconds > 0, f"call_seconds: {options.call_seconds:g} is not more than 0")
    _need(
        0 < options.max_output_bytes <= 1024 * 1024,
        f"max_output_bytes: {options.max_output_bytes} is not from 1 to 1048576",
    )
    bounds = read_bounds(options)
    return ToolsSettings(
        servers=servers,
        python=tuple(options.python),
        directory=directory,
        allow_paths=_paths("allow_path", options.allow_path, directory),
        python_processes=options.python_processes,
        call_seconds=options.call_seconds,
        max_output_bytes=options.max_output_bytes,
        may_call=bounds.leave_calls,
    )


def read_bounds(options: messages.ToolsOptions) -> ToolsBounds:
    """Read the bounds of a request from the options of a node, a ``graphrt.ToolsOptions``.

    Raises:
        ResourceError: a bound is wrong.
    """
    for name, least in (("max_turns", 1), ("max_calls", 0)):
        value = getattr(options, name)
        _need(value >= least, f"{name}: {value} is not {least} or more")
    _need(options.total_seconds > 0, f"total_seconds: {options.total_seconds:g} is not more than 0")
    return ToolsBounds(options.max_turns, options.max_calls, options.total_seconds)


def tool_paths(config: messages.CalculatorGraphConfig) -> Iterator[str]:
    """Yield the paths, relative to the graph, of files with tools that a graph's nodes may name.

    The files need not exist: modules may be elsewhere, and arguments of a command may be words.
    """
    for node in config.node:
        if node.calculator != CALCULATOR:
            continue
        try:
            options = find_options(node, OPTIONS_TYPE)
        except GraphError:  # reported when the graph is loaded
            continue
        for module in options.python:
            path = module.replace(".", "/")
            yield from (f"{path}.py", f"{path}/__init__.py")
        for server in options.server:
            yield from (word for word in server.args if not word.startswith("-"))


def code_files(settings: ToolsSettings) -> Iterator[Path]:
    """Yield the files of the code that the tools run, as far as they can be known."""
    directory = settings.directory
    for server in settings.servers:
        yield from (directory / word for word in server.command)
    folders = [directory]
    for module in settings.python:
        # Only of the package: to find a module in it imports the package.
        spec = PathFinder.find_spec(module.partition(".")[0])
        if spec is not None and spec.origin:
            yield Path(spec.origin)
            folders += map(Path, spec.submodule_search_locations or ())
    for folder in folders:
        yield from (folder, *folder.glob("*.py"), *folder.glob("*/*.py"))


def _server(place: str, server: Any, directory: Path) -> McpServerSettings:
    _need(bool(server.label), f"{place}: it has no label")
    place = f'server "{server.label}"'
    _need(
        bool(server.command) != bool(server.url),
        f"{place}: it needs a command or a url, and not both",
    )
    _need(bool(server.allow), f'{place}: no tool of it is allowed; name them: allow: "get_*"')
    _need(server.start_seconds > 0, f"{place}: start_seconds is not more than 0")
    if server.url:
        parts = urlsplit(server.url)
        _need(
            parts.scheme in ("http", "https") and bool(parts.hostname),
            f"{place}: its url is not an http:// or https:// address",
        )
        for name in ("args", "env"):
            _need(not getattr(server, name), f"{place}: {name} is for a command")
    token = ""
    if server.bearer_token_env:
        variable = server.bearer_token_env
        token = os.environ.get(variable, "")
        _need(
            bool(token), f'{place}: bearer_token_env: the environment has no variable "{variable}"'
        )
    command = sys.executable if server.command == "python" else server.command
    return McpServerSettings(
        label=server.label,
        command=[command, *server.args] if command else [],
        url=server.url,
        env=_environment(place, server.env),
        bearer_token=token,
        allow=list(server.allow),
        allow_paths=list(_paths(f"{place}: allow_path", server.allow_path, directory)),
        path_arguments=list(server.path_argument),
        start_seconds=server.start_seconds,
    )


def _environment(place: str, entries: Sequence[str]) -> dict[str, str]:
    variables: dict[str, str] = {}
    for entry in entries:
        name, is_given, value = entry.partition("=")
        _need(bool(name), f'{place}: env: "{entry}" has no name')
        if is_given:
            variables[name] = value
        elif name in os.environ:
            variables[name] = os.environ[name]
        else:
            raise ResourceError(f'{place}: env: the environment has no variable "{name}"')
    return variables


def _paths(place: str, paths: Sequence[str], directory: Path) -> tuple[str, ...]:
    found = [(directory / path).resolve() for path in paths]
    for path, given in zip(found, paths, strict=True):
        _need(path.exists(), f'{place}: there is no "{given}"')
    return tuple(map(str, found))


def _need_mcp() -> None:
    """Refuse servers without the extra, before any process is started."""
    if not is_installed("mcp"):
        raise ResourceError('MCP servers need an extra: pip install "graphrt[mcp]"')
    version = importlib.metadata.version("mcp")
    if int(version.partition(".")[0]) < _MCP:
        raise ResourceError(
            f'MCP servers need mcp {_MCP} or newer, not {version}: pip install "graphrt[mcp]"'
        )


def _need(condition: bool, text: str) -> None:
    if not condition:
        raise ResourceError(text)
