"""Times of a run's calls, one entry per node: enough for one span each, however many calls."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_runtime.authoring.context import CalculatorContext
    from graph_runtime.engine.run import Run


class NodeTimes:
    """The calls of one node. Times are of ``time.perf_counter_ns``.

    Attributes:
        name, calculator: the node's name, and the name of its calculator.
        calls: number of calls of ``open``, ``process`` and ``close`` that have returned.
        first_start, last_end: over all calls; 0 before the first has returned.
        busy_ns: time in calls, including the waits of coroutines; overlapping calls count twice.
    """

    __slots__ = ("busy_ns", "calculator", "calls", "first_start", "last_end", "name")

    def __init__(self, name: str, calculator: str) -> None:
        self.name = name
        self.calculator = calculator
        self.calls = 0
        self.first_start = 0
        self.last_end = 0
        self.busy_ns = 0


class CallTimes:
    """A `CallObserver` that keeps a `NodeTimes` per node of one run.

    Attributes:
        started: when the run began, in the same unit; 0 before that.
        nodes: by their id in the plan.
    """

    __slots__ = ("nodes", "started")

    def __init__(self) -> None:
        self.started = 0
        self.nodes: list[NodeTimes] = []

    @property
    def last_end(self) -> int:
        """The time at which the latest call returned, or the start of the run if none has."""
        return max((node.last_end for node in self.nodes), default=0) or self.started

    def start(self, run: Run) -> None:
        self.started = perf_counter_ns()
        self.nodes = [NodeTimes(node.name, node.calculator_type) for node in run.plan.nodes]

    def record_call(self, context: CalculatorContext, started: int, ended: int) -> None:
        node = self.nodes[context._node.plan.node_id]
        if not node.calls or started < node.first_start:
            node.first_start = started
        if ended > node.last_end:
            node.last_end = ended
        node.calls += 1
        node.busy_ns += ended - started

    def record_flush(self, context: CalculatorContext) -> None:
        return
