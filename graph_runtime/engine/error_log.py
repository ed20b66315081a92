"""The errors of one run, in order of arrival."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from graph_runtime.errors import CalculatorError, Cancelled, Code, GraphError, reason_of
from graphrt_base.interrupts import raise_interrupt

if TYPE_CHECKING:
    from graph_runtime.engine.node import Node
    from graph_runtime.streams.output_stream import OutputStream

#: Beyond this many errors of one run only the count would grow; they are dropped.
MAX_ERRORS = 1000


class ErrorLog:
    """Records errors. After the first one nothing new is scheduled; running calls finish.

    ``errors`` is one list for the whole run: the engine tests its truth in its hot paths.
    """

    def __init__(self, nodes: list[Node], on_error: Callable[[GraphError], object] | None) -> None:
        self.errors: list[GraphError] = []
        self._nodes = nodes
        self._on_error = on_error

    def record(self, error: GraphError) -> None:
        """Add an error, and pass it to the application's callback."""
        if not self.errors:
            # `Flow.propagate_one` tests only this flag before it starts a node, so that a packet
            # costs one test.
            for node in self._nodes:
                node.is_idle = False
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(error)
        if self._on_error is not None:
            try:
                self._on_error(error)
            except BaseException as raised:
                raise_interrupt(raised)
                # Not passed to the callback, which would fail again.
                self._on_error = None
                self.record(_callback_failed(raised))

    def producer_of(self, stream: OutputStream) -> str | None:
        """Return the node that sends on a stream, for messages; None for graph inputs."""
        for node in self._nodes:
            if stream in node.outputs:
                return f'node "{node.plan.name}"'
        return None

    def record_call(
        self, node: Node, phase: str, error: BaseException, time: int | None = None
    ) -> None:
        """Record the exception of a calculator's call.

        ``phase`` is MediaPipe's name of the method, such as "Process"; ``time`` is the input
        timestamp, or None where there is no meaningful one.
        """
        if isinstance(error, Cancelled) and self.errors:
            return  # interrupted by the end of the run, which is recorded
        code = error.code if isinstance(error, GraphError) else Code.UNKNOWN
        failure = CalculatorError(node.plan.name, phase, reason_of(error), code=code, time=time)
        failure.__cause__ = error
        self.record(failure)


def _callback_failed(raised: BaseException) -> GraphError:
    failure = GraphError(f"The error callback failed: {reason_of(raised)}")
    failure.__cause__ = raised
    return failure
