"""One graph, driven by the operations of a feed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from graph_runtime import (
    ApplicationThreadExecutor,
    CalculatorError,
    CalculatorGraph,
    Code,
    GraphError,
    Packet,
    Registry,
    RunError,
    Tracer,
    UnavailableError,
    ValidatedGraph,
)
from servers.cli.feed import (
    AddPacket,
    Call,
    Checkpoint,
    CloseStream,
    FeedLine,
    Operation,
    Restart,
    SetBound,
)


class OperationFailed(Exception):
    """An operation of the feed failed. The text begins with its place in the feed."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class FeedRunner:
    """Runs a graph step by step, in the calling thread and in a repeatable order.

    Only where the graph itself declares a default executor of several threads (``num_threads`` or
    ``executor {}``), the calls are made there.

    ``on_packet(stream, packet)`` gets what the observed streams carry; ``on_error(error)`` every
    error of the graph, with its cause, as it is recorded; every run gets ``resources`` as side
    packets.

    Attributes:
        blamed: the line whose packet a receiver refused. Such an error comes out of a later call
            (MediaPipe checks at the receiver), which is not where a person should look.
    """

    def __init__(
        self,
        plan: ValidatedGraph,
        registry: Registry,
        streams: list[str],
        on_packet: Callable[[str, Packet], object],
        *,
        observe_bounds: bool = False,
        on_error: Callable[[GraphError], object] | None = None,
        tracer: Tracer | None = None,
        resources: Mapping[str, Any] | None = None,
    ) -> None:
        self.graph = CalculatorGraph(validated_graph=plan, registry=registry)
        self._resources = dict(resources or {})
        self.blamed: FeedLine | None = None
        self._current: FeedLine | None = None
        self._counts: Counter[str] = Counter()
        self._on_packet = on_packet
        self._on_error = on_error
        self._is_running = False
        if not plan.executors[""].type or plan.executors[""].num_threads == 1:
            self.graph.set_executor("", ApplicationThreadExecutor())
        for stream in streams:
            self.graph.observe_output_stream(stream, self._observe, observe_bounds)
        self.graph.set_error_callback(self._take_error)
        if tracer is not None:
            self.graph.trace(tracer)

    def start(self, side_packets: Mapping[str, Any]) -> None:
        """Start a run.

        Raises:
            GraphError: side packets are missing or of the wrong type.
        """
        self._counts.clear()
        self.blamed = None
        self.graph.start_run({**self._resources, **side_packets})
        self._is_running = True

    def apply(self, line: FeedLine) -> None:
        """Do one operation.

        Raises:
            OperationFailed: it failed, or it should have failed and did not.
        """
        wanted = line.error_contains
        self._current = line
        try:
            self._do(line.operation)
        except GraphError as error:
            text = text_of(error)
            if wanted is None:
                cause = self.blamed or line
                raise OperationFailed(
                    f"{cause.place}: {cause.operation}: {text}", _hint(cause.operation, text)
                ) from error
            if wanted not in text:
                raise OperationFailed(
                    f'{line.place}: {line.operation}: failed, but not with "{wanted}": {text}'
                ) from error
        else:
            if wanted is not None:
                raise OperationFailed(
                    f'{line.place}: {line.operation}: should have failed with "{wanted}"'
                )
        finally:
            self._current = None

    def wait_until_idle(self) -> None:
        """Let the graph do what it can do.

        Raises:
            GraphError: the graph has failed.
        """
        if self._is_running:
            self.graph.wait_until_idle()

    def finish(self) -> None:
        """Close everything and wait for the end.

        Raises:
            GraphError: the graph has failed.
        """
        if self._is_running:
            self.graph.wait_until_idle()
            self.graph.close_all_packet_sources()
            self._wait_until_done()

    def abandon(self) -> None:
        """End a run whose result no longer counts: nodes are closed, errors are dropped."""
        if self._is_running:
            self.graph.cancel()
            try:
                self._wait_until_done()
            except GraphError:
                return

    def output_side_packets(self) -> list[tuple[str, Any]]:
        """Name and value of the side packets that nodes have made, in the order of the nodes."""
        found = []
        for name in self.graph.plan.side_producers:
            try:
                found.append((name, self.graph.get_output_side_packet(name).value))
            except UnavailableError:
                continue
        return found

    def _observe(self, stream: str, packet: Packet) -> None:
        if not packet.is_empty():
            self._counts[stream] += 1
        self._on_packet(stream, packet)

    def _take_error(self, error: GraphError) -> None:
        line = self._current
        if line is not None and isinstance(line.operation, AddPacket) and self.blamed is None:
            is_own = not isinstance(error, CalculatorError)
            if is_own and f'"{line.operation.stream}"' in str(error):
                self.blamed = line
        if self._on_error is not None:
            self._on_error(error)

    def _do(self, operation: Operation) -> None:
        match operation:
            case AddPacket(stream, packet):
                self.graph.add_packet_to_input_stream(stream, packet)
            case CloseStream(stream):
                self.graph.close_input_stream(stream)
            case SetBound(stream, bound):
                self.graph.set_input_stream_timestamp_bound(stream, bound)
            case Restart(side_packets):
                self.graph.close_all_packet_sources()
                # The new run starts also when the old one ended with the error that was expected.
                try:
                    self._wait_until_done()
                finally:
                    self.start(side_packets)
            case Checkpoint(counts):
                self._check_counts(counts)
            case Call("wait_until_done"):
                self._wait_until_done()
            case Call(name):
                getattr(self.graph, name)()

    def _wait_until_done(self) -> None:
        try:
            self.graph.wait_until_done()
        finally:
            self._is_running = False

    def _check_counts(self, counts: Mapping[str, int]) -> None:
        for stream, wanted in counts.items():
            if stream in self._counts or not self._is_running:
                seen = self._counts[stream]
            else:
                known = self.graph.statistics().streams
                seen = known[stream].packets if stream in known else 0
            if seen != wanted:
                raise GraphError(
                    f'stream "{stream}" has had {seen} packets, not {wanted}',
                    code=Code.FAILED_PRECONDITION,
                )


def text_of(error: GraphError) -> str:
    """The error's text; MediaPipe's CANCELLED has none."""
    text = str(error)
    if error.code is Code.CANCELLED and not text.removeprefix(RunError.PREFIX).strip():
        return f"{RunError.PREFIX}the run was cancelled"
    return text


def _hint(operation: Operation, text: str) -> str | None:
    if isinstance(operation, AddPacket):
        value = operation.packet.value
        if type(value) is int and 'stores "int", but "float" was requested' in text:
            return f"JSON's {value} is an int; write {value}.0 for a float"
    return None
