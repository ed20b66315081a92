"""One node of one run: its streams, its calculator, and where it stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graph_runtime import timestamp as ts
from graph_runtime.authoring.context import (
    NO_PACKET,
    CalculatorContext,
    Counter,
    InputStreamShard,
    OutputSidePacket,
    OutputStreamShard,
    PortMap,
)
from graph_runtime.engine.states import NODE_TRANSITIONS, NodeEvent, NodeState
from graph_runtime.errors import StateError
from graph_runtime.language.tag_map import PortNames
from graph_runtime.packet import Packet
from graph_runtime.streams.input_handlers.handler import InputSet, InputStreamHandler
from graph_runtime.streams.input_stream import InputStream
from graph_runtime.streams.output_stream import OutputStream

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graph_runtime.authoring.calculator import Calculator
    from graph_runtime.authoring.service import GraphService
    from graph_runtime.engine.ready_queue import ReadyQueue
    from graph_runtime.plan.plan import NodePlan


class Node:
    """A node while its graph runs. Belongs to the scheduler; guarded by the graph's lock.

    Attributes:
        state: see `graph_runtime.engine.states`.
        in_flight: calls that are queued or running; at most ``plan.max_in_flight``.
        is_idle: opened, nothing in flight, no error in the graph: a packet on a direct input may
            start the node at once. The scheduler maintains it, so that it is one test per packet.
        is_simple: one input, the default handler, one call at a time.
        sole_input: the input of a simple node, or the last one that has not ended; valid while
            ``is_fast``.
        is_fast: opened, not closing, and every packet of ``sole_input`` is an input set: its calls
            end in `Flow.finished_simple`.
        becomes_fast: it will be once the call in flight ends, which has the last packet of another
            input.
        is_resent: its side packets are the last run's, and its calculator stays unopened.
        missing: number of headers and side packets that its ``open`` waits for.
        watches_queues: its handler wants to know when packets have been queued.
        context: the context of a serial node's calls; parallel nodes have one context per call.
        active: contexts of parallel calls, in the order in which their outputs are released.
    """

    __deletable__ = ("context",)  # for mypyc
    __slots__ = (
        "active",
        "batch",
        "becomes_fast",
        "bound_to_forward",
        "calculator",
        "calls",
        "context",
        "counters",
        "free_contexts",
        "handler",
        "heap",
        "in_flight",
        "inputs",
        "is_close_prepared",
        "is_fast",
        "is_idle",
        "is_parallel",
        "is_pending",
        "is_resent",
        "is_scheduling",
        "is_simple",
        "is_source",
        "key",
        "missing",
        "outputs",
        "plan",
        "queue",
        "services",
        "side_inputs",
        "side_outputs",
        "sole_input",
        "state",
        "time_ns",
        "was_opened",
        "watches_queues",
    )

    def __init__(
        self,
        plan: NodePlan,
        inputs: list[InputStream],
        outputs: list[OutputStream],
        side_outputs: list[OutputSidePacket],
        queue: ReadyQueue,
        services: Mapping[str, Any],
        counters: dict[str, Counter],
    ) -> None:
        self.plan = plan
        self.inputs = inputs
        self.outputs = outputs
        self.side_outputs = side_outputs
        self.queue = queue
        self.heap = queue.heap
        self.services = services
        self.counters = counters
        # Negated: the ready queue is a min-heap, and downstream nodes go first.
        self.key = -plan.node_id
        self.is_source = plan.is_source
        # The calls of a source have no inputs by which they could go side by side.
        self.is_parallel = plan.max_in_flight > 1 and not plan.is_source
        self.state = NodeState.PREPARED
        self.is_idle = False
        self.is_fast = False
        self.becomes_fast = False
        self.in_flight = 0
        self.is_scheduling = False
        self.is_pending = False
        self.is_close_prepared = False
        self.was_opened = False
        self.is_resent = False
        self.calls = 0
        self.time_ns = 0
        self.batch: list[tuple[int, InputSet]] = []
        self.active: list[CalculatorContext] = []
        self.free_contexts: list[CalculatorContext] = []
        self.bound_to_forward = ts.UNSET
        self.side_inputs: dict[int, Packet] = {}
        self.handler = plan.handler_class(
            inputs, plan.handler_settings, plan.process_timestamp_bounds
        )
        self.is_simple = (
            len(inputs) == 1
            and not self.is_parallel
            and self.handler.is_packet_driven
            and self.handler.batch_size == 1
            and not plan.process_timestamp_bounds
            and plan.max_in_flight == 1
        )
        self.sole_input: InputStream
        if self.is_simple:
            self.sole_input = inputs[0]
        self.watches_queues = (
            plan.handler_class.packets_added is not InputStreamHandler.packets_added
        )
        self.missing = len(plan.side_input_plans)
        for stream in inputs:
            if not stream.is_back_edge:
                self.missing += 1
            stream.node = self
            stream.is_timed = self.handler.is_timed
            # `propagate_one` wakes no thread pool, so only nodes of the driver's own queue take
            # packets past theirs.
            if self.is_simple and queue.is_pumped and stream.checker is None:
                stream.direct = self
        # A new one for each run, as MediaPipe promises its authors; keeping objects between runs
        # was left out for that (decision 0048).
        self.calculator: Calculator = plan.calculator_class()
        for descriptor, value in plan.options:
            descriptor.bind(self.calculator, value)
        self.context: CalculatorContext  # from its ``open`` on, until the run is over

    def move(self, event: NodeEvent) -> None:
        """Take a transition of the table."""
        self.state = NODE_TRANSITIONS[self.state, event]

    def make_context(self) -> CalculatorContext:
        """A context with shards of its own."""
        inputs = [InputStreamShard(stream.name, stream.header) for stream in self.inputs]
        outputs = list(map(OutputStreamShard, self.outputs))
        return CalculatorContext(
            self,
            PortMap("input stream", self.plan.inputs.port_names, inputs),
            PortMap("output stream", self.plan.outputs.port_names, outputs),
        )

    def side_packets(self) -> PortMap[Packet]:
        """Return the input side packets that are connected; optional ones may be missing."""
        given, names = self.side_inputs, self.plan.input_side_packets.port_names
        there = sorted(given)
        if len(there) < len(names.places):
            names = PortNames(tuple(names.places[place] for place in there))
        return PortMap("input side packet", names, [given[place] for place in there])

    def take_context(self) -> CalculatorContext:
        """Return the context for the next call of a parallel node."""
        context = self.free_contexts.pop() if self.free_contexts else self.make_context()
        self.active.append(context)
        return context

    def release_cycles(self) -> None:
        """Drop what leads back here, and errors that hold our frames. Called after the run."""
        if hasattr(self, "context"):
            self.context.graph_status = None
            del self.context
        self.active = []
        self.free_contexts = []
        for stream in self.inputs:
            stream.node = stream.direct = None
        for stream_out in self.outputs:
            stream_out.release_cycles()
        for side in self.side_outputs:
            side.release_cycles()

    def counter(self, name: str) -> Counter:
        """Return the graph's counter of this name."""
        counter = self.counters.get(name)
        if counter is None:
            # setdefault is atomic: nodes in pools make counters at the same time, without the
            # graph's lock.
            counter = self.counters.setdefault(name, Counter(name))
        return counter

    def service(self, service: GraphService[Any]) -> Any:
        """Return the object of a requested service, None when it is optional and missing."""
        if service.key not in self.plan.service_requests:
            raise StateError(
                f'node "{self.plan.name}": service "{service.key}" was not asked for in the '
                f"contract; call contract.use_service there"
            )
        return self.services.get(service.key)


def load_inputs(context: CalculatorContext, time: int, filled: InputSet) -> None:
    """Put an input set into a context."""
    context.time = time
    for shard, (packet, is_done) in zip(context.input_list, filled, strict=True):
        shard.packet = packet
        shard.is_done = is_done


def clear_inputs(context: CalculatorContext) -> None:
    """Release the packets of a finished call."""
    for shard in context.input_list:
        shard.packet = NO_PACKET
