"""Reports of nodes that blocked the event loop, with their graphs, for ``/v1/config``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from graph_runtime import NodePlan
from servers.operations.loop_watchdog import Stall
from servers.serving.graph_definition import GraphDefinition
from servers.serving.servable import Servable


class StallReporter:
    """Names nodes for a `servers.operations.loop_watchdog.LoopWatchdog` and takes its reports.

    ``servables`` returns what is served now.
    """

    def __init__(self, servables: Callable[[], Sequence[Servable]]) -> None:
        self._servables = servables

    def name_of(self, node: NodePlan) -> str:
        """Return ``node "x" of graph "y"``. Safe in any thread."""
        graph = self._graph_of(node)
        return f'node "{node.name}"' + (f' of graph "{graph.name}"' if graph is not None else "")

    def note(self, stall: Stall) -> None:
        """Keep a stall beside the state of its graph until the graph is loaded again."""
        graph = self._graph_of(stall.node) if stall.node is not None else None
        if graph is not None and stall.node is not None:
            graph.hold_up = (
                f'its node "{stall.node.name}" held up the whole server for {stall.seconds:.0f} s, '
                f"until {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC; a calculator that computes for "
                f"long needs an executor, or to be a coroutine"
            )

    def _graph_of(self, node: NodePlan) -> GraphDefinition | None:
        for each in self._servables():
            if isinstance(each, GraphDefinition) and each.holds(node):
                return each
        return None
