"""The flow of packets and bounds from node to node, and the queueing of calls they make possible.

Everything here runs under the graph's lock, between two calls of calculators, and calls no user
code except ``source_process_order``.

Terms

    shard       The packets, bound and close of one output stream during one call (or, on the input
                side, the packet that the call sees).
    stream      The sending end (`OutputStream`), one per output of a node and per graph input.
    mirror      A receiving end of a stream (`InputStream`): a queue at a node or at a poller.
    bound       The smallest timestamp that may still come. Everything before it is settled.
    offset d    The promise that a call at t settles the output up to t + d.
    readiness   The answer of a node's input handler: PROCESS at a timestamp, CLOSE, or NOT_READY
                with the bound up to which the inputs are settled.
    in flight   Calls of a node that are queued or running.

Rules

(1) Bounds never fall. A mirror's bound is at least that of its stream, unless the mirror ignores
    timestamps, or has refused a packet, which is an error of the graph.
(2) A shard reaches its stream when its call returns, or says so (`flush`); the shards of parallel
    calls in the order of their input sets (`release_in_order`).
(3) A packet moves the bound to the next timestamp. Only a bound beyond that is propagated on its
    own.
(4) A mirror's node is notified when its queue stops being empty, or when its bound moves while the
    queue is empty. No other change of a stream can make a node ready.
(5) A node that is not ready passes its settled bound on to outputs with an offset, without a call
    (`_forward_bound`), and so on through chains of such nodes.
(6) A node does not ask its handler again while it is forwarding a bound (``is_scheduling``). A
    notification that comes meanwhile is remembered (``is_pending``) and served afterwards.
(7) After the first error of the run no call is queued.

Who calls whom

    Scheduler.finished -> propagate_call -> propagate_shard -> propagate -> mirrors, observers
                                         -> propagate_one   (one packet, bound implied)
    mirror changed     -> notify -> _schedule_invocations -> push -> ReadyQueue
                                 -> _forward_bound -> the same at the nodes downstream
    queue length       -> update_throttling -> schedule_source

Three shortcuts keep the usual graph fast. They have the effect of the general way, with fewer
checks.

    sole input  Each packet of a node's only input is an input set, so the handler need not be
                asked: the call ends in `finished_simple`, which takes the next packet. A node
                with several sync sets takes this shortcut once all streams but one have ended:
                in a loop, the back edge is left when the request has been read. If the packet of a
                call is the last of its input, that call's end is the first of the shortcut
                (`begin_fast`).
    direct      A mirror that is the only input of a node hands a packet to the idle node past its
                queue (`propagate_one`).
    ordinary    One packet at an ordinary timestamp, whose sender has checked its type, implies its
                bound (`propagate_one`); everything else takes `propagate`.

Source: MediaPipe ``output_stream_manager.cc``, ``input_stream_manager.cc``,
``calculator_node.cc``, ``in_order_output_stream_handler.cc``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappush
from operator import index
from typing import TYPE_CHECKING, Final

from graph_runtime import timestamp as ts
from graph_runtime.authoring.context import NO_PACKET, CalculatorContext, OutputStreamShard
from graph_runtime.engine.node import Node, clear_inputs, load_inputs
from graph_runtime.engine.states import NodeEvent, NodeState
from graph_runtime.errors import GraphError, PacketTypeError, TimestampError
from graph_runtime.packet import EMPTY, Packet
from graph_runtime.streams.input_handlers.handler import CLOSE, ENDED, NOT_READY, PROCESS
from graphrt_base.interrupts import raise_interrupt

if TYPE_CHECKING:
    from graph_runtime.engine.error_log import ErrorLog
    from graph_runtime.engine.ready_queue import ReadyQueue
    from graph_runtime.engine.throttling import Throttling
    from graph_runtime.streams.input_stream import InputStream
    from graph_runtime.streams.output_stream import OutputStream, StreamObserver

_OPENED: Final = NodeState.OPENED
# Names of the module are faster to look up than attributes of another.
_UNSET: Final = ts.UNSET
_MIN: Final = ts.MIN
_MAX: Final = ts.MAX
_NOTHING_MORE: Final = ts.ONE_OVER_POSTSTREAM


class Flow:
    """Moves packets and bounds, and queues the calls that they make possible.

    Attributes:
        deliveries: packets for observers, in order; the driver delivers them outside the lock.
        woken: queues of thread pools that got work since the driver last woke the pools.
    """

    def __init__(self, log: ErrorLog, throttling: Throttling) -> None:
        self.deliveries: deque[tuple[StreamObserver, Packet]] = deque()
        self.woken: list[ReadyQueue] = []
        self.errors = log.errors
        self._log = log
        self._throttling = throttling

    def propagate_call(self, context: CalculatorContext, time: int) -> None:
        """Propagate the outputs of one call at input timestamp ``time``."""
        for shard in context.output_list:
            packets = shard.packets
            # Most outputs of a call are empty. Skipping them here took 6 of 510 calls from a
            # request (decision 0048).
            if not packets and shard.updated_bound == _UNSET and shard.stream.offset is None:
                continue  # nothing was sent, and nothing is promised
            if len(packets) == 1 and not shard.closed:
                packet = packets[0]
                offset = shard.stream.offset
                # If the bound follows from the packet, nothing else has changed.
                if shard.updated_bound == packet.time + 1 and (
                    offset is None or time + offset <= packet.time
                ):
                    shard.updated_bound = _UNSET
                    packets.clear()
                    self.propagate_one(shard.stream, packet)
                    continue
            self.propagate_shard(shard, time)

    # The only exception to rule (2): a node that speaks sentence by sentence needs no loop of
    # packets for it (decision 0053). MediaPipe has no such call.
    def flush(self, context: CalculatorContext) -> None:
        """Propagate the outputs of a call that goes on. The offset takes effect when it returns."""
        for shard in context.output_list:
            if shard.packets or shard.updated_bound != _UNSET:
                self.propagate_shard(shard, ts.UNSTARTED)

    def finished_simple(self, node: Node, context: CalculatorContext) -> None:
        """End a call of a node with a sole input (`Node.sole_input`). The hot path."""
        time = context.time
        for shard in context.output_list:
            packets = shard.packets
            if len(packets) == 1 and not shard.closed:
                packet = packets[0]
                offset = shard.stream.offset
                if shard.updated_bound == packet.time + 1 and (
                    offset is None or time + offset <= packet.time
                ):
                    # As in `propagate_call`, which would be one more call in each call of a node.
                    shard.updated_bound = _UNSET
                    packets.clear()
                    self.propagate_one(shard.stream, packet)
                    continue
            if packets or shard.updated_bound != _UNSET or shard.stream.offset is not None:
                self.propagate_shard(shard, time)
        # A chain of nodes runs this for each packet: 1.37 us per node before it was written so,
        # 1.27 since (decision 0068).
        stream = node.sole_input
        queue = stream.queue
        if queue:
            if self.errors:
                node.in_flight = 0
                return
            # Without the handler: each packet of a sole input is an input set, and asking cost a
            # function call per packet (decisions 0048, 0068).
            packet = queue.popleft()
            input_shard = context.input_list[stream.place]
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
        # An idle node would keep its last packet, such as a picture, until the next one comes.
        context.input_list[stream.place].packet = NO_PACKET
        bound = stream.bound
        if bound >= _NOTHING_MORE:
            clear_inputs(context)
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

    def begin_fast(self, node: Node, context: CalculatorContext) -> None:
        """End the last call with packets of other inputs than the sole one; those have ended."""
        node.becomes_fast = False
        node.is_fast = True
        for stream, shard in zip(node.inputs, context.input_list, strict=True):
            if stream is node.sole_input:
                shard.packet, shard.is_done = NO_PACKET, False
            else:
                shard.packet, shard.is_done = ENDED
        self.finished_simple(node, context)

    def close_stream(self, stream: OutputStream) -> None:
        """End a stream; its receivers get the bound DONE. Closing twice does nothing."""
        if not stream.closed:
            stream.closed = True
            self.propagate(stream, [], ts.DONE)

    def propagate_shard(self, shard: OutputStreamShard, time: int) -> None:
        """Propagate one output of a call at input timestamp ``time``."""
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
        if closed:
            self.close_stream(stream)

    def propagate_one(self, stream: OutputStream, packet: Packet) -> None:
        """Send one packet whose timestamp alone determines the new bound. The hot path."""
        time = packet.time
        stream.bound = time + 1
        stream.num_packets += 1
        for mirror in stream.mirrors:
            node = mirror.direct
            # Past the queue: the packet would be put into it and taken out again at once.
            if node is not None and node.is_idle and time >= mirror.bound:
                mirror.bound = time + 1
                context = node.context
                context.time = time
                context.input_list[0].packet = packet
                node.is_idle = False
                node.in_flight = 1
                heappush(node.heap, node.key)
            elif mirror.checker is not None or time < mirror.bound:
                self._add_packets(mirror, [packet])
            elif not mirror.closed:
                mirror.bound = time + 1
                self._queue_packets(mirror, (packet,))
        if stream.observers:
            self._observe(stream, [packet], _UNSET)

    def propagate(self, stream: OutputStream, packets: list[Packet], bound: int) -> None:
        """Send packets, then a bound (UNSET: none) if it exceeds the one the packets imply."""
        if bound != ts.UNSET:
            stream.bound = bound
        stream.num_packets += len(packets)
        moves_bound = bound != ts.UNSET and (
            not packets or ts.next_allowed_in_stream(packets[-1].time) != bound
        )
        for mirror in stream.mirrors:
            if packets:
                self._add_packets(mirror, packets)
            if moves_bound and self._set_bound(mirror, bound) and mirror.node is not None:
                self.notify(mirror.node)
        if stream.observers:
            self._observe(stream, packets, bound if moves_bound else ts.UNSET)

    def _add_packets(self, mirror: InputStream, packets: list[Packet]) -> None:
        # A closed node swallows what comes, without an error, as in MediaPipe.
        if mirror.closed:
            return
        accepted = 0
        is_late = mirror.source.num_packets > len(packets)
        for packet in packets:
            error = _receiving_error(mirror, packet, accepted > 0 or is_late)
            if error is not None:
                self._record_sent(error, mirror.source)
                break
            mirror.bound = ts.next_allowed_in_stream(packet.time)
            accepted += 1
        self._queue_packets(mirror, packets[:accepted])

    def _queue_packets(self, mirror: InputStream, packets: Sequence[Packet]) -> None:
        """Queue packets that a receiver has accepted, and notify its node."""
        queue = mirror.queue
        was_empty = not queue
        queue.extend(packets)
        if not mirror.was_full and 0 <= mirror.max_queue_size <= len(queue):
            self.update_throttling(mirror)
        node = mirror.node
        if node is None:
            return
        # A busy node asks again when its call returns.
        if was_empty and queue and node.in_flight < node.plan.max_in_flight:
            self.notify(node)
        if node.watches_queues:
            node.handler.packets_added()
            self._note_room(node)

    def _set_bound(self, mirror: InputStream, bound: int) -> bool:
        """Move a receiver's bound; True when its node must be notified."""
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
                is_ordinary = _MIN <= time < _MAX
                observer.bound = time + 1 if is_ordinary else ts.next_allowed_in_stream(time)
                observer.num_packets += 1
                observer.last = time
                self.deliveries.append((observer, packet))
            if packets and observer.observe_bounds:
                # A packet at PRESTREAM or MAX settles more than its own timestamp.
                settled = observer.settle(observer.bound)
                if settled is not None:
                    self.deliveries.append((observer, settled))
            if bound > observer.bound:
                settled = observer.settle(bound)
                if settled is not None:
                    self.deliveries.append((observer, settled))
            elif ts.UNSET < bound < observer.bound:
                self._record_sent(_bound_goes_back(stream.name, observer.bound, bound), stream)

    def _record_sent(self, error: GraphError, stream: OutputStream) -> None:
        """Record a packet or bound that a receiver refused, with the name of its sender."""
        sender = self._log.producer_of(stream) or "the application"
        self._log.record(type(error)(f"{error} (sent by {sender})", code=error.code))

    def _forward_bound(self, node: Node, bound: int) -> None:
        """Settle outputs as far as the inputs are settled, without a call, through chains of nodes.

        Depth first with an explicit stack: a chain may have thousands of nodes.
        """
        if not ts.is_range_value(bound):
            return
        node.is_scheduling = True
        # Recursion would end at Python's limit in a chain of a thousand nodes.
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
        """Move the bounds of a node's outputs; yield each node to notify, as its bound moves."""
        if node.is_parallel and node.active:
            node.bound_to_forward = bound
            return
        for stream in node.outputs:
            if stream.offset is None or stream.closed:
                continue
            new = ts.clamp(bound + stream.offset)
            if new <= stream.bound:
                continue
            stream.bound = new
            for mirror in stream.mirrors:
                if self._set_bound(mirror, new) and mirror.node is not None:
                    yield mirror.node
            if stream.observers:
                self._observe(stream, [], new)

    def _may_schedule(self, node: Node) -> bool:
        """True if a node may ask its handler now. If it is asking already, it will ask again."""
        if node.state is not _OPENED:
            return False
        if node.is_scheduling:
            node.is_pending = True
            return False
        return node.in_flight < node.plan.max_in_flight

    def notify(self, node: Node) -> None:
        """React to a change of a node's inputs: queue its calls, or forward its settled bound."""
        if self._may_schedule(node):
            bound = self._schedule_invocations(node)
            if bound != ts.UNSET:
                self._forward_bound(node, bound)

    def _schedule_invocations(self, node: Node) -> int:
        """Ask the handler and queue the calls that can run.

        Returns the bound to forward when the node is not ready, else UNSET.
        """
        handler = node.handler
        allowance = node.plan.max_in_flight - node.in_flight
        while allowance > 0:
            try:
                ready = handler.readiness()
                time = handler.time
                filled = handler.fill(time) if ready == PROCESS else []
            except GraphError as error:
                self._log.record(error)
                self._note_room(node)
                return ts.UNSET
            if ready != PROCESS and handler.erases:
                self._note_room(node)
            if ready == NOT_READY:
                return node.batch[0][0] if node.batch else time
            if ready == PROCESS:
                for stream in node.inputs:  # `_note_room`, without a call in each call of a node
                    if stream.was_full:
                        self.update_throttling(stream)
                if handler.batch_size > 1:
                    node.batch.append((time, filled))
                    if len(node.batch) < handler.batch_size:
                        continue
                    self._push_batch(node)
                else:
                    context = node.take_context() if node.is_parallel else node.context
                    load_inputs(context, time, filled)
                    context.call = node.calculator.process
                    self.push(node, context)
                    sole = handler.sole_stream
                    if sole is not None and not node.is_parallel:
                        node.sole_input = sole
                        node.is_fast = context.input_list[sole.place].packet.payload is not EMPTY
                        # The back edge of a language model is left once its request has been read;
                        # before, the handler was asked once more (16 calls of a chat, decision
                        # 0048).
                        node.becomes_fast = not node.is_fast
                allowance -= 1
                continue
            assert ready == CLOSE
            if not node.active and not node.is_close_prepared:
                self._prepare_close(node)
            break
        return ts.UNSET

    def _prepare_close(self, node: Node) -> None:
        """Queue the last calls of a node whose inputs are done: a partial batch, then ``close``."""
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
        """Queue a call of a node, unless the run has failed."""
        if self.errors:
            return
        node.in_flight += 1
        node.is_idle = False
        node.queue.push(node, context)
        if not node.queue.is_pumped:
            self.woken.append(node.queue)

    def _note_room(self, node: Node) -> None:
        """Release sources that a node's queues hold back, where these have become shorter."""
        for stream in node.inputs:
            if stream.was_full:
                self.update_throttling(stream)

    def update_throttling(self, stream: InputStream) -> None:
        """Hold sources back, or release them, after a queue's length or limit has changed."""
        for source in self._throttling.update(stream):
            self.schedule_source(source)

    def schedule_source(self, node: Node) -> None:
        """Queue the next call of a source that is active, not throttled and not in flight."""
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
        """The calculator's ``source_process_order``; None after a failure, which is recorded."""
        try:
            return index(node.calculator.source_process_order(node.context))
        # SystemExit too: `sys.exit()` in an author's code used to end the server with all its
        # models (decision 0092).
        except BaseException as error:
            self._log.record_call(node, "SourceProcessOrder", error)
            raise_interrupt(error)
            return None

    def begin_close(self, node: Node) -> None:
        """Prepare a node for its ``close``: drop its queued packets, reset its outputs."""
        node.move(NodeEvent.READY_FOR_CLOSE)
        node.is_idle = node.is_fast = node.becomes_fast = False
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
        """Propagate finished parallel calls in the order of their input sets."""
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
    """Return the error of a packet that may not enter this queue, or None.

    ``is_late``: it is not the first packet of its stream.
    """
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
        f"{ts.debug_string(time)}. Are you using a custom InputStreamHandler? Each packet of a "
        "stream needs a later timestamp than the one before, unless the handler of its receiver "
        "takes others: send one for each call, or several with cc.emit(port, value, at=time)."
    )


def _bound_goes_back(name: str, current: int, bound: int) -> GraphError:
    return GraphError(
        "SetNextTimestampBound must be called with a timestamp greater than or equal to the "
        f'current bound. In stream "{name}". Current minimum expected timestamp is '
        f"{ts.debug_string(current)} but received {ts.debug_string(bound)}"
    )


def completed(context: CalculatorContext) -> None:
    """Mark a parallel call as finished; its outputs wait for their turn. Never called."""
