"""`CalculatorGraph`: the application's side of a graph."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from types import TracebackType
from typing import Any, SupportsIndex

from graph_runtime import timestamp as ts
from graph_runtime.authoring.context import NO_PACKET, OutputSidePacket
from graph_runtime.engine.assembly import make_run
from graph_runtime.engine.drivers.on_asyncio import AsyncioDriver
from graph_runtime.engine.invariants import check_invariants
from graph_runtime.engine.run import Run
from graph_runtime.engine.silence import Silence
from graph_runtime.errors import (
    Code,
    GraphError,
    NotFoundError,
    StateError,
    TimestampError,
    UnavailableError,
    did_you_mean,
)
from graph_runtime.observe.statistics import GraphStatistics, take_statistics
from graph_runtime.packet import Packet, packet_at
from graph_runtime.prepared_graph import GraphInputStreamAddMode, PreparedGraph, camel_case

SidePackets = Mapping[str, Any]


class CalculatorGraph(PreparedGraph):
    """A graph that can run, once or several times.

    ::

        graph = CalculatorGraph(text_config='''
            input_stream: "in"
            output_stream: "out"
            node { calculator: "PassThroughCalculator" input_stream: "in" output_stream: "out" }
        ''')
        graph.observe_output_stream("out", lambda stream, packet: print(packet.value))
        graph.start_run()
        graph.add_packet_to_input_stream("in", "hello", 0)
        graph.close()

    With an event loop: ``await graph.start_run_async()`` and the ``_async`` twin of each call that
    can wait; everything else is the same. A run belongs to the event loop that started it, or to
    threads if none did.

    Names follow MediaPipe's Python binding. Wherever that takes a ``Packet``, a bare value works
    too. A failed run raises `RunError`; a wrong call raises another error of
    `graph_runtime.errors`.
    """

    # The last run, for the calls that come after it.
    _was_run = False
    _silence: Silence | None = None
    _side_outputs: Mapping[str, OutputSidePacket] = {}
    _checks_invariants = False

    def check_invariants(self) -> None:
        """Check the engine's invariants after every step from now on. For tests; slow."""
        self._checks_invariants = True
        if self._run is not None:
            self._run.driver.on_step = self._check_step

    # Starting -------------------------------------------------------------------------------------

    def start_run(
        self, side_packets: SidePackets | None = None, stream_headers: SidePackets | None = None
    ) -> None:
        """Start a run in the application's threads.

        ``side_packets`` are values or packets by name; ``stream_headers`` headers of graph inputs.

        Raises:
            StateError: a run is going on.
            RunError: side packets or services are missing or of the wrong type.
        """
        self._start(side_packets or {}, stream_headers or {}, is_async=False)

    async def start_run_async(
        self, side_packets: SidePackets | None = None, stream_headers: SidePackets | None = None
    ) -> None:
        """Start a run on the running event loop."""
        self._start(side_packets or {}, stream_headers or {}, is_async=True)

    async def run_once_async(
        self,
        packets: list[tuple[str, Any]],
        side_packets: SidePackets | None = None,
        *,
        at: SupportsIndex = 0,
    ) -> None:
        """Run to the end with one packet in each of some graph inputs.

        Has the effect of `start_run_async`, `add_packet_to_input_stream` for each of ``packets``,
        `close_all_input_streams` and `wait_until_done_async`. After an error or a cancellation the
        run may still be going on, as after these.

        Args:
            packets: graph inputs with their values. They are taken out of the list, so that each
                value is freed as soon as no node needs it.
            at: their timestamp.

        Raises:
            StateError: a run is going on.
            NotFoundError: no such graph input.
            RunError: the run cannot start, or has failed.
        """
        time = at if type(at) is int else ts.as_value(at)
        with self._lock:
            run = self._begin(side_packets or {}, {}, is_async=True)
            while packets:
                stream, value = packets.pop(0)
                place = self._plan.input_places.get(stream)
                if place is None:
                    place = self._find_graph_input(stream, "run_once_async")
                run.send(place, packet_at(value, time))
                del value
            run.scheduler.close_all_graph_inputs()
        # Begun here, so nobody else waits for it, and it runs on this loop.
        assert isinstance(run.driver, AsyncioDriver)
        await run.driver.wait(run.is_over)
        await run.finish_async()
        self._end(run)

    def _start(self, side_packets: SidePackets, headers: SidePackets, *, is_async: bool) -> None:
        with self._lock:
            self._begin(side_packets, headers, is_async=is_async).driver.events_added()

    def _begin(self, side_packets: SidePackets, headers: SidePackets, *, is_async: bool) -> Run:
        """Begin a run. Lock held."""
        if self._run is not None and not self._run.driver.is_abandoned:
            raise StateError(
                "start_run: a run is already going on; call close() or wait_until_done() first"
            )
        run = make_run(self._setup, self._lock, side_packets, headers, is_async=is_async)
        self._side_outputs = run.side_outputs
        self._run = run
        tracer = self._tracer
        if self._totals is not None:
            tracer = self._totals.begin(run, self._setup.counters, tracer)
        run.driver.tracer = tracer
        if tracer is not None:
            tracer.start(run)
        if self._checks_invariants:
            run.driver.on_step = self._check_step
        run.scheduler.start()
        return run

    def _check_step(self) -> None:
        if self._run is not None:
            check_invariants(self._run.scheduler)

    # Packets in -----------------------------------------------------------------------------------

    def add_packet_to_input_stream(
        self,
        stream: str,
        packet: Packet | Any,
        timestamp: SupportsIndex | None = None,
    ) -> None:
        """Send a packet, or a bare value at ``timestamp``, into a graph input.

        Waits while the graph is throttled (or raises, see ``graph_input_stream_add_mode``).

        Raises:
            StateError: the graph is not running.
            NotFoundError: no such graph input.
            UnavailableError: throttled, and waiting is not wanted or not possible here.
            RunError: the graph has failed, perhaps because of this packet's type or timestamp.
        """
        run = self._run
        if run is None:
            run = self._running("add_packet_to_input_stream")
        place = self._plan.input_places.get(stream)
        if place is None:
            place = self._find_graph_input(stream, "add_packet_to_input_stream")
        if type(packet) is not Packet:
            packet = packet_at(packet, ts.UNSET if timestamp is None else ts.as_value(timestamp))
        elif timestamp is not None:
            packet = packet_at(packet.payload, ts.as_value(timestamp))
        run.add_packet(
            place, packet, waits=self._add_mode is GraphInputStreamAddMode.WAIT_TILL_NOT_FULL
        )

    async def add_packet_to_input_stream_async(
        self, stream: str, packet: Packet | Any, timestamp: SupportsIndex | None = None
    ) -> None:
        """`add_packet_to_input_stream`, waiting for room without blocking the event loop."""
        run = self._running("add_packet_to_input_stream_async")
        place = self._plan.input_places.get(stream)
        if place is None or self._add_mode is not GraphInputStreamAddMode.WAIT_TILL_NOT_FULL:
            self.add_packet_to_input_stream(stream, packet, timestamp)
            return
        has_room = functools.partial(run.has_room, place)
        if type(packet) is not Packet:
            packet = Packet(packet)
        if timestamp is not None:
            packet = packet.at(timestamp)
        while True:
            if not has_room():
                await run.wait_async("add_packet_to_input_stream_async", has_room)
            try:
                run.add_packet(place, packet, waits=False)
                return
            except UnavailableError:
                continue  # Other threads have filled the queues again.

    def set_input_stream_timestamp_bound(self, stream: str, bound: SupportsIndex) -> None:
        """Promise that no packet before ``bound`` will be added to a graph input."""
        run = self._running("set_input_stream_timestamp_bound")
        value = ts.as_value(bound)
        place = self._find_graph_input(stream, "set_input_stream_timestamp_bound")
        if not (ts.is_allowed_in_stream(value) or value == ts.ONE_OVER_POSTSTREAM):
            raise TimestampError(
                f'In stream "{stream}", timestamp bound set to illegal value: '
                f"{ts.debug_string(value)}"
            )
        run.set_bound(place, value)

    def close_input_stream(self, stream: str) -> None:
        """End a graph input. Closing it again does nothing, also after the run."""
        run = self._running_or_ended("close_input_stream")
        if run is not None:
            place = self._find_graph_input(stream, "close_input_stream")
            run.close_inputs([run.graph_inputs[place]])

    def close_all_input_streams(self) -> None:
        """End every graph input; sources go on. Does nothing after the run."""
        run = self._running_or_ended("close_all_input_streams")
        if run is not None:
            run.close_all_inputs()

    def close_all_packet_sources(self) -> None:
        """End every graph input, and close each source at its next turn.

        Does nothing after the run.
        """
        run = self._running_or_ended("close_all_packet_sources")
        if run is not None:
            with self._lock:
                run.scheduler.close_all_sources()
                run.driver.events_added()

    # Waiting --------------------------------------------------------------------------------------

    def wait_until_idle(self) -> None:
        """Return when nothing runs and nothing can run without new packets.

        Does not return while a source keeps producing. After the run it returns at once.

        Raises:
            RunError: the graph has failed (again at every call, until ``wait_until_done``).
        """
        run = self._running_or_ended("wait_until_idle")
        if run is None:
            return
        run.wait("wait_until_idle", lambda: run.is_idle)
        if run.error is not None:
            raise run.error

    async def wait_until_idle_async(self) -> None:
        """`wait_until_idle` for event loops."""
        run = self._running_or_ended("wait_until_idle_async")
        if run is None:
            return
        await run.wait_async("wait_until_idle_async", lambda: run.is_idle)
        if run.error is not None:
            raise run.error

    def wait_until_done(self) -> None:
        """Return when the run is over and every node is closed. The graph can then start again.

        The run ends after an error, or when all graph inputs are closed and all sources have ended.

        Raises:
            RunError: holds every error of the run; the graph forgets them.
        """
        run = self._run
        if run is None or run.driver.is_abandoned:
            self._check_was_started("wait_until_done")
            return
        run.wait("wait_until_done", run.is_over)
        run.finish()
        self._end(run)

    async def wait_until_done_async(self) -> None:
        """`wait_until_done` for event loops."""
        run = self._run
        if run is None or run.driver.is_abandoned:
            self._check_was_started("wait_until_done_async")
            return
        await run.wait_async("wait_until_done_async", run.is_over)
        await run.finish_async()
        self._end(run)

    def _end(self, run: Run) -> None:
        """Keep what later runs need and raise the run's errors, once."""
        with self._lock:
            if self._run is not run:
                return
            self._setup.constants = run.constant_outputs()
            if self._totals is not None:
                self._totals.end(run, self._setup.counters)
            self._silence = run.silence
            run.release_cycles()
            self._run = None
            self._was_run = True
        if run.error is not None:
            raise run.error

    def wait_for_observed_output(self) -> None:
        """Return when an observer has been called since the last call.

        Raises:
            GraphError: the graph is done (OUT_OF_RANGE).
        """
        run = self._running("wait_for_observed_output")
        run.wait(
            "wait_for_observed_output",
            lambda: run.driver.has_observed or run.is_over(),
            ask_each_call=True,
        )
        self._take_observed(run)

    async def wait_for_observed_output_async(self) -> None:
        """`wait_for_observed_output` for event loops."""
        run = self._running("wait_for_observed_output_async")
        await run.wait_async(
            "wait_for_observed_output_async", lambda: run.driver.has_observed or run.is_over()
        )
        self._take_observed(run)

    def _take_observed(self, run: Run) -> None:
        with self._lock:
            observed, run.driver.has_observed = run.driver.has_observed, False
        if not observed:
            raise GraphError("Graph is done.", code=Code.OUT_OF_RANGE)

    def close(self) -> None:
        """Close all packet sources and wait until the run is done. Fine without a run."""
        if self._run is not None and not self._run.driver.is_abandoned:
            self.close_all_packet_sources()
            self.wait_until_done()

    async def close_async(self) -> None:
        """`close` for event loops."""
        if self._run is not None and not self._run.driver.is_abandoned:
            self.close_all_packet_sources()
            await self.wait_until_done_async()

    def cancel(self) -> None:
        """End the run with CANCELLED: nothing new starts, awaited calls are interrupted."""
        run = self._run
        if run is None:
            return
        with self._lock:
            run.scheduler.cancel()
            run.driver.events_added()
        run.driver.cancel_calls()

    def pause(self) -> None:
        """Start no call until ``resume``; running calls finish."""
        with self._lock:
            if self._run is not None:
                self._run.scheduler.pause()

    def resume(self) -> None:
        """Start calls again after ``pause``."""
        with self._lock:
            if self._run is not None:
                self._run.scheduler.resume()
                self._run.driver.events_added()

    def __enter__(self) -> CalculatorGraph:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        elif self._run is not None:
            # The body's error matters more; the run's would hide it.
            self.cancel()
            try:
                self.wait_until_done()
            except GraphError:
                return

    async def __aenter__(self) -> CalculatorGraph:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close_async()
        elif self._run is not None:
            self.cancel()
            try:
                await self.wait_until_done_async()
            # The caller gets the error of the ``with`` block.
            except GraphError:
                return

    # Looking --------------------------------------------------------------------------------------

    def has_error(self) -> bool:
        """Return True if the run has recorded an error."""
        return self._run is not None and bool(self._run.scheduler.errors)

    def get_combined_error_message(self) -> str:
        """Return the texts of all errors of the run so far, or the empty string."""
        return str(self._run.error or "") if self._run is not None else ""

    def get_output_side_packet(self, name: str) -> Packet:
        """A side packet that the graph made; after the run too.

        Raises:
            NotFoundError: no such side packet.
            UnavailableError: not made yet.
        """
        side = self._side_outputs.get(name)
        if side is None and name not in self._plan.side_producers:
            raise NotFoundError(
                f'Unable to get the output side packet "{name}" because it doesn\'t exist.'
                f"{did_you_mean(name, self._plan.side_producers)}"
            )
        if side is None or side.packet is NO_PACKET:
            raise UnavailableError(f'The output side packet "{name}" is unavailable.')
        return side.packet

    def statistics(self) -> GraphStatistics:
        """A frozen snapshot: state, queues, bounds, calls, times, what each node waits for."""
        with self._lock:
            return take_statistics(self._plan, self._run, self._setup.counters)

    def silence(self, stream: str, *, shows_times: bool = False) -> str:
        """Explain why the last run sent nothing on a stream.

        Names the nodes on the way to it, and what each waited for when the run ended. "" if packets
        were sent, or the run failed or was cancelled. ``shows_times`` adds the timestamps of held
        packets and the bounds of the streams that nodes waited for.

        A node that waits without end is no error: the run ends when no source is left.
        """
        with self._lock:
            if self._silence is None:
                return ""
            return self._silence.reason(stream, shows_times=shows_times)

    def held_back(self) -> list[str]:
        """Sentences about the nodes that still held packets when the last run ended.

        Each names a node and what it waited for, with timestamps. Empty after a run that failed or
        was cancelled.
        """
        with self._lock:
            return self._silence.held() if self._silence is not None else []

    # Inside ---------------------------------------------------------------------------------------

    def _running(self, call: str) -> Run:
        run = self._run
        if run is None:
            raise StateError(
                f"CalculatorGraph::{camel_case(call)}() is called before StartRun(): {call}() "
                f"needs a run; call start_run() first"
            )
        if run.driver.is_abandoned:
            raise run.abandoned_error(call)
        return run

    def _running_or_ended(self, call: str) -> Run | None:
        """Return the run; None if it has ended."""
        return None if self._run is None and self._was_run else self._running(call)

    def _check_was_started(self, call: str) -> None:
        if not self._was_run and self._run is None:
            raise StateError(f"{call}() needs a run; call start_run() first")
