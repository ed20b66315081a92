"""One graph, driven by the operations of a feed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from graph_runtime import (
    ApplicationThreadExecutor,
    CalculatorError,
    CalculatorGraph,
    GraphError,
    Packet,
    Registry,
    Tracer,
    UnavailableError,
    ValidatedGraph,
)
from servers.cli.feed import AddPacket, FeedError, FeedLine, Operation


def observed_streams(asked: list[str], plan: ValidatedGraph) -> list[str]:
    """Return the streams whose packets are shown, each once.

    They are those ``asked`` for, else the graph's outputs, else what nodes make and none reads.
    """
    if asked:
        return list(dict.fromkeys(asked))
    inputs = {each.name for each in plan.graph_inputs}
    outputs = [name for name in plan.outputs.names if name in plan.producers]
    return outputs or [
        name for name in plan.producers if name not in plan.consumers and name not in inputs
    ]


class FeedRunner:
    """Runs a graph step by step, in the calling thread and in a repeatable order.

    If the graph declares a default executor of several threads (``num_threads`` or
    ``executor {}``), calculators are called there instead.

    ``on_packet(stream, packet)`` receives the packets of the observed streams, and
    ``on_error(error)`` every error of the graph, with its cause, as it is recorded. ``resources``
    are added to the side packets of the run.

    Attributes:
        blamed: the line whose packet a receiver refused, or None. A later call raises that error
            (MediaPipe checks at the receiver), and its line is not where a person should look.
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
        self._on_error = on_error
        if not plan.executors[""].type or plan.executors[""].num_threads == 1:
            self.graph.set_executor("", ApplicationThreadExecutor())
        for stream in streams:
            self.graph.observe_output_stream(stream, on_packet, observe_bounds)
        self.graph.set_error_callback(self._take_error)
        if tracer is not None:
            self.graph.trace(tracer)

    def start(self, side_packets: Mapping[str, Any]) -> None:
        """Start the run.

        Raises:
            GraphError: side packets are missing or of the wrong type.
        """
        self.graph.start_run({**self._resources, **side_packets})

    def apply(self, line: FeedLine) -> None:
        """Do one operation.

        Raises:
            FeedError: the operation, or an earlier one that was not checked until now, failed.
        """
        self._current = line
        try:
            line.operation.apply(self.graph)
        except GraphError as error:
            text = str(error)
            cause = self.blamed or line
            raise FeedError(
                f"{cause.place}: {cause.operation}: {text}", _hint(cause.operation, text)
            ) from error
        finally:
            self._current = None

    def finish(self) -> None:
        """Close everything and wait for the end.

        Raises:
            GraphError: the graph has failed.
        """
        self.graph.wait_until_idle()
        self.graph.close_all_packet_sources()
        self.graph.wait_until_done()

    def abandon(self) -> None:
        """End a run whose result no longer counts: nodes are closed, errors are dropped."""
        self.graph.cancel()
        with contextlib.suppress(GraphError):
            self.graph.wait_until_done()

    def output_side_packets(self) -> list[tuple[str, Any]]:
        """Return the side packets that nodes made, as names and values, in the nodes' order.

        Those inside subgraphs, such as the bytes of their models, are left out.
        """
        found = []
        for name in self.graph.plan.side_producers:
            if "__" in name:
                continue
            try:
                found.append((name, self.graph.get_output_side_packet(name).value))
            except UnavailableError:
                continue
        return found

    def _take_error(self, error: GraphError) -> None:
        line = self._current
        if line is not None and isinstance(line.operation, AddPacket) and self.blamed is None:
            is_own = not isinstance(error, CalculatorError)
            if is_own and f'"{line.operation.stream}"' in str(error):
                self.blamed = line
        if self._on_error is not None:
            self._on_error(error)


def _hint(operation: Operation, text: str) -> str | None:
    if isinstance(operation, AddPacket):
        value = operation.packet.value
        if type(value) is int and 'stores "int", but "float" was requested' in text:
            return f"JSON's {value} is an int; write {value}.0 for a float"
    return None
