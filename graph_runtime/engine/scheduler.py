"""The scheduler: a state machine that takes events and decides which call runs next.

It does no I/O, starts no thread and calls no user code except ``source_process_order``. Drivers
(`graph_runtime.engine.drivers`) hold the graph's lock, report events to it, take contexts from its
ready queues, make the calls outside the lock and report how they ended::

    context = scheduler.take(queue)
    while context is not None:
        ... context.call(context), outside the lock ...
        context = scheduler.finished(context, error)     # the same context when there is more

Invariants are numbered in ``docs/invariants.md`` and checked by `invariants`.
Source: MediaPipe ``scheduler.cc``, ``calculator_node.cc``, ``calculator_graph.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from graph_runtime import timestamp as ts
from graph_runtime.authoring.calculator import Stop
from graph_runtime.engine.constant_outputs import ConstantOutputs, payload_ids
from graph_runtime.engine.error_log import ErrorLog
from graph_runtime.engine.flow import Flow, completed
from graph_runtime.engine.idle_calls import IdleCalls
from graph_runtime.engine.node import Node, clear_inputs, load_inputs
from graph_runtime.engine.states import RUN_TRANSITIONS, NodeEvent, NodeState, RunEvent, RunState
from graph_runtime.engine.throttling import Throttling
from graph_runtime.errors import Cancelled, Code, GraphError, PacketTypeError

if TYPE_CHECKING:
    from graph_runtime.authoring.context import CalculatorContext, OutputSidePacket
    from graph_runtime.engine.ready_queue import ReadyQueue
    from graph_runtime.packet import Packet
    from graph_runtime.plan.plan import ValidatedGraph
    from graph_runtime.streams.output_stream import OutputStream


# Names of the module are faster to look up than members of an enum.
_RUNNING: Final = RunState.RUNNING
_CANCELLING: Final = RunState.CANCELLING
_OPENING: Final = NodeState.OPENING
_OPENED: Final = NodeState.OPENED
_ACTIVE: Final = NodeState.ACTIVE
_CLOSING: Final = NodeState.CLOSING
_CLOSED: Final = NodeState.CLOSED


class Scheduler:
    """The state of one run. Everything here is guarded by the graph's lock.

    Attributes:
        state: see `graph_runtime.engine.states`.
        running: number of calls that a driver has taken, on a thread or event loop, and not yet
            reported.
        errors: every recorded error, in order of arrival; the same list for the whole run.
        stopping: sources are closed instead of called.
    """

    def __init__(
        self,
        plan: ValidatedGraph,
        nodes: list[Node],
        queues: list[ReadyQueue],
        graph_inputs: list[OutputStream],
        constants: Mapping[int, ConstantOutputs],
        on_error: Callable[[GraphError], object] | None,
    ) -> None:
        self.nodes = nodes
        self.queues = queues
        self.graph_inputs = graph_inputs
        self.state = RunState.NOT_STARTED
        self.running = 0
        self.log = ErrorLog(nodes, on_error)
        self.errors = self.log.errors
        self.throttling = Throttling(plan, nodes, self.log)
        self.flow = Flow(self.log, self.throttling)
        self.stopping = False
        self.inputs_closed = not graph_inputs
        self._unopened_sources: dict[int, Node] = {}
        self._waiting_sources: list[Node] = []
        self._active_sources: list[Node] = []
        self._constants = constants
        self._idle_calls = IdleCalls(nodes, plan.idle_nodes) if plan.idle_nodes else None

    # Events from the application ----------------------------------------------------------------

    def start(self) -> None:
        """Start the run: queue the ``open`` of each node that waits for nothing."""
        self.move(RunEvent.START)
        for node in self.nodes:
            if node.is_source:
                self._unopened_sources[node.plan.node_id] = node
        for node in self.nodes:
            if not node.missing:
                self._schedule_open(node)
        for stream in self.graph_inputs:
            stream.is_locked = True
            self._propagate_header(stream)
        if self.is_idle:
            self.handle_idle()

    def close_graph_inputs(self, streams: Iterable[OutputStream]) -> None:
        """End graph inputs."""
        for stream in streams:
            self.flow.close_stream(stream)
        self.inputs_closed = all(stream.closed for stream in self.graph_inputs)

    def close_all_graph_inputs(self) -> None:
        """End every graph input."""
        for stream in self.graph_inputs:
            self.flow.close_stream(stream)
        self.inputs_closed = True

    def close_all_sources(self) -> None:
        """End all graph inputs, and close each source at its next turn."""
        self.close_all_graph_inputs()
        self.stopping = True

    def pause(self) -> None:
        """Hand out no call until `resume`; running calls finish."""
        if self.state is RunState.RUNNING:
            self.move(RunEvent.PAUSE)
            self._set_paused(True)

    def resume(self) -> None:
        """Hand out calls again."""
        if self.state is RunState.PAUSED:
            self.move(RunEvent.RESUME)
            self._set_paused(False)

    def cancel(self) -> None:
        """End the run with CANCELLED; running calls finish."""
        if self.state in (RunState.RUNNING, RunState.PAUSED):
            # A cancelled run ends with an error, as in MediaPipe: what has been sent may be half of
            # an answer.
            self.log.record(Cancelled())
            self.move(RunEvent.CANCEL)
            self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        for queue in self.queues:
            queue.paused = paused
            if not paused and len(queue) and not queue.is_pumped:
                self.flow.woken.append(queue)

    # Questions ----------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """True when nothing is queued and nothing runs on a thread or event loop."""
        if self.running:
            return False
        for queue in self.queues:  # noqa: SIM110 - a generator costs more than the loop
            if queue.heap or queue.opens or queue.sources:
                return False
        return True

    # Drivers: take a call, report its end ---------------------------------------------------------

    def take(self, queue: ReadyQueue, *, sources: bool = True) -> CalculatorContext | None:
        """Return the next call to make for a queue, or None."""
        heap = queue.heap
        if heap and queue.has_only_calls:
            # The hot path: nothing to open, nothing paused.
            node = queue.nodes[heappop(heap)]
            if not node.is_parallel:
                return node.context
            heappush(heap, node.key)
        context = queue.pop(sources=sources)
        if context is None:
            return None
        node = context._node
        # As in MediaPipe's scheduler: a source is closed at its next turn, and not in the middle of
        # a call.
        if self.stopping and node.is_source and node.state is _ACTIVE:
            self.flow.begin_close(node)
        elif node.is_parallel and node.state is _OPENED:
            for shard in context.output_list:
                shard.reset()
        return context

    def finished(
        self, context: CalculatorContext, error: BaseException | None
    ) -> CalculatorContext | None:
        """Report a call that returned (``error`` None) or raised.

        Returns the context again if the driver must call it once more, else None.
        """
        node = context._node
        node.calls += 1
        if node.is_fast and error is None:
            self.flow.finished_simple(node, context)
            return None
        if node.state is _OPENING:
            self._finished_open(node, error)
            return None
        if node.state is _CLOSING:
            self._finished_close(node, context, error)
            return None
        return self._finished_process(node, context, error)

    def _finished_process(
        self, node: Node, context: CalculatorContext, error: BaseException | None
    ) -> CalculatorContext | None:
        if node.becomes_fast and error is None:
            self.flow.begin_fast(node, context)
            return None
        stopped = isinstance(error, Stop)
        if not node.is_source:
            clear_inputs(context)
        if error is not None and not stopped:
            self.log.record_call(node, "Process", error, None if node.is_source else context.time)
            for shard in context.output_list:
                shard.reset()
            # A parallel call that has failed stays first in its line, so no later output is sent:
            # outputs leave in the order of the inputs (decision 0053).
        elif node.is_parallel:
            context.call = completed
            self.flow.release_in_order(node)
        else:
            self.flow.propagate_call(context, context.time)
        if stopped:
            if node.is_source:
                self.flow.begin_close(node)
                return context
            # Sources end; inputs of the graph stay open, as in MediaPipe.
            self.stopping = True
        elif error is None and context.batch:
            time, filled = context.batch.pop(0)
            load_inputs(context, time, filled)
            return context
        if node.is_close_prepared and not node.is_parallel and error is None:
            # A partial batch was flushed because the streams are done.
            self.flow.begin_close(node)
            return context
        self._end_scheduling(node)
        return None

    # Opening --------------------------------------------------------------------------------------

    def side_packet_arrived(self, node: Node, place: int, packet: Packet) -> None:
        """Give a node one of its input side packets; queue its ``open`` if nothing is missing."""
        side = node.plan.side_input_plans[place]
        if side.checker is not None:
            try:
                side.checker.validate(packet.payload)
            except PacketTypeError as error:
                self.log.record(
                    PacketTypeError(f'Side packet "{side.name}" failed validation: {error}')
                )
                return
        node.side_inputs[place] = packet
        node.missing -= 1
        if self.state is not RunState.NOT_STARTED and not node.missing:
            self._schedule_open(node)

    def output_side_packet_set(
        self, packet: OutputSidePacket, consumers: list[tuple[Node, int]]
    ) -> None:
        """Hand a side packet that a node made to its consumers: (node, place) pairs."""
        for node, place in consumers:
            self.side_packet_arrived(node, place, packet.packet)

    def _schedule_open(self, node: Node) -> None:
        if self.errors:
            return
        node.move(NodeEvent.READY_FOR_OPEN)
        # Not earlier: the context holds the side packets and headers.
        node.context = node.make_context()
        constant = self._constants.get(node.plan.node_id)
        # A run is a request (decision 0032): a node that makes a constant, such as a model, makes
        # it once for all of them.
        if constant is not None and constant.inputs == payload_ids(node):
            node.context.call = constant.resend
            node.is_resent = True
        else:
            node.context.call = node.calculator.open
        node.context.time = ts.UNSTARTED
        node.in_flight = 1
        node.queue.push_open(node)
        if not node.queue.is_pumped:
            self.flow.woken.append(node.queue)

    def _propagate_header(self, stream: OutputStream) -> None:
        for mirror in stream.mirrors:
            mirror.header = stream.header
            node = mirror.node
            # The header of a back edge comes from a node that waits for this one.
            if node is not None and not mirror.is_back_edge:
                node.missing -= 1
                if not node.missing:
                    self._schedule_open(node)

    def _finished_open(self, node: Node, error: BaseException | None) -> None:
        context = node.context
        node.in_flight = 0
        if error is not None:
            if isinstance(error, Stop):
                error = GraphError(
                    "Open() raised Stop, which is only for process()", code=Code.INTERNAL
                )
            self.log.record_call(node, "Open", error)
            return
        node.was_opened = True
        for shard in context.output_list:
            if shard.packets or shard.updated_bound != ts.UNSET:
                # ``open`` has no input timestamp that an offset could promise anything of.
                self.flow.propagate_shard(shard, ts.UNSTARTED)
        for stream in node.outputs:
            stream.is_locked = True
            if stream.mirrors:
                self._propagate_header(stream)
        node.move(NodeEvent.OPEN_RETURNED)
        node.is_fast = node.is_simple
        context.call = node.calculator.process
        if node.is_source:
            context.time = 0
            self._waiting_sources.append(node)
            self._unopened_sources.pop(node.plan.node_id, None)
        # A node without streams is opened and closed, and never processed.
        elif node.inputs:
            node.is_idle = not self.errors
            self.flow.notify(node)

    # Closing --------------------------------------------------------------------------------------

    def _finished_close(
        self, node: Node, context: CalculatorContext, error: BaseException | None
    ) -> None:
        node.move(NodeEvent.CLOSE_RETURNED)
        node.in_flight -= 1
        for shard in context.output_list:
            stream = shard.stream
            packets, shard.packets = shard.packets, []
            if not stream.closed and packets:
                self.flow.propagate(stream, packets, ts.DONE)
            self.flow.close_stream(stream)
        if error is not None:
            if isinstance(error, Stop):
                error = GraphError(
                    "Close() raised Stop, which is only for process()", code=Code.INTERNAL
                )
            self.log.record_call(node, "Close", error)

    def _end_scheduling(self, node: Node) -> None:
        """End a call of a node, and queue what the node can do next."""
        if node.state not in (_OPENED, _ACTIVE):
            return
        node.in_flight -= 1
        if node.is_source:
            self.flow.schedule_source(node)
            return
        node.is_idle = node.is_simple and not node.in_flight and not self.errors
        self.flow.notify(node)

    # Idle -----------------------------------------------------------------------------------------

    def handle_idle(self) -> None:
        """Move the run on if nothing is queued or running.

        Quit after an error, or when no source is left and no node has use for a last call.
        Otherwise activate the next layer of sources, or break a deadlock of full queues.
        """
        while self.state in (_RUNNING, _CANCELLING) and self.is_idle:
            while self._active_sources and self._active_sources[-1].state is _CLOSED:
                self._active_sources.pop()
            no_sources = not self._active_sources and not self._waiting_sources
            if self.errors or (no_sources and self.inputs_closed):
                calls = self._idle_calls
                if calls is not None and not self.errors and calls.push_next(self.flow):
                    return
                self.move(RunEvent.QUIT)
                return
            if not self._active_sources and self._waiting_sources:
                if not self._activate_next_layer():
                    if self.errors:
                        continue
                    return
                continue
            if self._active_sources or self.throttling.throttled_inputs > 0:
                # As MediaPipe does: full queues grow by one, unless `report_deadlock` asks for an
                # error.
                full = self.throttling.resolve_deadlock()
                for stream in full:
                    self.flow.update_throttling(stream)
                if full:
                    continue
            return

    def _activate_next_layer(self) -> bool:
        orders = {}
        for node in self._waiting_sources:
            order = self.flow.source_order(node)
            if order is None:
                return False
            orders[node] = order
        self._waiting_sources.sort(
            key=lambda node: (node.plan.source_layer, orders[node], node.plan.node_id)
        )
        layer = self._waiting_sources[0].plan.source_layer
        lowest_unopened = min(
            (node.plan.source_layer for node in self._unopened_sources.values()), default=layer
        )
        if lowest_unopened < layer:
            if self.inputs_closed:
                self.log.record(
                    GraphError(
                        "Detected a deadlock because source nodes cannot be activated when a "
                        "source node at a lower layer is still not opened."
                    )
                )
            return False
        self._active_sources = [
            node for node in self._waiting_sources if node.plan.source_layer == layer
        ]
        self._waiting_sources = self._waiting_sources[len(self._active_sources) :]
        for node in self._active_sources:
            node.move(NodeEvent.ACTIVATE)
            self.flow.schedule_source(node)
        return True

    # Errors ---------------------------------------------------------------------------------------

    def move(self, event: RunEvent) -> None:
        """Take a transition of the table."""
        self.state = RUN_TRANSITIONS[self.state, event]
