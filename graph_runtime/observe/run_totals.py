"""`RunTotals`: sums over the runs of one graph, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from graph_runtime.authoring.context import Counter
    from graph_runtime.engine.run import Run
    from graph_runtime.plan.plan import ValidatedGraph


_NONE: Final[Mapping[str, int]] = {}


class NodeTotal:
    """Sums of one node: its calls, their time, and the packets that its input handler dropped."""

    __slots__ = ("calls", "dropped", "name", "time_ns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.time_ns = 0
        self.dropped = 0

    def copy(self) -> NodeTotal:
        """A copy with the same numbers."""
        made = NodeTotal(self.name)
        made.calls, made.time_ns, made.dropped = self.calls, self.time_ns, self.dropped
        return made


class RunTotals:
    """Sums over all runs of graphs of one plan; pass it to `CalculatorGraph.count_into`.

    Concurrent runs in several threads may lose some counts.

    Attributes:
        nodes: sums of the runs that have ended, one per node in the order of the plan.
        counters: the counters of those runs (``cc.get_counter``), by ``<node>-<name>``.
    """

    def __init__(self, plan: ValidatedGraph) -> None:
        self.nodes = [NodeTotal(node.name) for node in plan.nodes]
        self.counters: dict[str, int] = {}
        #: Each with the counters of its graph, and their values at the start.
        self._running: dict[Run, tuple[Mapping[str, Counter], Mapping[str, int]]] = {}
        self._dropping = [
            place for place, node in enumerate(plan.nodes) if node.handler_class.may_drop
        ]

    def begin(self, run: Run, counters: Mapping[str, Counter]) -> None:
        """Begin a run; ``counters`` belong to its graph."""
        before = {name: each.value for name, each in counters.items()} if counters else _NONE
        self._running[run] = (counters, before)

    def end(self, run: Run, counters: Mapping[str, Counter]) -> None:
        """End a run and add its sums to `nodes` and `counters`."""
        begun = self._running.pop(run, None)
        if begun is None:
            return
        nodes = run.scheduler.nodes
        for total, node in zip(self.nodes, nodes):  # noqa: B905 (strict takes as long as all this)
            total.calls += node.calls
            total.time_ns += node.time_ns
        for place in self._dropping:
            self.nodes[place].dropped += nodes[place].handler.dropped
        if counters:
            _add_gained(self.counters, counters, begun[1])

    def now(self) -> tuple[list[NodeTotal], dict[str, int]]:
        """`nodes` and `counters`, including the runs that are still going on.

        No number is ever smaller than in an earlier call.
        """
        nodes = [each.copy() for each in self.nodes]
        counters = dict(self.counters)
        for run, (live, before) in tuple(self._running.items()):
            for total, node in zip(nodes, run.scheduler.nodes, strict=True):
                total.calls += node.calls
                total.time_ns += node.time_ns
            for place in self._dropping:
                nodes[place].dropped += run.scheduler.nodes[place].handler.dropped
            if live:
                _add_gained(counters, dict(live), before)
        return nodes, counters

    def queued(self) -> list[int]:
        """The number of packets that wait in the inputs of each node now, over all runs."""
        lengths = [0] * len(self.nodes)
        for run in tuple(self._running):
            for place, node in enumerate(run.scheduler.nodes):
                lengths[place] += sum(len(stream.queue) for stream in node.inputs)
        return lengths


def _add_gained(
    totals: dict[str, int], counters: Mapping[str, Counter], before: Mapping[str, int]
) -> None:
    for name, counter in counters.items():
        totals[name] = totals.get(name, 0) + counter.value - before.get(name, 0)
