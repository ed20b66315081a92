"""The frozen plan: everything about a graph that is the same in every run.

Made once by `graph_runtime.plan.validated_graph`; a `CalculatorGraph` is cheap to make from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graph_runtime.authoring.packet_type import PacketType
from graph_runtime.authoring.service import ServiceRequest
from graph_runtime.language.tag_map import TagMap

if TYPE_CHECKING:
    from graph_runtime.authoring.calculator import Calculator, Options
    from graph_runtime.streams.input_handlers.handler import InputStreamHandler


@dataclass(frozen=True, slots=True)
class GraphWarning:
    """A part of a graph that runs, but probably not as intended.

    Attributes:
        message: without the node.
        node: its canonical name; "" for the graph.
        origin: the place of the node in the graph's text; None for the graph.
        hint: what would be right; "" where the message says it.
        is_certain: the node never runs, or never sends all that it should.
        is_mistake: no graph is meant so; it runs, and ``graphrt validate`` reports an error.
    """

    message: str
    node: str = ""
    origin: int | None = None
    hint: str = ""
    is_certain: bool = False
    is_mistake: bool = False

    def __str__(self) -> str:
        text = f'node "{self.node}": {self.message}' if self.node else self.message
        return f"{text}; {self.hint}" if self.hint else text


@dataclass(frozen=True, slots=True)
class InputPlan:
    """One input stream of a node.

    ``throttles``: ids of the sources and graph inputs upstream over forward edges; graph input i
    has the id ``len(nodes) + i``.
    """

    stream: str
    checker: PacketType | None
    is_back_edge: bool
    throttles: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OutputPlan:
    """One output stream of a node."""

    stream: str
    checker: PacketType | None


@dataclass(frozen=True, slots=True)
class SideInputPlan:
    """One input side packet of a node.

    Attributes:
        checker: None if the packet needs no check beyond the one at its origin.
        producer: a node's id; None for a packet from outside.
    """

    name: str
    packet_type: PacketType
    checker: PacketType | None
    producer: int | None


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node.

    Attributes:
        name: canonical.
        debug_name: the name that messages about edges print.
        is_source: it has no inputs and at least one output.
        is_awaited: its ``process`` or ``close`` is a coroutine function.
        origin: the place among the nodes of the graph's text that it was made from.
    """

    node_id: int
    name: str
    debug_name: str
    calculator_type: str
    calculator_class: type[Calculator]
    config: Any
    inputs: TagMap
    outputs: TagMap
    input_side_packets: TagMap
    output_side_packets: TagMap
    input_plans: tuple[InputPlan, ...]
    output_plans: tuple[OutputPlan, ...]
    side_input_plans: tuple[SideInputPlan, ...]
    side_output_checkers: tuple[PacketType | None, ...]
    input_types: tuple[PacketType, ...]
    output_types: tuple[PacketType, ...]
    timestamp_offset: int | None
    process_timestamp_bounds: bool
    handler_name: str
    handler_class: type[InputStreamHandler]
    handler_settings: Any
    options: tuple[tuple[Options[Any], Any], ...]
    service_requests: Mapping[str, ServiceRequest]
    executor: str
    max_in_flight: int
    is_awaited: bool
    is_source: bool
    source_layer: int
    origin: int


@dataclass(frozen=True, slots=True)
class GraphInputPlan:
    """One input stream of the graph. Packets are added by ``name``; the tag is for fronts."""

    name: str
    tag: str
    index: int
    packet_type: PacketType
    checker: PacketType | None


@dataclass(frozen=True, slots=True)
class ExecutorPlan:
    """One executor. ``type`` "" means the runtime chooses; ``num_threads`` 0 likewise."""

    name: str
    type: str
    num_threads: int = 0
    thread_name_prefix: str = ""
    options: Any = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, eq=False)
class ValidatedGraph:
    """A graph that can run.

    Attributes:
        config: the canonical ``CalculatorGraphConfig``: subgraphs expanded, nodes sorted.
        nodes: in order of execution; a node's id is its place.
        input_places: per graph input, its place among them.
        consumers: per stream, the (node id, input id) pairs that read it, in order.
        producers: per stream, the id of the node or graph input that writes it.
        side_producers: per side packet that a node makes, (node id, its place there).
        side_packet_types: per side packet that the graph needs from outside, the type and whether
            every consumer can do without.
        status_handlers: their configs, in order.
        requests_services: a node asks for a service.
        has_threads: executors of the graph call nodes in threads of their own.
        idle_nodes: ids of the nodes whose class has an ``on_idle``.
        outputs: the graph's own output streams, for fronts: TAG:name by tag and index.
    """

    config: Any
    nodes: tuple[NodePlan, ...]
    graph_inputs: tuple[GraphInputPlan, ...]
    input_places: Mapping[str, int]
    consumers: Mapping[str, tuple[tuple[int, int], ...]]
    producers: Mapping[str, int]
    side_producers: Mapping[str, tuple[int, int]]
    side_packet_types: Mapping[str, tuple[PacketType, bool]]
    outputs: TagMap
    input_side_packets: TagMap
    output_side_packets: TagMap
    executors: Mapping[str, ExecutorPlan]
    max_queue_size: int
    report_deadlock: bool
    status_handlers: tuple[Any, ...]
    type: str
    requests_services: bool = False
    has_threads: bool = False
    idle_nodes: tuple[int, ...] = ()
    warnings: tuple[GraphWarning, ...] = ()

    @property
    def is_unthrottled(self) -> bool:
        """True if no queue has a limit, so that nothing is ever throttled."""
        return self.max_queue_size < 0
