"""Metrics of the runs of one loaded graph, by node."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from graph_runtime import GraphMetrics, RunTotals, ValidatedGraph
from servers.operations.metrics.families import Families

#: Counters of one graph that calculators make with ``cc.get_counter``; more are not shown.
_MOST_COUNTERS = 1000


class NodeFamilies:
    """The families for calls, time, queues and drops of nodes."""

    def __init__(self, families: Families) -> None:
        self.calls = families.counter(
            "graphrt_node_calls_total", "Calls of a node: open, process and close."
        )
        self.seconds = families.counter(
            "graphrt_node_seconds_total",
            "Time in the calls of a node, waiting of coroutines included.",
        )
        self.dropped = families.counter(
            "graphrt_node_dropped_packets_total",
            "Packets that the input handler of a node dropped because its queue was full.",
        )
        self.queued = families.gauge(
            "graphrt_node_queued_packets", "Packets that wait in the inputs of a node, of all runs."
        )
        self.counters = families.counter(
            "graphrt_graph_counter_total", "What calculators count with get_counter."
        )


class GraphRuns:
    """The metrics of one loaded graph, until `close`. During a reload two graphs count together.

    Attributes:
        service: `graph_runtime.METRICS` for its runs and resources.
        totals: the totals of its runs; see `CalculatorGraph.count_into`.
    """

    def __init__(
        self, name: str, plan: ValidatedGraph, families: NodeFamilies, service: GraphMetrics
    ) -> None:
        self.service = service
        self.totals = RunTotals(plan)
        self.name = name
        self._families = families
        #: Values at the last `look`, so that all lines of one text are of the same time.
        self._nodes, self._counters = self.totals.now()
        self._queued = [0] * len(self._nodes)
        self._known: set[str] = set()
        self._is_forgotten = False
        self._ends: list[Callable[[], None]] = []
        for place, total in enumerate(self._nodes):
            labels = {"graph": name, "node": total.name}
            self._ends += (
                families.calls.of(labels).follow(partial(self._calls, place)),
                families.seconds.of(labels).follow(partial(self._seconds, place)),
                families.dropped.of(labels).follow(partial(self._dropped, place)),
                families.queued.of(labels).follow(partial(self._queued.__getitem__, place)),
            )

    def look(self) -> None:
        """Update polled metrics, before the metrics are read."""
        if self._is_forgotten:
            return
        self._nodes, self._counters = self.totals.now()
        self._queued[:] = self.totals.queued()
        for name in self._counters:
            if name not in self._known and len(self._known) < _MOST_COUNTERS:
                self._known.add(name)
                series = self._families.counters.of({"graph": self.name, "counter": name})
                self._ends.append(series.follow(partial(self._counted, name)))

    def _calls(self, place: int) -> float:
        return self._nodes[place].calls

    def _seconds(self, place: int) -> float:
        return self._nodes[place].time_ns / 1e9

    def _dropped(self, place: int) -> float:
        return self._nodes[place].dropped

    def _counted(self, name: str) -> float:
        return self._counters[name]

    def forget(self) -> None:
        """Make no more series: they are dropped, although the last runs may continue."""
        self._is_forgotten = True

    def close(self) -> None:
        """Stop polling. Counts remain."""
        self.look()
        for end in self._ends:
            end()
        self._ends.clear()
