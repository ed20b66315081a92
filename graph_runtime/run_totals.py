"""`RunTotals`: what the runs of one graph add up to, node by node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from graph_runtime.context import Counter
    from graph_runtime.plan import ValidatedGraph
    from graph_runtime.run import Run


_NONE: Final[Mapping[str, int]] = {}


class NodeTotal:
    """``calls`` of open, process and close; their time; packets that its input handler dropped."""

    __slots__ = ("calls", "dropped", "name", "time_ns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.time_ns = 0
        self.dropped = 0


class RunTotals:
    """Give it to graphs of one plan with `CalculatorGraph.count_into`.

    Whoever gives it to graphs of several threads may miss some of what they do at the same time.

    Attributes:
        nodes: one for each node, in the order of the plan; only runs that have ended count.
        counters: what calculators counted with ``cc.get_counter``, by ``<node>-<name>``.
    """

    def __init__(self, plan: ValidatedGraph) -> None:
        self.nodes = [NodeTotal(node.name) for node in plan.nodes]
        self.counters: dict[str, int] = {}
        #: With the counters as they were at the start.
        self._running: dict[Run, Mapping[str, int]] = {}
        self._dropping = [
            place for place, node in enumerate(plan.nodes) if node.handler_class.may_drop
        ]

    def begin(self, run: Run, counters: Mapping[str, Counter]) -> None:
        """A run begins; ``counters``: of its graph."""
        self._running[run] = (
            {name: counter.value for name, counter in counters.items()} if counters else _NONE
        )

    def end(self, run: Run, counters: Mapping[str, Counter]) -> None:
        """It is over: what it did counts from now on."""
        before = self._running.pop(run, None)
        if before is None:
            return
        nodes = run.scheduler.nodes
        for total, node in zip(self.nodes, nodes):  # noqa: B905 (strict takes as long as all this)
            total.calls += node.calls
            total.time_ns += node.time_ns
        for place in self._dropping:
            self.nodes[place].dropped += nodes[place].handler.dropped
        if not counters:
            return
        for name, counter in counters.items():
            gained = counter.value - before.get(name, 0)
            self.counters[name] = self.counters.get(name, 0) + gained

    def queued(self) -> list[int]:
        """Packets that wait in the inputs of each node now, in all runs."""
        lengths = [0] * len(self.nodes)
        for run in tuple(self._running):
            for place, node in enumerate(run.scheduler.nodes):
                lengths[place] += sum(len(stream.queue) for stream in node.inputs)
        return lengths
