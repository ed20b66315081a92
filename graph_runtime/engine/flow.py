"""How packets and bounds move from node to node, and what becomes ready on the way.

Everything here runs under the graph's lock, between two calls of calculators.
Source: MediaPipe ``output_stream_manager.cc``, ``input_stream_manager.cc``,
``calculator_node.cc``, ``in_order_output_stream_handler.cc``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from heapq import heappush
from operator import index
from typing import TYPE_CHECKING

from graph_runtime import timestamp as ts
from graph_runtime.authoring.context import NO_PACKET
from graph_runtime.engine.node import load_inputs
from graph_runtime.engine.states import NodeEvent, NodeState
from graph_runtime.errors import GraphError, PacketTypeError, TimestampError
from graph_runtime.streams.input_handlers.handler import CLOSE, NOT_READY, PROCESS

if TYPE_CHECKING:
    from graph_runtime.authoring.context import CalculatorContext, OutputStreamShard
    from graph_runtime.engine.error_log import ErrorLog
    from graph_runtime.engine.node import Node
    from graph_runtime.engine.ready_queue import ReadyQueue
    from graph_runtime.engine.throttling import Throttling
    from graph_runtime.packet import Packet
    from graph_runtime.streams.input_stream import InputStream
    from graph_runtime.streams.output_stream import OutputStream, StreamObserver

_OPENED = NodeState.OPENED
# Names of the module are faster to look up than attributes of another.
_UNSET = ts.UNSET
_NOTHING_MORE = ts.ONE_OVER_POSTSTREAM


class Flow:
    """Moves packets and bounds, and queues the calls that they make possible.

    Attributes:
        deliveries: packets for observers, in order; the driver delivers them outside the lock.
        woken: queues of thread pools that got work since the driver last looked.
    """

    def __init__(self, log: ErrorLog, throttling: Throttling) -> None:
        self.deliveries: deque[tuple[StreamObserver, Packet]] = deque()
        self.woken: list[ReadyQueue] = []
        self.errors = log.errors
        self._log = log
        self._throttling = throttling

    def propagate_call(self, context: CalculatorContext, time: int) -> None:
        """What one call did to the outputs."""
        for shard in context.output_list:
            packets = shard.packets
            if len(packets) == 1 and not shard.closed:
                packet = packets[0]
                offset = shard.stream.offset
                # Is the packet all that changed, so that the bound follows from it?
                if shard.updated_bound == packet.time + 1 and (
                    offset is None or time + offset <= packet.time
                ):
                    shard.updated_bound = _UNSET
                    packets.clear()
                    self.propagate_one(shard.stream, packet)
                    continue
            self.propagate_shard(shard, time)

    def finished_simple(self, node: Node, context: CalculatorContext) -> None:
        """The end of a call of a node with one input and the default handler: the hot path."""
        time = context.time
        self.propagate_call(context, time)
        stream = node.inputs[0]
        queue = stream.queue
        if queue:
            if self.errors:
                node.in_flight = 0
                return
            packet = queue.popleft()
            input_shard = context.input_list[0]
            input_shard.packet = packet
            context.time = packet.time
            if not queue:
                input_shard.is_done = stream.bound == ts.DONE
            if stream.was_full:
                self.update_throttling(stream)
            heappush(node.heap, node.key)
            if not node.queue.is_pumped:
                self.woken.append(node.queue)
            return
        node.in_flight = 0
        context.input_list[0].packet = NO_PACKET
        bound = stream.bound
        if bound >= _NOTHING_MORE:
            self._prepare_close(node)
            return
        node.is_idle = not self.errors
        if bound == time + 1:
            # The call has settled the outputs as far as the input is settled.
            return
        for output in node.outputs:
            if output.offset is not None and bound + output.offset > output.bound:
                self.notify(node)
                return

    def close_stream(self, stream: OutputStream) -> None:
        if not stream.closed:
            stream.closed = True
            self.propagate(stream, [], ts.DONE)

    def propagate_shard(self, shard: OutputStreamShard, time: int) -> None:
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
            self.propagate(stream, packets, bound)
        shard.bound = stream.bound
        if closed:
            self.close_stream(stream)

    def propagate_one(self, stream: OutputStream, packet: Packet) -> None:
        """One ordinary packet, which is also the whole change of the bound: the hot path."""
        time = packet.time
        stream.bound = stream.shard.bound = time + 1
        stream.num_packets += 1
        for mirror in stream.mirrors:
            node = mirror.direct
            if node is not None and node.is_idle and time >= mirror.bound:
                mirror.bound = time + 1
                context = node.context
                context.time = time
                context.input_list[0].packet = packet
                node.is_idle = False
                node.in_flight = 1
                heappush(node.heap, node.key)
                continue
            self._add_packets(mirror, [packet])
        if stream.observers:
            self._observe(stream, [packet], _UNSET)

    def propagate(self, stream: OutputStream, packets: list[Packet], bound: int) -> None:
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
        is_late = mirror.source.num_packets > len(packets)
        for packet in packets:
            error = _receiving_error(mirror, packet, packet is not packets[0] or is_late)
            if error is not None:
                self._record_sent(error, mirror.source)
                break
            mirror.bound = ts.next_allowed_in_stream(packet.time)
            queue.append(packet)
        if not mirror.was_full and mirror.is_full:
            self.update_throttling(mirror)
        if was_empty and queue:
            self._notify_receiver(mirror)
        node = mirror.node
        if node is not None:
            node.handler.packets_added()
            if mirror.was_full and not mirror.is_full:
                self.update_throttling(mirror)

    def _set_bound(self, mirror: InputStream, bound: int) -> bool:
        """Move a receiver's bound; True when its node should look."""
        if mirror.closed:
            return False
        if bound < mirror.bound:
            if mirror.is_timed:
                error = _bound_goes_back(mirror.name, mirror.bound, bound)
                self._record_sent(error, mirror.source)
            return False
        if bound == mirror.bound:
            return False
        mirror.bound = bound
        return not mirror.queue

    def _notify_receiver(self, mirror: InputStream) -> None:
        if mirror.node is not None:
            self.notify(mirror.node)

    def _observe(self, stream: OutputStream, packets: list[Packet], bound: int) -> None:
        for observer in stream.observers:
            if observer.failed:
                continue
            for packet in packets:
                time = packet.time
                if time < observer.bound:
                    self._record_sent(_out_of_order(stream.name, observer.bound, time), stream)
                    break
                if time == ts.POSTSTREAM and observer.num_packets:
                    self._record_sent(_poststream_not_alone(stream.name), stream)
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
                self._record_sent(_bound_goes_back(stream.name, observer.bound, bound), stream)

    def _record_sent(self, error: GraphError, stream: OutputStream) -> None:
        """What was sent does not fit: record that, and who sent it."""
        sender = self._log.producer_of(stream) or "the application"
        self._log.record(type(error)(f"{error} (sent by {sender})", code=error.code))

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

    def _may_schedule(self, node: Node) -> bool:
        """May this node ask its handler now? Remembers the question if it is busy asking."""
        if node.state is not _OPENED:
            return False
        if node.is_scheduling:
            node.is_pending = True
            return False
        return node.in_flight < node.plan.max_in_flight

    def notify(self, node: Node) -> None:
        """Something changed on a node's inputs."""
        if self._may_schedule(node):
            bound = self._schedule_invocations(node)
            if bound != ts.UNSET:
                self._forward_bound(node, bound)

    def _schedule_invocations(self, node: Node) -> int:
        """Ask the handler; queue what can run. The bound to forward when not ready, else UNSET."""
        handler = node.handler
        allowance = node.plan.max_in_flight - node.in_flight
        while allowance > 0:
            try:
                ready = handler.readiness()
                time = handler.time
                filled = handler.fill(time) if ready == PROCESS else []
            except GraphError as error:
                self._log.record(error)
                return ts.UNSET
            if ready == NOT_READY:
                return node.batch[0][0] if node.batch else time
            if ready == PROCESS:
                for stream in node.inputs:
                    if stream.was_full:
                        self.update_throttling(stream)
                if handler.batch_size > 1:
                    node.batch.append((time, filled))
                    if len(node.batch) < handler.batch_size:
                        continue
                    self._push_batch(node)
                else:
                    context = node.take_context()
                    load_inputs(context, time, filled)
                    context.call = node.calculator.process
                    self.push(node, context)
                allowance -= 1
                continue
            assert ready == CLOSE
            if not node.active and not node.is_close_prepared:
                self._prepare_close(node)
            break
        return ts.UNSET

    def _prepare_close(self, node: Node) -> None:
        """The inputs are done: what is left is a partial batch, and the call to close."""
        node.is_close_prepared = True
        if self.errors:
            return
        if node.batch:
            self._push_batch(node)
        else:
            self.begin_close(node)
            self.push(node, node.context)

    def _push_batch(self, node: Node) -> None:
        context = node.context
        batch, node.batch = node.batch, []
        time, filled = batch.pop(0)
        load_inputs(context, time, filled)
        context.batch = batch
        self.push(node, context)

    def push(self, node: Node, context: CalculatorContext) -> None:
        if self.errors:
            return
        node.in_flight += 1
        node.is_idle = False
        node.queue.push(node, context)
        if not node.queue.is_pumped:
            self.woken.append(node.queue)

    def update_throttling(self, stream: InputStream) -> None:
        """A queue changed its length or limit: hold sources back, or let them go on."""
        for source in self._throttling.update(stream):
            self.schedule_source(source)

    def schedule_source(self, node: Node) -> None:
        if (
            self.errors
            or node.in_flight
            or node.state is not NodeState.ACTIVE
            or self._throttling.is_throttled(node.plan.node_id)
        ):
            return
        order = self.source_order(node)
        if order is None:
            return
        node.in_flight = 1
        node.queue.push_source(node, order)
        if not node.queue.is_pumped:
            self.woken.append(node.queue)

    def source_order(self, node: Node) -> int | None:
        """Which source goes first is the calculator's word; None, and an error, when it fails."""
        try:
            return index(node.calculator.source_process_order(node.context))
        except Exception as error:
            self._log.record_call(node, "SourceProcessOrder", error)
            return None

    def begin_close(self, node: Node) -> None:
        """Next the node's ``close`` is called."""
        node.move(NodeEvent.READY_FOR_CLOSE)
        node.is_idle = node.is_fast = False
        for stream in node.inputs:
            was_full = stream.was_full
            stream.close()
            if was_full:
                self.update_throttling(stream)
        context = node.context
        for shard in context.output_list:
            shard.reset()
        context.time = ts.DONE
        context.call = node.calculator.close

    def release_in_order(self, node: Node) -> None:
        """Outputs of parallel calls leave in the order of their input sets."""
        active = node.active
        while active and active[0].call is completed:
            context = active.pop(0)
            for shard in context.output_list:
                self.propagate_shard(shard, context.time)
            context.call = node.calculator.process
            node.free_contexts.append(context)
        if not active and node.bound_to_forward != ts.UNSET:
            bound, node.bound_to_forward = node.bound_to_forward, ts.UNSET
            self._forward_bound(node, bound)


def _receiving_error(mirror: InputStream, packet: Packet, is_late: bool) -> GraphError | None:
    """Why a packet may not enter this queue, or None. ``is_late``: others came before it."""
    time = packet.time
    checker, payload = mirror.checker, packet.payload
    if checker is not None and type(payload) is not checker.quick and not checker.accepts(payload):
        try:
            checker.validate(payload)
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
        if time == ts.POSTSTREAM and is_late:
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


def completed(context: CalculatorContext) -> None:
    """Marks a parallel call that is over and waits for its turn."""
