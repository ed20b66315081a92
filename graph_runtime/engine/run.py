"""One run of a graph: packets in, waiting, and its end."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final

from graph_runtime import timestamp as ts
from graph_runtime.authoring.context import NO_PACKET, OutputSidePacket
from graph_runtime.engine.constant_outputs import ConstantOutputs
from graph_runtime.engine.drivers.on_asyncio import AsyncioDriver
from graph_runtime.engine.drivers.sync import SyncDriver, coroutine_loop
from graph_runtime.engine.silence import Silence
from graph_runtime.engine.states import NodeEvent, NodeState, RunEvent, RunState
from graph_runtime.errors import (
    Code,
    GraphError,
    RunError,
    StateError,
    TimestampError,
    UnavailableError,
    reason_of,
)
from graph_runtime.language.tag_map import parse_tag_index_name
from graph_runtime.packet import EMPTY, Packet
from graphrt_base.interrupts import is_being_cancelled, raise_interrupt

if TYPE_CHECKING:
    from graph_runtime.engine.node import Node
    from graph_runtime.engine.scheduler import Scheduler
    from graph_runtime.plan.plan import ValidatedGraph
    from graph_runtime.plan.registry import Registry
    from graph_runtime.streams.input_stream import InputStream
    from graph_runtime.streams.output_stream import OutputStream


# Names of the module are faster to look up than members of an enum.
_TERMINATED: Final = RunState.TERMINATED
_CLOSING: Final = NodeState.CLOSING
_CLOSED: Final = NodeState.CLOSED


class Run:
    """The state of one run, and the calls that the application can make on it.

    Methods take the graph's lock themselves unless they say that it is held.
    """

    def __init__(
        self,
        plan: ValidatedGraph,
        lock: threading.Lock,
        scheduler: Scheduler,
        driver: SyncDriver | AsyncioDriver,
        graph_inputs: list[OutputStream],
        streams: dict[str, OutputStream],
        side_outputs: dict[str, OutputSidePacket],
        side_packets: dict[str, Packet],
        registry: Registry,
    ) -> None:
        self.plan = plan
        self.lock = lock
        self.scheduler = scheduler
        self.driver = driver
        self.graph_inputs = graph_inputs
        self.first_input_id = len(plan.nodes)
        self.streams = streams
        self.side_outputs = side_outputs
        self.side_packets = side_packets
        self.registry = registry
        self._is_cleaning_up = False
        self._is_finished = False
        #: Made at the end of a run without errors in which some stream had no packets, or some node
        #: held packets.
        self.silence: Silence | None = None

    # Packets in -----------------------------------------------------------------------------------

    def add_packet(self, place: int, packet: Packet, *, waits: bool) -> None:
        """Add a packet to a graph input. ``waits``: wait until there is room, else raise.

        Raises:
            UnavailableError: throttled, and waiting is not wanted or not possible here.
            RunError: the run has failed, or fails with this packet.
        """
        with self.lock:
            if self.driver.is_abandoned:
                raise self.abandoned_error("add_packet_to_input_stream")
            source_id = self.first_input_id + place
            if self.scheduler.throttling.full_streams[source_id]:
                self._wait_for_room(source_id, waits)
            # As in MediaPipe, a packet that a receiver refuses fails the application's next call.
            if self.scheduler.errors:
                raise self.errors_so_far()
            self.send(place, packet)
            self.driver.events_added()

    def send(self, place: int, packet: Packet) -> None:
        """Send a packet into a graph input that has room. Lock held.

        Raises:
            RunError: the run fails with this packet.
        """
        stream = self.graph_inputs[place]
        payload, time = packet.payload, packet.time
        flow = self.scheduler.flow
        if payload is EMPTY:
            flow.propagate(stream, [], ts.next_allowed_in_stream(time))
            return
        error: GraphError | None = None
        is_ordinary = ts.MIN <= time < ts.MAX
        checker = stream.checker
        if not (is_ordinary or ts.is_allowed_in_stream(time)):
            error = TimestampError(
                f'In stream "{stream.name}", timestamp not specified or set to illegal value: '
                f"{ts.debug_string(time)}"
            )
        elif not (checker is None or type(payload) is checker.quick or checker.accepts(payload)):
            error = checker.refusal(stream.name, payload)
        if error is not None:
            # The graph fails, as in MediaPipe: a run must not go on with a hole in its input.
            self.scheduler.log.record(error)
            self.driver.events_added()
            raise self.errors_so_far()
        if is_ordinary:
            flow.propagate_one(stream, packet)
        else:
            flow.propagate(stream, [packet], ts.next_allowed_in_stream(time))

    def has_room(self, place: int) -> bool:
        """Return True if a packet may be added, or if waiting for room would be pointless."""
        return (
            not self.scheduler.throttling.is_throttled(self.first_input_id + place)
            or bool(self.scheduler.errors)
            or self.is_over()
        )

    def _wait_for_room(self, source_id: int, waits: bool) -> None:
        """Wait until a packet may be added, or refuse it unless ``waits``. Lock held."""
        place = source_id - self.first_input_id

        def has_room() -> bool:
            return self.has_room(place)

        if has_room():
            return
        if not waits:
            raise UnavailableError("Graph is throttled.")
        driver = self.driver
        if driver.is_inside_call:
            raise UnavailableError(
                "Graph is throttled, and a calculator or observer of the graph cannot wait for it"
            )
        if isinstance(driver, SyncDriver):
            driver.wait(has_room, ask_each_call=True)
        elif not driver.is_on_loop:
            driver.wait_in_thread(has_room)
        else:
            if not driver.is_pumping:
                driver.pump(until=has_room)
            if not has_room():
                raise UnavailableError(
                    "Graph is throttled; on an event loop wait with "
                    "add_packet_to_input_stream_async"
                )

    def set_bound(self, place: int, bound: int) -> None:
        """Promise that no packet before ``bound`` will be added to a graph input."""
        with self.lock:
            self.scheduler.flow.propagate(self.graph_inputs[place], [], bound)
            self.driver.events_added()

    def close_inputs(self, streams: Iterable[OutputStream]) -> None:
        """End graph inputs."""
        with self.lock:
            self.scheduler.close_graph_inputs(streams)
            self.driver.events_added()

    def close_all_inputs(self) -> None:
        """End every graph input."""
        with self.lock:
            self.scheduler.close_all_graph_inputs()
            self.driver.events_added()

    # Waiting --------------------------------------------------------------------------------------

    def is_over(self) -> bool:
        """Return True when nothing runs and nothing can."""
        return self.scheduler.state is _TERMINATED or self._is_finished

    @property
    def is_idle(self) -> bool:
        """True when nothing runs, nothing can run, and everything is delivered."""
        return self.driver.is_settled or self._is_finished

    def wait(
        self,
        call: str,
        done: Callable[[], bool],
        *,
        ask_each_call: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Block until ``done`` holds, or ``timeout`` seconds are over.

        ``call`` is the application's name for this.

        Raises:
            StateError: the wait would never end: inside a calculator or observer, or on the event
                loop that runs the graph.
        """
        driver = self.driver
        driver.check_may_wait(call)
        if isinstance(driver, AsyncioDriver) and driver.is_on_loop:
            raise StateError(
                f"{call}() would block the event loop that this run belongs to; await its _async "
                f"twin"
            )
        with self.lock:
            if isinstance(driver, SyncDriver):
                driver.wait(done, ask_each_call=ask_each_call, timeout=timeout)
            else:
                driver.wait_in_thread(done, timeout)

    async def wait_async(self, call: str, done: Callable[[], bool]) -> None:
        """`wait` for event loops."""
        driver = self.driver
        driver.check_may_wait(call)
        if isinstance(driver, AsyncioDriver) and driver.is_on_loop:
            await driver.wait(done)
        else:
            # The run was started by a thread, or on another loop.
            await asyncio.to_thread(self.wait, call, done, ask_each_call=True)

    def set_limit(self, stream: InputStream, size: int) -> None:
        """Change the limit of a queue; -1 is no limit."""
        with self.lock:
            stream.max_queue_size = size
            self.stream_was_read(stream)

    def stream_was_read(self, stream: InputStream) -> None:
        """Update the throttling: a poller took packets, or a limit changed. Lock held."""
        self.scheduler.flow.update_throttling(stream)
        self.driver.events_added()

    # Errors ---------------------------------------------------------------------------------------

    @property
    def error(self) -> RunError | None:
        """All errors so far as one, or None."""
        errors = self.scheduler.errors
        return RunError(list(errors)) if errors else None

    def errors_so_far(self) -> RunError:
        """Return the error of a call that comes too late."""
        return RunError(list(self.scheduler.errors), prefix="Graph has errors: ")

    def abandoned_error(self, call: str) -> StateError:
        """Return the error of a call to a run whose event loop is closed."""
        return StateError(
            f"{call}(): the event loop that this run belonged to is closed, and the run with it; "
            f"start_run begins a new one"
        )

    # The end --------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Close the open nodes and call the status handlers. Errors stay in `error`."""
        nodes = self._begin_clean_up()
        if nodes is None:
            self.wait("wait_until_done", lambda: self._is_finished)
            return
        try:
            for node in nodes:
                try:
                    result = node.calculator.close(node.context)
                    if inspect.isawaitable(result):
                        # The application's thread may have no event loop, or one that it blocks
                        # just now.
                        asyncio.run_coroutine_threadsafe(
                            _awaited(result), coroutine_loop()
                        ).result()
                except BaseException as error:
                    # The run's own error is what the application gets.
                    raise_interrupt(error)
        finally:
            self._end_clean_up()

    async def finish_async(self) -> None:
        """`finish` for event loops."""
        nodes = self._begin_clean_up()
        if nodes is None:
            await self.wait_async("wait_until_done_async", lambda: self._is_finished)
            return
        interruption: asyncio.CancelledError | None = None
        for node in nodes:
            try:
                result = node.calculator.close(node.context)
                if inspect.isawaitable(result):
                    await result
            except asyncio.CancelledError as error:
                # The others are closed all the same, and the graph can start again.
                if is_being_cancelled():
                    interruption = error
            except BaseException as error:
                raise_interrupt(error)
        self._end_clean_up()
        if interruption is not None:
            raise interruption

    def _begin_clean_up(self) -> list[Node] | None:
        """Prepare the nodes that must still be closed; None if another caller is doing that."""
        with self.lock:
            if self._is_cleaning_up:
                return None
            self._is_cleaning_up = True
            if not self.scheduler.errors and self._has_silence():
                self.silence = Silence(self.plan, self.scheduler.nodes, self.streams)
            return self._prepare_closing(self.error)

    def _has_silence(self) -> bool:
        """True if a stream had no packets, or a node holds packets that will never be taken."""
        # A list: a generator costs a request more than the list does.
        if 0 in [stream.num_packets for stream in self.streams.values()]:
            return True
        for node in self.scheduler.nodes:
            for stream in node.inputs:
                if stream.queue:
                    return True
        return False

    def _prepare_closing(self, error: RunError | None) -> list[Node]:
        for stream in self.graph_inputs:
            stream.closed = True
        nodes = []
        for node in self.scheduler.nodes:
            if node.is_resent:
                pass  # its calculator was not opened
            elif node.was_opened and node.state not in (_CLOSED, _CLOSING):
                nodes.append(node)
                context = node.context
                for stream_in in node.inputs:
                    stream_in.close()
                for shard in context.output_list:
                    shard.reset()
                for shard_in in context.input_list:
                    shard_in.packet = NO_PACKET
                context.time = ts.DONE
                context.graph_status = error
            elif node.was_opened and node.state is _CLOSING:
                # The graph ended while the call to close was queued.
                nodes.append(node)
                node.context.graph_status = error
            node.is_idle = node.is_fast = node.becomes_fast = False
            node.move(NodeEvent.RUN_ENDED)
        return nodes

    def _end_clean_up(self) -> None:
        with self.lock:
            for queue in self.scheduler.queues:
                queue.clear()
        # Without the lock, so that a handler may ask the graph.
        failures: list[GraphError] = []
        if self.plan.status_handlers:
            failures = self.call_status_handlers("POST_RUN", self.error)
        with self.lock:
            for failure in failures:
                self.scheduler.log.record(failure)
            self.scheduler.move(RunEvent.CLEAN_UP)
            self._is_finished = True
            self.driver.wake_waiters()

    def constant_outputs(self) -> dict[int, ConstantOutputs]:
        """Return the outputs of nodes without streams, for the next run."""
        return {
            node.plan.node_id: ConstantOutputs(node)
            for node in self.scheduler.nodes
            if not node.inputs and not node.outputs and node.was_opened
        }

    # Loaded objects are frozen and collections are rare (decision 0034), so the packets of a
    # request would stay for minutes.
    def release_cycles(self) -> None:
        """Break the reference cycles, so that the run and its packets are freed with the graph.

        Otherwise they would live until the next garbage collection. Lock held.
        """
        for stream in self.graph_inputs:
            stream.release_cycles()
        for node in self.scheduler.nodes:
            node.release_cycles()

    def call_status_handlers(self, phase: str, error: RunError | None) -> list[GraphError]:
        """Call the graph's status handlers before or after the run; return their errors.

        One whose input side packets are missing is not called (MediaPipe ``calculator_graph.cc``).
        """
        failures: list[GraphError] = []
        for config in self.plan.status_handlers:
            missing = [
                f"Missing input side packet: {name}"
                for entry in config.input_side_packet
                if (name := parse_tag_index_name(entry).name) not in self.side_packets
            ]
            if missing:
                text = f"Skipping run of {config.status_handler}: {'; '.join(missing)}"
                failures.append(GraphError(text, code=Code.INVALID_ARGUMENT))
                continue
            handler = self.registry.find_status_handler(
                config.status_handler, self.plan.config.package
            )
            assert handler is not None, "checked at validation"
            try:
                handler(phase, error, dict(self.side_packets), config.options)
            except BaseException as raised:
                raise_interrupt(raised)
                method = "HandlePreRunStatus" if phase == "PRE_RUN" else "HandleStatus"
                text = f"{config.status_handler}::{method} failed: {reason_of(raised)}"
                code = raised.code if isinstance(raised, GraphError) else Code.UNKNOWN
                failures.append(GraphError(text, code=code))
        return failures


async def _awaited(awaitable: Awaitable[None]) -> None:
    await awaitable
