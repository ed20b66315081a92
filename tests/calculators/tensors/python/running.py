"""Graphs with Python nodes, loaded and run as a server does it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from calculators.tensors import python
from calculators.tensors.python.python_node import PythonNode
from calculators.tensors.python.resources import ProcessInstance, ThreadInstance
from graph_runtime import (
    REGISTRY,
    CalculatorGraph,
    GraphError,
    Packet,
    Registry,
    ResourceSettings,
    RunError,
    ValidatedGraph,
    make_resources,
    parse_graph_text,
    validate_graph,
)

OPTIONS = (
    "node_options: { [type.googleapis.com / mediapipe.PythonExecutorCalculatorOptions]: "
    '{ handler_path: "%s" } }\n'
)

#: From OpenVINO Model Server's documentation: one input, one output.
PLAIN = (
    """
input_stream: "OVMS_PY_TENSOR:text"
output_stream: "OVMS_PY_TENSOR:uppercase"
node {
  name: "node"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "INPUT:text"
  output_stream: "OUTPUT:uppercase"
"""
    + OPTIONS % "model.py"
    + "}"
)

#: A handler of HTTP requests in ``model.py``.
HTTP_HANDLER = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "handler"
  calculator: "PythonExecutorCalculator"
  input_side_packet: "PYTHON_NODE_RESOURCES:py"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
  node_options: {
    [type.googleapis.com/mediapipe.PythonExecutorCalculatorOptions]: { handler_path: "model.py" }
  }
}
"""

#: The loop that a node needs for a generator.
LOOP = """
  input_stream: "LOOPBACK:loopback"
  output_stream: "LOOPBACK:loopback"
  input_stream_info: { tag_index: 'LOOPBACK:0', back_edge: true }
  input_stream_handler {
    input_stream_handler: "SyncSetInputStreamHandler",
    options {
      [mediapipe.SyncSetInputStreamHandlerOptions.ext] { sync_set { tag_index: "LOOPBACK:0" } }
    }
  }
"""
GENERATIVE = PLAIN[:-1] + LOOP + "}"


def registry() -> Registry:
    python.register(REGISTRY)
    return REGISTRY


class Run:
    """A run of a graph, with its output so far."""

    def __init__(self, plan: ValidatedGraph, side_packets: dict[str, Any]) -> None:
        self.graph = CalculatorGraph(validated_graph=plan, registry=registry())
        self.packets: list[tuple[str, int, Any]] = []
        self._side_packets = side_packets
        for name in plan.outputs.names:
            self.graph.observe_output_stream(name, self._take)

    def _take(self, stream: str, packet: Packet) -> None:
        self.packets.append((stream, packet.time, packet.value))

    async def start(self) -> Run:
        await self.graph.start_run_async(self._side_packets)
        return self

    def add(self, value: Any, at: int = 0, stream: str = "text") -> None:
        self.graph.add_packet_to_input_stream(stream, value, at)

    async def idle(self) -> None:
        await self.graph.wait_until_idle_async()

    async def end(self) -> list[tuple[str, int, Any]]:
        """Close all inputs and wait for the end; return the packets."""
        self.graph.close_all_packet_sources()
        await self.graph.wait_until_done_async()
        return self.packets

    async def texts(self) -> list[tuple[int, str]]:
        """End the run; return time and text of each packet."""
        return [(time, bytes(value).decode()) for _, time, value in await self.end()]

    async def failure(self) -> GraphError:
        """End the run; return the exception of the first call that failed."""
        try:
            await self.end()
        except RunError as error:
            cause = error.errors[0].__cause__
            return cause if isinstance(cause, GraphError) else error
        raise AssertionError(f"the run did not fail: {self.packets}")


class Loaded:
    """A graph with its handlers loaded."""

    def __init__(self, plan: ValidatedGraph, side_packets: dict[str, Any]) -> None:
        self.plan = plan
        self.side_packets = side_packets

    def node(self, name: str = "node") -> PythonNode:
        """Return the node's resource."""
        node: PythonNode = self.side_packets["py"][name]
        return node

    def model(self, name: str = "node", instance: int = 0) -> Any:
        """Return the handler's own object, which lives in a thread."""
        found = self.node(name).instances[instance]
        assert isinstance(found, ThreadInstance)
        return found.handler.model

    def process(self, instance: int = 0) -> ProcessInstance:
        """Return the handler's process."""
        found = self.node().instances[instance]
        assert isinstance(found, ProcessInstance)
        return found

    async def run(self, *values: Any) -> Run:
        """Start a run and add packets at 0, 1, ..."""
        run = await Run(self.plan, self.side_packets).start()
        for time, value in enumerate(values):
            run.add(value, time)
        return run


@asynccontextmanager
async def loaded(
    folder: Path,
    handler: str = "",
    graph: str = PLAIN,
    isolation: str = "THREAD",
    options: str = "",
) -> AsyncIterator[Loaded]:
    """Load a graph; ``handler`` is the text of its ``model.py``, unless "".

    ``isolation``, and ``options`` in the form of the graph, are those of its nodes.

    Raises:
        ResourceError: a handler cannot be loaded.
    """
    if handler:
        (folder / "model.py").write_text(handler)
    graph = graph.replace('"model.py"', f'"model.py" isolation: {isolation} {options}')
    plan = validate_graph(parse_graph_text(graph), registry=registry())
    resources = await make_resources(plan, ResourceSettings(folder), registry())
    try:
        yield Loaded(plan, dict(resources.side_packets))
    finally:
        await resources.close()
