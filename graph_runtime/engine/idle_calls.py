"""Calls of `Calculator.on_idle`, before a run in which nothing can happen any more ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graph_runtime.engine.states import NodeState

if TYPE_CHECKING:
    from graph_runtime.authoring.context import CalculatorContext
    from graph_runtime.engine.flow import Flow
    from graph_runtime.engine.node import Node


class IdleCalls:
    """Gives nodes a call when nothing runs and nothing can. Guarded by the graph's lock.

    A node that has been called is called again only after a further ``process``, so the run ends.
    """

    def __init__(self, nodes: Sequence[Node], idle_nodes: Sequence[int]) -> None:
        """``idle_nodes``: ids of the nodes with an ``on_idle``, in the order of the graph."""
        self._nodes = [nodes[node_id] for node_id in idle_nodes]
        #: Per node id, the number of its calls after its last call of ``on_idle``.
        self._counts: dict[int, int] = {}

    def push_next(self, flow: Flow) -> bool:
        """Queue the call of the first node that is due; False if none is."""
        for node in self._nodes:
            number = node.plan.node_id
            # The first call is that of open().
            if (
                node.state is NodeState.OPENED
                and not node.is_parallel
                and node.calls > max(1, self._counts.get(number, 0))
            ):
                self._counts[number] = node.calls + 1
                node.context.call = _call_once
                flow.push(node, node.context)
                return True
        return False


def _call_once(context: CalculatorContext) -> Any:
    """Call ``on_idle``; the calls that follow are of ``process`` again."""
    calculator = context._node.calculator
    context.call = calculator.process
    return calculator.on_idle(context)
