"""The scheduler: a state machine that takes events and says what runs next.

It does no I/O, starts no thread and calls no user code except ``source_process_order``. Drivers
(`graph_runtime.drivers`) hold the graph's lock, tell it what happened, take contexts from its ready
queues, make the calls outside the lock and report how they ended::

    context = scheduler.take(queue)
    while context is not None:
        ... context.call(context), outside the lock ...
        context = scheduler.finished(context, error)     # the same context when there is more

Invariants are numbered in ``docs/architecture.md`` and checked by `graph_runtime.invariants`.
Source: MediaPipe ``scheduler.cc``, ``calculator_node.cc``, ``calculator_graph.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from heapq import heappush
from typing import TYPE_CHECKING

from graph_runtime import timestamp as ts
from graph_runtime.calculator import Stop
from graph_runtime.context import CalculatorContext, OutputSidePacket, OutputStreamShard
from graph_runtime.errors import (
    CalculatorError,
    Cancelled,
    Code,
    GraphError,
    PacketTypeError,
    TimestampError,
    UnavailableError,
    reason_of,
)
from graph_runtime.input_handlers.handler import CLOSE, NOT_READY, PROCESS
from graph_runtime.input_stream import InputStream
from graph_runtime.node import Node, clear_inputs, load_inputs
from graph_runtime.output_stream import OutputStream, StreamObserver
from graph_runtime.packet import EMPTY, Packet
from graph_runtime.states import (
    RUN_TRANSITIONS,
    NodeEvent,
    NodeState,
    RunEvent,
    RunState,
    next_state,
)

if TYPE_CHECKING:
    from graph_runtime.plan import ValidatedGraph
    from graph_runtime.ready_queue import ReadyQueue

#: Beyond this many errors of one run only the count would grow; they are dropped.
MAX_ERRORS = 1000

_OPENED = NodeState.OPENED


class ConstantOutputs:
    """What a node without streams made in the run before: sent again while its inputs are the same,
    without opening the node (MediaPipe ``calculator_node.cc`` OutputsAreConstant)."""

    def __init__(self, node: Node) -> None:
        self.inputs = _payload_ids(node)
        self._outputs = [side.packet for side in node.side_outputs]
        # Keeps the inputs alive, so that their ids stay theirs.
        self._kept = dict(node.side_inputs)

    def resend(self, context: CalculatorContext) -> None:
        """Stands in for ``open``."""
        sides = context.output_side_packets.in_order
        for side, packet in zip(sides, self._outputs, strict=True):
            if packet.payload is not EMPTY:
                side.set(packet)


def _payload_ids(node: Node) -> dict[int, int]:
    return {place: id(packet.payload) for place, packet in node.side_inputs.items()}


class Scheduler:
    """One run's state. Everything here is guarded by the graph's lock.

    Attributes:
        state: see `graph_runtime.states`.
        running: calls that a driver has taken and not yet reported, on threads and event loops.
        deliveries: packets for observers, in order; the driver delivers them outside the lock.
        woken: queues of other executors that got work since the driver last looked.
        errors: every recorded error, in order of arrival.
        stopping: sources are closed instead of called.
    """

    def __init__(
        self,
        plan: ValidatedGraph,
        nodes: list[Node],
        queues: Mapping[str, ReadyQueue],
        graph_inputs: list[OutputStream],
        constants: Mapping[int, ConstantOutputs],
        on_error: Callable[[GraphError], None] | None,
    ) -> None:
        self.plan = plan
        self.nodes = nodes
        self.queues = queues
        self.graph_inputs = graph_inputs
        self.state = RunState.NOT_STARTED
        self.running = 0
        self.deliveries: list[tuple[StreamObserver, Packet]] = []
        self.woken: list[ReadyQueue] = []
        self.errors: list[GraphError] = []
        self.stopping = False
        self.inputs_closed = not graph_inputs
        #: Full streams that hold back each source (by node id) and graph input (after the nodes).
        self.full_streams: list[dict[InputStream, None]] = [
            {} for _ in range(len(nodes) + len(graph_inputs))
        ]
        self.throttled_graph_inputs = 0
        self.unopened_sources: dict[int, Node] = {}
        self.waiting_sources: list[Node] = []
        self.active_sources: list[Node] = []
        self._queue_list = tuple(queues.values())
        self._constants = constants
        self._on_error = on_error

    # Events from the application ----------------------------------------------------------------

    def start(self) -> None:
        """Schedule what can be opened."""
        self.move(RunEvent.START)
        for node in self.nodes:
            if node.is_source:
                self.unopened_sources[node.plan.node_id] = node
        for node in self.nodes:
            if node.is_ready_for_open:
                self._schedule_open(node)
        for stream in self.graph_inputs:
            stream.is_locked = True
            self._propagate_header(stream)
        self.handle_idle()

    def add_packets(self, stream: OutputStream, packets: list[Packet], bound: int) -> None:
        """Packets, or only a bound, enter through a graph input."""
        self._propagate(stream, packets, bound)

    def close_graph_input(self, stream: OutputStream) -> None:
        """A graph input ends."""
        if not stream.closed:
            self._close_stream(stream)
            if all(each.closed for each in self.graph_inputs):
                self.inputs_closed = True

    def close_all_sources(self) -> None:
        """All graph inputs end, and sources are closed when their turn comes."""
        for stream in self.graph_inputs:
            self._close_stream(stream)
        self.inputs_closed = True
        self.stopping = True

    def pause(self) -> None:
        if self.state is RunState.RUNNING:
            self.move(RunEvent.PAUSE)
            self._set_paused(True)

    def resume(self) -> None:
        if self.state is RunState.PAUSED:
            self.move(RunEvent.RESUME)
            self._set_paused(False)

    def cancel(self) -> None:
        if self.state in (RunState.RUNNING, RunState.PAUSED):
            self.record_error(Cancelled())
            self.move(RunEvent.CANCEL)
            self._set_paused(False)

    def _set_paused(self, paused: bool) -> None:
        for queue in self._queue_list:
            queue.paused = paused
            if not paused and len(queue) and not queue.is_pumped:
                self.woken.append(queue)

    # Questions ----------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Nothing is queued and nothing runs on a thread or event loop."""
        return not self.running and not any(len(queue) for queue in self._queue_list)

    def is_throttled(self, source_id: int) -> bool:
        """Is this source or graph input held back by a full queue?"""
        return bool(self.full_streams[source_id]) and not self.plan.is_unthrottled

    # Drivers: take a call, report its end ---------------------------------------------------------

    def take(self, queue: ReadyQueue, *, sources: bool = True) -> CalculatorContext | None:
        """The next call to make for a queue, or None."""
        context = queue.pop(sources=sources)
        if context is None:
            return None
        node = context._node
        if self.stopping and node.is_source and node.state is NodeState.ACTIVE:
            self._begin_close(node)
        elif node.is_parallel and node.state is _OPENED:
            for shard in context.output_list:
                shard.reset()
        return context

    def finished(
        self, context: CalculatorContext, error: BaseException | None
    ) -> CalculatorContext | None:
        """A call returned (``error`` None) or raised. The context again when it has more to do."""
        node = context._node
        node.calls += 1
        if node.is_simple and error is None and node.state is _OPENED:
            self._finished_simple(node, context)
            return None
        if node.state is NodeState.OPENING:
            self._finished_open(node, error)
            return None
        if node.state is NodeState.CLOSING:
            self._finished_close(node, context, error)
            return None
        return self._finished_process(node, context, error)

    def _finished_simple(self, node: Node, context: CalculatorContext) -> None:
        """The end of a call of a node with one input and the default handler: the hot path."""
        time = context.time
        for shard in context.output_list:
            packets = shard.packets
            stream = shard.stream
            if len(packets) == 1:
                packet = packets[0]
                offset = stream.offset
                if (
                    shard.updated_bound == packet.time + 1
                    and (offset is None or time + offset <= packet.time)
                    and not shard.closed
                ):
                    shard.updated_bound = ts.UNSET
                    packets.clear()
                    self._propagate_one(stream, packet)
                    continue
            self._propagate_shard(shard, time)
        shard = context.input_list[0]
        stream = node.inputs[0]
        node.in_flight = 0
        queue = stream.queue
        if queue:
            if self.errors:
                return
            packet = queue.popleft()
            shard.packet = packet
            shard.is_done = stream.bound == ts.DONE and not queue
            context.time = packet.time
            node.in_flight = 1
            if stream.was_full:
                self._update_throttling(stream)
            heappush(node.queue.heap, node.key)
            if not node.queue.is_pumped:
                self.woken.append(node.queue)
            return
        clear_inputs(context)
        bound = stream.bound
        if bound < ts.ONE_OVER_POSTSTREAM:
            node.is_idle = not self.errors
            for output in node.outputs:
                if output.offset is not None and bound + output.offset > output.bound:
                    self._notify(node)
                    return
        else:
            self._notify(node)

    def _finished_process(
        self, node: Node, context: CalculatorContext, error: BaseException | None
    ) -> CalculatorContext | None:
        stopped = isinstance(error, Stop)
        if not node.is_source:
            clear_inputs(context)
        if error is not None and not stopped:
            self._record_call_error(node, "Process", error)
            for shard in context.output_list:
                shard.reset()
            if node.is_parallel:
                node.active.remove(context)
                node.free_contexts.append(context)
        elif node.is_parallel:
            context.call = _completed
            self._release_in_order(node)
        else:
            for shard in context.output_list:
                self._propagate_shard(shard, context.time)
        if stopped:
            if node.is_source:
                self._begin_close(node)
                return context
            self.stopping = True
        elif error is None and context.batch:
            time, filled = context.batch.pop(0)
            load_inputs(context, time, filled)
            return context
        if node.is_close_prepared and not node.is_parallel and error is None:
            # A partial batch was flushed because the streams are done.
            self._begin_close(node)
            return context
        self._end_scheduling(node)
        return None

    def _release_in_order(self, node: Node) -> None:
        """Outputs of parallel calls leave in the order of their input sets."""
        active = node.active
        while active and active[0].call is _completed:
            context = active.popleft()
            for shard in context.output_list:
                self._propagate_shard(shard, context.time)
            context.call = node.calculator.process
            node.free_contexts.append(context)
        if not active and node.bound_to_forward != ts.UNSET:
            bound, node.bound_to_forward = node.bound_to_forward, ts.UNSET
            self._forward_bound(node, bound)

    # Opening --------------------------------------------------------------------------------------

    def side_packet_arrived(self, node: Node, place: int, packet: Packet) -> None:
        """One of a node's input side packets is there."""
        side = node.plan.side_input_plans[place]
        try:
            side.packet_type.validate(packet.payload)
        except PacketTypeError as error:
            self.record_error(
                PacketTypeError(f'Side packet "{side.name}" failed validation: {error}')
            )
            return
        node.side_inputs[place] = packet
        node.missing_side_packets -= 1
        if node.is_ready_for_open and self.state is not RunState.NOT_STARTED:
            self._schedule_open(node)

    def output_side_packet_set(
        self, packet: OutputSidePacket, consumers: list[tuple[Node, int]]
    ) -> None:
        """A node made a side packet: hand it to those that wait for it."""
        for node, place in consumers:
            self.side_packet_arrived(node, place, packet.packet)

    def _schedule_open(self, node: Node) -> None:
        if self.errors:
            return
        node.move(NodeEvent.READY_FOR_OPEN)
        # Made only now: the side packets and headers are part of the context.
        node.context = node.make_context()
        constant = self._constants.get(node.plan.node_id)
        if constant is not None and constant.inputs == _payload_ids(node):
            node.context.call = constant.resend
        else:
            node.context.call = node.calculator.open
        node.context.time = ts.UNSTARTED
        node.in_flight = 1
        node.queue.push_open(node)
        if not node.queue.is_pumped:
            self.woken.append(node.queue)

    def _propagate_header(self, stream: OutputStream) -> None:
        for mirror in stream.mirrors:
            mirror.header = stream.header
            node = mirror.node
            if node is not None and not mirror.is_back_edge:
                node.missing_headers -= 1
                if node.is_ready_for_open:
                    self._schedule_open(node)

    def _finished_open(self, node: Node, error: BaseException | None) -> None:
        context = node.context
        node.in_flight = 0
        if error is not None:
            if isinstance(error, Stop):
                error = GraphError(
                    "Open() raised Stop, which is only for process()", code=Code.INTERNAL
                )
            self._record_call_error(node, "Open", error)
            return
        node.was_opened = True
        for shard in context.output_list:
            self._propagate_shard(shard, ts.UNSTARTED)
        for stream in node.outputs:
            stream.is_locked = True
            self._propagate_header(stream)
        node.move(NodeEvent.OPEN_RETURNED)
        context.call = node.calculator.process
        if node.is_source:
            context.time = 0
            self.waiting_sources.append(node)
            self.unopened_sources.pop(node.plan.node_id, None)
        elif node.inputs:
            node.is_idle = not self.errors
            self._notify(node)

    # Closing --------------------------------------------------------------------------------------

    def _begin_close(self, node: Node) -> None:
        """Next the node's ``close`` is called."""
        node.move(NodeEvent.READY_FOR_CLOSE)
        node.is_idle = False
        for stream in node.inputs:
            was_full = stream.was_full
            stream.close()
            if was_full:
                self._update_throttling(stream)
        context = node.context
        for shard in context.output_list:
            shard.reset()
        context.time = ts.DONE
        context.call = node.calculator.close

    def _finished_close(
        self, node: Node, context: CalculatorContext, error: BaseException | None
    ) -> None:
        node.move(NodeEvent.CLOSE_RETURNED)
        node.in_flight -= 1
        for shard in context.output_list:
            stream = shard.stream
            packets, shard.packets = shard.packets, []
            if not stream.closed and packets:
                self._propagate(stream, packets, ts.DONE)
            self._close_stream(stream)
        if error is not None:
            if isinstance(error, Stop):
                error = GraphError(
                    "Close() raised Stop, which is only for process()", code=Code.INTERNAL
                )
            self._record_call_error(node, "Close", error)

    def _close_stream(self, stream: OutputStream) -> None:
        if not stream.closed:
            stream.closed = True
            self._propagate(stream, [], ts.DONE)

    # Packets and bounds on their way ------------------------------------------------------------

    def _propagate_shard(self, shard: OutputStreamShard, time: int) -> None:
        """What one call did to one output."""
        stream = shard.stream
        if stream.closed:
            shard.packets = []
            return
        bound = stream.bound_after_call(shard, time)
        packets, shard.packets = shard.packets, []
        closed = shard.closed
        shard.updated_bound = ts.UNSET
        if packets or bound != ts.UNSET:
            self._propagate(stream, packets, bound)
        shard.bound = stream.bound
        if closed:
            self._close_stream(stream)

    def _propagate_one(self, stream: OutputStream, packet: Packet) -> None:
        """One ordinary packet, which is also the whole change of the bound: the hot path."""
        time = packet.time
        stream.bound = stream.shard.bound = time + 1
        stream.num_packets += 1
        for mirror in stream.mirrors:
            if mirror.is_direct and time >= mirror.bound:
                node = mirror.node
                if node.is_idle and mirror.checker is None:  # type: ignore[union-attr]
                    mirror.bound = time + 1
                    mirror.has_received = True
                    context = node.context  # type: ignore[union-attr]
                    context.time = time
                    context.input_list[0].packet = packet
                    node.is_idle = False  # type: ignore[union-attr]
                    node.in_flight = 1  # type: ignore[union-attr]
                    heappush(node.queue.heap, node.key)  # type: ignore[union-attr]
                    continue
            self._add_packets(mirror, [packet])
        if stream.observers:
            self._observe(stream, [packet], time + 1)

    def _propagate(self, stream: OutputStream, packets: list[Packet], bound: int) -> None:
        """Packets, then a bound (UNSET: none) beyond what the packets imply."""
        if bound != ts.UNSET:
            stream.bound = stream.shard.bound = bound
        stream.num_packets += len(packets)
        moves_bound = bound != ts.UNSET and (
            not packets or ts.next_allowed_in_stream(packets[-1].time) != bound
        )
        for mirror in stream.mirrors:
            if packets:
                self._add_packets(mirror, packets)
            if moves_bound and self._set_bound(mirror, bound):
                self._notify_receiver(mirror)
        if stream.observers:
            self._observe(stream, packets, bound if moves_bound else ts.UNSET)

    def _add_packets(self, mirror: InputStream, packets: list[Packet]) -> None:
        if mirror.closed:
            return
        queue = mirror.queue
        was_empty = not queue
        for packet in packets:
            error = _receiving_error(mirror, packet)
            if error is not None:
                self.record_error(error)
                break
            mirror.bound = ts.next_allowed_in_stream(packet.time)
            mirror.has_received = True
            queue.append(packet)
        if not mirror.was_full and mirror.is_full:
            self._update_throttling(mirror)
        if was_empty and queue:
            self._notify_receiver(mirror)
        node = mirror.node
        if node is not None:
            node.handler.packets_added()
            if mirror.was_full and not mirror.is_full:
                self._update_throttling(mirror)

    def _set_bound(self, mirror: InputStream, bound: int) -> bool:
        """Move a receiver's bound; True when its node should look."""
        if mirror.closed:
            return False
        if bound < mirror.bound:
            if mirror.is_timed:
                self.record_error(_bound_goes_back(mirror.name, mirror.bound, bound))
            return False
        if bound == mirror.bound:
            return False
        mirror.bound = bound
        return not mirror.queue

    def _notify_receiver(self, mirror: InputStream) -> None:
        if mirror.node is not None:
            self._notify(mirror.node)
        elif mirror.poller is not None:
            mirror.poller.is_notified = True

    def _observe(self, stream: OutputStream, packets: list[Packet], bound: int) -> None:
        for observer in stream.observers:
            if observer.failed:
                continue
            for packet in packets:
                time = packet.time
                if time < observer.bound:
                    self.record_error(_out_of_order(stream.name, observer.bound, time))
                    break
                if time == ts.POSTSTREAM and observer.num_packets:
                    self.record_error(_poststream_not_alone(stream.name))
                    break
                observer.bound = ts.next_allowed_in_stream(time)
                observer.num_packets += 1
                observer.last = time
                self.deliveries.append((observer, packet))
            if packets and observer.observe_bounds:
                # A packet at PRESTREAM or MAX settles more than its own timestamp.
                told = observer.settle(observer.bound)
                if told is not None:
                    self.deliveries.append((observer, told))
            if bound > observer.bound:
                told = observer.settle(bound)
                if told is not None:
                    self.deliveries.append((observer, told))
            elif ts.UNSET < bound < observer.bound:
                self.record_error(_bound_goes_back(stream.name, observer.bound, bound))

    def _forward_bound(self, node: Node, bound: int) -> None:
        """Settle outputs as far as the inputs are, without a call; through chains of nodes.

        Depth first with a stack of our own: a chain may have thousands of nodes.
        """
        if not ts.is_range_value(bound):
            return
        node.is_scheduling = True
        stack = [(node, self._moved_receivers(node, bound))]
        while stack:
            node, receivers = stack[-1]
            target = next(receivers, None)
            if target is not None:
                if self._may_schedule(target):
                    bound = self._schedule_invocations(target)
                    if ts.is_range_value(bound):
                        target.is_scheduling = True
                        stack.append((target, self._moved_receivers(target, bound)))
                continue
            if node.is_pending and node.in_flight < node.plan.max_in_flight:
                node.is_pending = False
                bound = self._schedule_invocations(node)
                if ts.is_range_value(bound):
                    stack[-1] = (node, self._moved_receivers(node, bound))
                    continue
            node.is_scheduling = node.is_pending = False
            stack.pop()

    def _moved_receivers(self, node: Node, bound: int) -> Iterator[Node]:
        """Move the bounds of a node's outputs; yield each node that should look, as it happens."""
        if node.is_parallel and node.active:
            node.bound_to_forward = bound
            return
        for stream in node.outputs:
            if stream.offset is None or stream.closed:
                continue
            new = ts.clamp(bound + stream.offset)
            if new <= stream.bound:
                continue
            stream.bound = stream.shard.bound = new
            for mirror in stream.mirrors:
                if self._set_bound(mirror, new):
                    if mirror.node is not None:
                        yield mirror.node
                    else:
                        self._notify_receiver(mirror)
            if stream.observers:
                self._observe(stream, [], new)

    # Readiness ------------------------------------------------------------------------------------

    def _may_schedule(self, node: Node) -> bool:
        """May this node ask its handler now? Remembers the question if it is busy asking."""
        if node.state is not _OPENED:
            return False
        if node.is_scheduling:
            node.is_pending = True
            return False
        return node.in_flight < node.plan.max_in_flight

    def _notify(self, node: Node) -> None:
        """Something changed on a node's inputs."""
        if self._may_schedule(node):
            bound = self._schedule_invocations(node)
            if bound != ts.UNSET:
                self._forward_bound(node, bound)

    def _end_scheduling(self, node: Node) -> None:
        """A call of a node is over: see what it can do next."""
        if node.state not in (_OPENED, NodeState.ACTIVE):
            return
        node.in_flight -= 1
        if node.is_source:
            self._schedule_source(node)
            return
        node.is_idle = node.is_simple and not node.in_flight and not self.errors
        self._notify(node)

    def _schedule_invocations(self, node: Node) -> int:
        """Ask the handler; queue what can run. The bound to forward when not ready, else UNSET."""
        handler = node.handler
        allowance = node.plan.max_in_flight - node.in_flight
        while allowance > 0:
            try:
                ready = handler.readiness()
                time = handler.time
                if ready == PROCESS:
                    filled = handler.fill(time)
            except GraphError as error:
                self.record_error(error)
                return ts.UNSET
            if ready == NOT_READY:
                return node.batch[0][0] if node.batch else time
            if ready == PROCESS:
                for stream in node.inputs:
                    if stream.was_full:
                        self._update_throttling(stream)
                if handler.batch_size > 1:
                    node.batch.append((time, filled))
                    if len(node.batch) < handler.batch_size:
                        continue
                    self._push_batch(node)
                else:
                    context = node.take_context()
                    load_inputs(context, time, filled)
                    context.call = node.calculator.process
                    self._push(node, context)
                allowance -= 1
                continue
            assert ready == CLOSE
            if node.active or node.is_close_prepared:
                break
            node.is_close_prepared = True
            if self.errors:
                break
            if node.batch:
                self._push_batch(node)
            else:
                self._begin_close(node)
                self._push(node, node.context)
            break
        return ts.UNSET

    def _push_batch(self, node: Node) -> None:
        context = node.context
        batch, node.batch = node.batch, []
        time, filled = batch.pop(0)
        load_inputs(context, time, filled)
        context.batch = batch
        self._push(node, context)

    def _push(self, node: Node, context: CalculatorContext) -> None:
        if self.errors:
            return
        node.in_flight += 1
        node.is_idle = False
        node.queue.push(node, context)
        if not node.queue.is_pumped:
            self.woken.append(node.queue)

    def _schedule_source(self, node: Node) -> None:
        if (
            self.errors
            or node.in_flight
            or node.state is not NodeState.ACTIVE
            or self.is_throttled(node.plan.node_id)
        ):
            return
        node.in_flight = 1
        node.queue.push_source(node)
        if not node.queue.is_pumped:
            self.woken.append(node.queue)

    # Throttling -----------------------------------------------------------------------------------

    def _update_throttling(self, stream: InputStream) -> None:
        """A queue may have become full, or not full any more: tell the sources above."""
        is_full = stream.is_full
        if is_full == stream.was_full:
            return
        stream.was_full = is_full
        to_schedule = []
        for source_id in stream.throttles:
            holders = self.full_streams[source_id]
            was_throttled = bool(holders)
            if is_full:
                holders[stream] = None
            else:
                holders.pop(stream, None)
            is_graph_input = source_id >= len(self.nodes)
            if is_graph_input:
                self.throttled_graph_inputs += bool(holders) - was_throttled
            elif not holders:
                to_schedule.append(self.nodes[source_id])
        for node in to_schedule:
            self._schedule_source(node)

    def queue_shortened(self, stream: InputStream) -> None:
        """A reader from outside took packets."""
        self._update_throttling(stream)

    def set_max_queue_size(self, stream: InputStream, size: int) -> None:
        """Change a stream's limit."""
        stream.max_queue_size = size
        self._update_throttling(stream)

    def _unthrottle(self) -> bool:
        """Everything is idle and something is throttled: let each full queue grow by one."""
        full = {
            stream: None
            for holders in self.full_streams
            for stream in holders
            if stream.node is not None
        }
        for stream in full:
            if self.plan.report_deadlock:
                assert stream.node is not None
                self.record_error(
                    UnavailableError(
                        "Detected a deadlock due to input throttling for input stream: "
                        f'"{stream.name}" of a node "{stream.node.plan.debug_name}". All '
                        "calculators are idle while packet sources remain active and throttled.  "
                        'Consider adjusting "max_queue_size" or "report_deadlock".'
                    )
                )
            else:
                self.set_max_queue_size(stream, len(stream.queue) + 1)
        return bool(full)

    # Idle -----------------------------------------------------------------------------------------

    def handle_idle(self) -> None:
        """If nothing is queued or running: what now?

        Quits after an error, or when no source is left; else activates the next layer of sources,
        or breaks a deadlock of full queues.
        """
        while self.is_idle and self.state in (RunState.RUNNING, RunState.CANCELLING):
            while self.active_sources and self.active_sources[-1].state is NodeState.CLOSED:
                self.active_sources.pop()
            no_sources = not self.active_sources and not self.waiting_sources
            if self.errors or (no_sources and self.inputs_closed):
                self.move(RunEvent.QUIT)
                return
            if not self.active_sources and self.waiting_sources:
                if not self._activate_next_layer():
                    if self.errors:
                        continue
                    return
                continue
            if (self.active_sources or self.throttled_graph_inputs > 0) and self._unthrottle():
                continue
            return

    def _activate_next_layer(self) -> bool:
        self.waiting_sources.sort(
            key=lambda node: (
                node.plan.source_layer,
                node.calculator.source_process_order(node.context),
                node.plan.node_id,
            )
        )
        layer = self.waiting_sources[0].plan.source_layer
        lowest_unopened = min(
            (node.plan.source_layer for node in self.unopened_sources.values()), default=layer
        )
        if lowest_unopened < layer:
            if self.inputs_closed:
                self.record_error(
                    GraphError(
                        "Detected a deadlock because source nodes cannot be activated when a "
                        "source node at a lower layer is still not opened."
                    )
                )
            return False
        self.active_sources = [
            node for node in self.waiting_sources if node.plan.source_layer == layer
        ]
        self.waiting_sources = self.waiting_sources[len(self.active_sources) :]
        for node in self.active_sources:
            node.move(NodeEvent.ACTIVATE)
            self._schedule_source(node)
        return True

    # Errors ---------------------------------------------------------------------------------------

    def record_error(self, error: GraphError) -> None:
        """From now on nothing new is scheduled; what runs finishes."""
        if not self.errors:
            for node in self.nodes:
                node.is_idle = False
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(error)
        if self._on_error is not None:
            self._on_error(error)

    def _record_call_error(self, node: Node, phase: str, error: BaseException) -> None:
        code = error.code if isinstance(error, GraphError) else Code.UNKNOWN
        failure = CalculatorError(node.plan.name, phase, reason_of(error), code=code)
        failure.__cause__ = error
        self.record_error(failure)

    def move(self, event: RunEvent) -> None:
        """Take a transition of the table."""
        self.state = next_state(RUN_TRANSITIONS, self.state, event)


def _receiving_error(mirror: InputStream, packet: Packet) -> GraphError | None:
    """Why a packet may not enter this queue, or None."""
    time = packet.time
    if mirror.checker is not None and not mirror.checker.accepts(packet.payload):
        try:
            mirror.checker.validate(packet.payload)
        except PacketTypeError as error:
            return PacketTypeError(
                f'Packet type mismatch on a calculator receiving from stream "{mirror.name}": '
                f"{error}",
                code=error.code,
            )
    if not ts.is_allowed_in_stream(time):
        return TimestampError(
            f'In stream "{mirror.name}", timestamp not specified or set to illegal value: '
            f"{ts.debug_string(time)}"
        )
    if mirror.is_timed:
        if time == ts.POSTSTREAM and mirror.has_received:
            return _poststream_not_alone(mirror.name)
        if time < mirror.bound:
            return _out_of_order(mirror.name, mirror.bound, time)
    return None


def _poststream_not_alone(name: str) -> GraphError:
    return TimestampError(
        f'In stream "{name}", a packet at Timestamp::PostStream() must be the only Packet in an '
        "InputStream."
    )


def _out_of_order(name: str, bound: int, time: int) -> GraphError:
    return TimestampError(
        f'Packet timestamp mismatch on a calculator receiving from stream "{name}". Current '
        f"minimum expected timestamp is {ts.debug_string(bound)} but received "
        f"{ts.debug_string(time)}. Are you using a custom InputStreamHandler? Note that some "
        "InputStreamHandlers allow timestamps that are not strictly monotonically increasing. See "
        "for example the ImmediateInputStreamHandler class comment."
    )


def _bound_goes_back(name: str, current: int, bound: int) -> GraphError:
    return GraphError(
        "SetNextTimestampBound must be called with a timestamp greater than or equal to the "
        f'current bound. In stream "{name}". Current minimum expected timestamp is '
        f"{ts.debug_string(current)} but received {ts.debug_string(bound)}"
    )


def _completed(context: CalculatorContext) -> None:
    """Marks a parallel call that is over and waits for its turn."""
