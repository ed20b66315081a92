"""Files that the nodes of a graph open, found while the graph is loaded.

Nodes open their files when a run begins. A graph that names a file which is nowhere would load, and
fail at each request; so these nodes are opened once, without packets, before the first request.
Models are compiled meanwhile, and no request waits for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

from calculators.kit.graph_directory import GRAPH_DIRECTORY, MissingFileError, find_graph_file
from calculators.tensors.openvino.model_provider import MODELS
from graph_runtime import (
    CalculatorGraph,
    GraphError,
    GraphService,
    LoadProgress,
    NodePlan,
    Packet,
    Registry,
    RunError,
    ValidatedGraph,
)


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
        services: those of the graph's runs, `GRAPH_DIRECTORY` and `MODELS` among them.

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
