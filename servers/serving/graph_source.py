"""The source of a graph: its file, the subgraphs beside it, the places and files of its nodes."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from calculators.kit.graph_directory import GRAPH_DIRECTORY, MissingFileError, find_graph_file
from calculators.kit.requests.http_payload import HttpPayload
from calculators.kit.tasks import AuthorEndpoint, installed_tasks, task_of_node
from calculators.tensors.openvino.directory_models import MODELS
from graph_runtime import (
    Calculator,
    CalculatorGraph,
    GraphConfigError,
    GraphError,
    GraphService,
    GraphSyntaxError,
    LoadProgress,
    NodePlan,
    Packet,
    Registry,
    RunError,
    ValidatedGraph,
    load_graph_config,
    parse_graph_text,
    validate_graph,
)
from graph_runtime.language.graph_config import MAX_BYTES, parse_graph_draft
from graph_runtime.language.source_map import node_positions, port_positions
from graph_runtime.plan.link_errors import no_output_producer
from graph_runtime.plan.stall_check import has_path
from graphrt_base.regular_file import read_regular_file
from servers.serving.servable import HttpRole

#: The streams of an HTTP graph, by tag, else by name (OpenVINO Model Server knows only the names).
REQUEST_TAGS: Final = ("HTTP_REQUEST_PAYLOAD", "REQUEST_PAYLOAD")
RESPONSE_TAGS: Final = ("HTTP_RESPONSE_PAYLOAD", "RESPONSE_PAYLOAD")
REQUEST_NAME: Final = "input"
RESPONSE_NAME: Final = "output"

#: The folder beside a graph that may have its subgraphs.
SUBGRAPHS: Final = "subgraphs"
_log: Final = logging.getLogger(__name__)

#: OpenVINO Model Server's own pattern (``mediapipegraphdefinition.cpp``).
_QUEUE_SIZE: Final = re.compile(r"^[^\S\n]*#\s*OVMS_GRAPH_QUEUE_MAX_SIZE\s*:\s*(\S+)\s*$", re.M)


def role_of(calculators: Iterable[type[Calculator] | None]) -> HttpRole:
    """Return the part below ``/v3/`` of a graph without a node of a task, by its calculators."""
    found = (getattr(each, "endpoint", None) for each in calculators)
    endpoints = tuple(each for each in found if isinstance(each, AuthorEndpoint))
    facts = {"endpoints": [each.path for each in endpoints]} if endpoints else {}
    return HttpRole(facts=facts, endpoints=endpoints)


class GraphSource:
    """One graph file, or a graph whose ``text`` is given.

    Attributes:
        path: the path as the user wrote it; for a generated graph, its name in messages.
        config: the ``CalculatorGraphConfig`` as written.
        configs: ``config``, and the configs of the subgraph files beside it that it uses.
        files: the files of ``configs``; empty for a generated graph.
        registry: the registry for its nodes, with the subgraphs beside it.

    Args:
        text: the text of a generated graph, which has no file.
        draft: the text of the file as an editor has it, which may not be saved.
        errors: receives errors in options, so that the rest of the graph can be checked. None:
            they are raised.

    Raises:
        GraphError: the graph cannot be read, or does not parse.
    """

    def __init__(
        self,
        path: str,
        registry: Registry,
        *,
        text: str | None = None,
        draft: str | None = None,
        errors: list[GraphSyntaxError] | None = None,
    ) -> None:
        self.path = path
        self.registry = Registry(registry)
        self._is_file = text is None
        self._draft = draft
        self._given = text
        self.files: list[Path] = []
        if text is None:
            self.config = (
                load_graph_config(path, errors=errors)
                if draft is None
                else parse_graph_draft(draft, source=path, errors=errors)
            )
            self.configs = [self.config]
            self.files.append(Path(path))
            self._register_neighbours()
        else:
            self.config = parse_graph_text(text, source=path)
            self.configs = [self.config]

    def validate(self) -> ValidatedGraph:
        """Return the plan of the graph.

        Raises:
            ValidationError: the graph is invalid. It holds every finding; findings about a node
                begin with the node's `positions`.
        """
        return validate_graph(self.config, registry=self.registry, positions=self.positions())

    def positions(self) -> list[str] | None:
        """Return ``file:line:column`` of each node, in order; None without a text file."""
        places = self.node_places()
        if places is None:
            return None
        return [f"{self.path}:{line}:{column}" for line, column in places]

    def node_places(self) -> list[tuple[int, int]] | None:
        """Return line and column of each node, in order; None without a text file."""
        text = self._text()
        if text is None:
            return None
        places = node_positions(text)
        return places if len(places) == len(self.config.node) else None

    def place_in(self, message: str) -> tuple[int, int] | None:
        """Return line and column of the graph's own stream or side packet that a message quotes;
        None if it quotes none."""
        for entry, place in port_positions(self._text() or "").items():
            if f'"{entry}"' in message or f'"{entry.rpartition(":")[2]}"' in message:
                return place
        return None

    def further_names(self) -> tuple[str, ...]:
        """Return further names under which tasks serve the graph: its LoRA adapters."""
        names = (
            name
            for config in self.configs
            for task in installed_tasks()
            for name in task.further_names(config)
        )
        return tuple(dict.fromkeys(names))

    def http_role(self) -> HttpRole | None:
        """Return the part that the graph plays below ``/v3/``, by its text alone.

        A loaded graph knows more: types of streams, side packets, facts of the model.
        """
        inputs = [_tag_and_name(each) for each in self.config.input_stream]
        outputs = [_tag_and_name(each) for each in self.config.output_stream]
        if not (
            find_stream(inputs, REQUEST_TAGS, REQUEST_NAME)
            and find_stream(outputs, RESPONSE_TAGS, RESPONSE_NAME)
        ):
            return None
        nodes = (node for config in self.configs for node in config.node)
        kinds = list(dict.fromkeys(node.calculator for node in nodes))
        if (task := next(filter(None, map(task_of_node, kinds)), None)) is not None:
            return HttpRole(task.name)
        package = self.config.package
        return role_of(self.registry.find_calculator(kind, package) for kind in kinds)

    def queue_size(self) -> int | Literal["AUTO"]:
        """Return the value of the comment ``# OVMS_GRAPH_QUEUE_MAX_SIZE: AUTO``; 0 without one.

        In OpenVINO Model Server it is the number of prepared instances of the graph. Here it has
        no effect: a graph is made from its plan for each request, in some microseconds.

        Raises:
            GraphSyntaxError: the value is neither a number from 0 on nor AUTO.
        """
        text = self._text() or ""
        match = _QUEUE_SIZE.search(text)
        if match is None or match[1] == "AUTO":
            return 0 if match is None else "AUTO"
        if not match[1].isdecimal() or len(match[1]) > 9:
            raise GraphSyntaxError(
                f"OVMS_GRAPH_QUEUE_MAX_SIZE is {match[1][:40]}; a whole number from 0 on, or AUTO, "
                f"is needed",
                source=self.path,
                line=text.count("\n", 0, match.start(1)) + 1,
                column=match.start(1) - text.rfind("\n", 0, match.start(1)),
            )
        return int(match[1])

    @property
    def text(self) -> str:
        """The text of the graph: its file's as it is now, or the given one; "" if it is binary."""
        return (self._text() or "") if self._given is None else self._given

    def _text(self) -> str | None:
        """Return the file as text; None for a binary file, or without a file."""
        if not self._is_file:
            return None
        if self._draft is not None:
            return self._draft
        try:
            return read_regular_file(self.path, MAX_BYTES).decode()
        except (OSError, UnicodeDecodeError):
            return None

    def _register_neighbours(self) -> None:
        """Register the subgraph files beside this one that define the types of its nodes.

        A file that declares a built-in type is the author's own version of it, and wins.
        """
        waiting = [self.config]
        tried: set[str] = set()
        neighbours = _Neighbours(Path(self.path))
        while waiting:
            config = waiting.pop()
            for node in config.node:
                name = node.calculator
                if name in tried:
                    continue
                tried.add(name)
                is_known = self._is_known(name, self.config.package)
                found = neighbours.find(name, only_declared=is_known)
                if found is None:
                    continue
                path, subgraph = found
                if is_known:
                    _log.info(
                        '%s: the node type "%s" is %s, not the built-in one', self.path, name, path
                    )
                self.registry.register_subgraph(subgraph, name)
                self.files.append(path)
                waiting.append(subgraph)
                self.configs.append(subgraph)

    def _is_known(self, name: str, package: str) -> bool:
        return (
            self.registry.find_calculator(name, package) is not None
            or self.registry.find_subgraph(name, package) is not None
        )


class _Neighbours:
    """The files around a graph that may define the types of its nodes.

    They lie in the graph's folder, or anywhere in a folder `SUBGRAPHS` of it. A file declares its
    type; the type of one that declares none is its name. Of several files for a type the first
    counts, with a warning. Only likely files are parsed, because the others may be anything.
    """

    _TYPE: Final = re.compile(r"""\btype\s*:\s*["']([^"'\n]+)["']""")

    def __init__(self, graph: Path) -> None:
        self._graph = graph

    def find(self, name: str, *, only_declared: bool) -> tuple[Path, Any] | None:
        """Return the file of a type and its config; None without one.

        ``only_declared``: a file of the graph's folder counts only if it declares the type, not by
        its name.

        Raises:
            GraphError: a file that is likely to have it does not parse.
        """
        found: list[tuple[Path, Any]] = []
        for path in self._paths:
            is_named = path.stem == name
            if only_declared and path.parent == self._graph.parent:
                # It may be a graph that shows what the built-in type of its name does.
                is_named = False
            if is_named or path in self._declared.get(name, ()):
                try:
                    config = load_graph_config(path)
                except (GraphConfigError, GraphSyntaxError):
                    if found:
                        continue
                    raise
                if (config.type or path.stem) == name:
                    found.append((path, config))
        if len(found) > 1:
            others = ", ".join(str(path) for path, _ in found[1:])
            _log.warning('the node type "%s" is %s; not used: %s', name, found[0][0], others)
        return found[0] if found else None

    @cached_property
    def _paths(self) -> list[Path]:
        own = self._graph.resolve()
        return [each for each in subgraph_files(self._graph.parent) if each.resolve() != own]

    @cached_property
    def _declared(self) -> dict[str, list[Path]]:
        found: dict[str, list[Path]] = {}
        for path in self._paths:
            try:
                text = read_regular_file(path, MAX_BYTES).decode()
            except (OSError, UnicodeDecodeError):
                continue
            for name in set(self._TYPE.findall(text)):
                found.setdefault(name, []).append(path)
        return found


def subgraph_files(folder: Path) -> list[Path]:
    """Return the files in which a graph of this folder finds its subgraphs, in their order."""
    return [*sorted(folder.glob("*.pbtxt")), *sorted((folder / SUBGRAPHS).rglob("*.pbtxt"))]


def find_stream(streams: Iterable[tuple[str, str]], tags: Iterable[str], name: str) -> str:
    """Return the stream with the first of these tags, else of this name; "" if there is none."""
    streams = list(streams)
    for wanted in tags:
        for tag, stream in streams:
            if tag == wanted:
                return stream
    return next((stream for _, stream in streams if stream == name), "")


def request_stream_of(plan: ValidatedGraph) -> str:
    """Return the graph input that takes an `HttpPayload`; "" without one."""
    inputs = [
        (graph_input.tag, graph_input.name)
        for graph_input in plan.graph_inputs
        if graph_input.checker is None or graph_input.checker.accepts(HttpPayload("/", {}))
    ]
    return find_stream(inputs, REQUEST_TAGS, REQUEST_NAME)


def response_stream_of(plan: ValidatedGraph) -> str:
    """Return the graph output whose packets are sent to the client; "" without one."""
    outputs = [
        (tag, name) for (tag, _), name in zip(plan.outputs.keys, plan.outputs.names, strict=True)
    ]
    return find_stream(outputs, RESPONSE_TAGS, RESPONSE_NAME)


def _tag_and_name(entry: str) -> tuple[str, str]:
    """Return tag and name of a stream's entry, ``TAG:index:name``, ``TAG:name`` or ``name``."""
    tag, colon, rest = entry.partition(":")
    return (tag, rest.rpartition(":")[2]) if colon else ("", entry)


def serving_problems(plan: ValidatedGraph) -> list[str]:
    """Return the reasons why no request could ever be answered; empty if one could."""
    if not plan.nodes:
        return [
            'the graph has no nodes, so there is nothing to serve: add node { calculator: "..." }'
        ]
    problems = [
        no_output_producer(name, plan.producers)
        for name in plan.outputs.names
        if name not in plan.producers
    ]
    return problems or answer_problems(plan)


def answer_problems(plan: ValidatedGraph) -> list[str]:
    """Return the reasons why no HTTP request could ever be answered."""
    request, response = request_stream_of(plan), response_stream_of(plan)
    takes_http = any(
        each.name == request and (each.checker is not None or each.tag in REQUEST_TAGS)
        for each in plan.graph_inputs
    )
    if not takes_http or not response:
        return []
    if not has_path(plan, request, response):
        return [
            f'no node leads from "{request}", the request, to "{response}", the answer: no request '
            f"would be answered"
        ]
    # A join that waits for ever is in the way if nothing leads around it.
    return [
        f"no request would be answered: {warning}"
        for warning in plan.warnings
        if warning.is_certain and not has_path(plan, request, response, without=(warning.node,))
    ]


def check_servable(plan: ValidatedGraph) -> None:
    """Check that requests can be answered.

    Raises:
        GraphConfigError: no request could be answered; the text has all reasons.
    """
    if problems := serving_problems(plan):
        raise GraphConfigError("\n".join(problems))


# Files of nodes ----------------------------------------------------------------------------------
#
# Nodes open their files when a run begins. A graph that names a file which is nowhere would load,
# and fail at each request; so these nodes are opened once, without packets, before the first
# request. Models are compiled meanwhile, and no request waits for that.


async def open_files(
    plan: ValidatedGraph,
    registry: Registry,
    services: Mapping[GraphService[Any], Any],
    side_packets: Mapping[str, Packet],
    progress: LoadProgress,
) -> None:
    """Open every node that reads files, each in a run of its own.

    Nodes that need a side packet of the request are left to the requests.

    Args:
        services: of the runs of the graph, with `GRAPH_DIRECTORY` and `MODELS`.

    Raises:
        GraphError: a file is missing, or a model cannot be loaded; the text names the node.
    """
    nodes = list(_file_nodes(plan))
    for node in nodes:  # before anything is compiled
        await _read(plan, node, registry, services, side_packets)
    for node in nodes:
        if _model_path(node) is not None:
            progress.begin("compiling the models that nodes name", 0.9)
            await _open(plan, node, registry, services, side_packets)


async def missing_files(
    plan: ValidatedGraph, registry: Registry, services: Mapping[GraphService[Any], Any]
) -> list[tuple[NodePlan, str]]:
    """Return (node, reason) for each file that `open_files` would miss. Compiles no model."""
    found = []
    for node in _file_nodes(plan):
        try:
            await _read(plan, node, registry, services, {})
        except GraphError as error:
            found.append((node, str(error).removeprefix(f'node "{node.name}": ')))
    return found


def _file_nodes(plan: ValidatedGraph) -> Iterator[NodePlan]:
    return (node for node in plan.nodes if GRAPH_DIRECTORY.key in node.service_requests)


def _model_path(node: NodePlan) -> str | None:
    """Return the file of the model that a node runs; "" if a side packet has it; None without."""
    return next((each.model_path for _, each in node.options if hasattr(each, "model_path")), None)


async def _read(
    plan: ValidatedGraph,
    node: NodePlan,
    registry: Registry,
    services: Mapping[GraphService[Any], Any],
    side_packets: Mapping[str, Packet],
) -> None:
    """Do the part of `_open` that compiles nothing."""
    path = _model_path(node)
    if path is None:
        await _open(plan, node, registry, services, side_packets)
    elif path:  # otherwise the file is found by another node
        directory, models = services[GRAPH_DIRECTORY], services[MODELS]
        try:
            await asyncio.to_thread(find_graph_file, path, directory, models.file_of)
        except MissingFileError as error:
            raise _named(node, error) from error


async def _open(
    plan: ValidatedGraph,
    node: NodePlan,
    registry: Registry,
    services: Mapping[GraphService[Any], Any],
    side_packets: Mapping[str, Packet],
) -> None:
    kept = _with_makers(plan, node)
    outside = {
        side.name for each in kept for side in each.side_input_plans if side.producer is None
    }
    if any(not plan.side_packet_types[name][1] for name in outside - side_packets.keys()):
        return
    graph = CalculatorGraph(_graph_of(plan, kept), registry=registry, services=services)
    try:
        await graph.start_run_async(
            {name: side_packets[name] for name in outside & side_packets.keys()}
        )
        graph.close_all_packet_sources()
        await graph.wait_until_done_async()
    except RunError as error:
        cause = error.errors[0].__cause__
        if not isinstance(cause, GraphError):
            raise
        raise _named(node, cause) from cause


def _named(node: NodePlan, error: GraphError) -> GraphError:
    return GraphError(f'node "{node.name}": {error}', code=error.code)


def _with_makers(plan: ValidatedGraph, node: NodePlan) -> list[NodePlan]:
    """Return a node and those that make side packets for it, in the order of the plan."""
    found = {node.node_id}
    waiting = [node]
    while waiting:
        for side in waiting.pop().side_input_plans:
            if side.producer is not None and side.producer not in found:
                found.add(side.producer)
                waiting.append(plan.nodes[side.producer])
    return [plan.nodes[each] for each in sorted(found)]


def _graph_of(plan: ValidatedGraph, nodes: list[NodePlan]) -> Any:
    """Return the config of these nodes alone; streams that none of them makes are its inputs."""
    config = type(plan.config)()
    made = {name for node in nodes for name in node.outputs.names}
    read = {name: None for node in nodes for name in node.inputs.names if name not in made}
    config.input_stream.extend(read)
    for node in nodes:
        each = config.node.add()
        each.CopyFrom(node.config)
        each.ClearField("executor")  # the graph's own
        each.ClearField("input_stream_info")  # its back edges lead elsewhere
    return config
