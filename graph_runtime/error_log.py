"""The errors of one run, in order of arrival."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from graph_runtime.errors import CalculatorError, Code, GraphError, reason_of

if TYPE_CHECKING:
    from graph_runtime.node import Node

#: Beyond this many errors of one run only the count would grow; they are dropped.
MAX_ERRORS = 1000


class ErrorLog:
    """Records errors. From the first on nothing new is scheduled; what runs finishes.

    ``errors`` is one list for the whole run: the engine tests its truth in its hot paths.
    """

    def __init__(self, nodes: list[Node], on_error: Callable[[GraphError], object] | None) -> None:
        self.errors: list[GraphError] = []
        self._nodes = nodes
        self._on_error = on_error

    def record(self, error: GraphError) -> None:
        """Add an error, and tell the application's callback."""
        if not self.errors:
            for node in self._nodes:
                node.is_idle = False
        if len(self.errors) < MAX_ERRORS:
            self.errors.append(error)
        if self._on_error is not None:
            self._on_error(error)

    def record_call(self, node: Node, phase: str, error: BaseException) -> None:
        """A calculator's call raised; ``phase`` is "Open", "Process" or "Close"."""
        code = error.code if isinstance(error, GraphError) else Code.UNKNOWN
        failure = CalculatorError(node.plan.name, phase, reason_of(error), code=code)
        failure.__cause__ = error
        self.record(failure)
