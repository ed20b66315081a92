"""The queue of calls that can run on one executor, in MediaPipe's order.

First ``open`` calls, lower node ids first; then calls of other nodes, higher ids (downstream)
first; then sources: lower layer, smaller process order, lower id
(MediaPipe ``scheduler_queue.cc``).
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_runtime.authoring.context import CalculatorContext
    from graph_runtime.engine.node import Node


class ReadyQueue:
    """A priority queue of calls. Guarded by the graph's lock.

    Attributes:
        is_pumped: a driver's loop takes the calls, in the application's thread or event loop. A
            thread pool must be woken when its queue gets work.
        heap: keys (negated ids) of nodes that can run; the engine's hot path pushes here directly.
        opens: ids of nodes whose ``open`` waits, a heap.
        sources: (layer, order, id) of sources that can run, a heap.
        has_only_calls: no ``open`` waits and nothing is paused, so the heap alone decides.
        paused: no call may be taken for now.
        flush: `Driver.flush` of the run's driver, for contexts of the queue's nodes.
    """

    __slots__ = (
        "_contexts",
        "_paused",
        "executor",
        "flush",
        "has_only_calls",
        "heap",
        "is_pumped",
        "nodes",
        "opens",
        "sources",
    )

    def __init__(self, executor: str, is_pumped: bool) -> None:
        self.executor = executor
        self.is_pumped = is_pumped
        #: The nodes of this queue by their key in `heap`.
        self.nodes: dict[int, Node] = {}
        self.heap: list[int] = []
        self.opens: list[int] = []
        self.sources: list[tuple[int, int, int]] = []
        #: Contexts of parallel nodes that wait for a thread, oldest first.
        self._contexts: dict[int, list[CalculatorContext]] = {}
        self._paused = False
        self.has_only_calls = True
        self.flush: Callable[[CalculatorContext], None] = _flush_nothing

    @property
    def paused(self) -> bool:
        return self._paused

    @paused.setter
    def paused(self, paused: bool) -> None:
        self._paused = paused
        self.has_only_calls = not paused and not self.opens

    def __len__(self) -> int:
        return len(self.heap) + len(self.opens) + len(self.sources)

    def has_work(self, *, sources: bool) -> bool:
        """Return True if `pop` would return a call."""
        return not self._paused and bool(self.heap or self.opens or (sources and self.sources))

    def push_open(self, node: Node) -> None:
        """Queue the ``open`` of a node."""
        heappush(self.opens, -node.key)
        self.has_only_calls = False

    def push(self, node: Node, context: CalculatorContext) -> None:
        """Queue a call of a node that is not a source."""
        if node.is_parallel:
            self._contexts.setdefault(node.key, []).append(context)
        heappush(self.heap, node.key)

    def push_source(self, node: Node, order: int) -> None:
        """Queue the next call of a source, by its layer and process order."""
        heappush(self.sources, (node.plan.source_layer, order, -node.key))

    def pop(self, *, sources: bool = True) -> CalculatorContext | None:
        """Return the next call, or None."""
        if self._paused:
            return None
        if self.opens:
            node = self.nodes[-heappop(self.opens)]
            self.has_only_calls = not self.opens
            return node.context
        if self.heap:
            node = self.nodes[heappop(self.heap)]
            return self._contexts[node.key].pop(0) if node.is_parallel else node.context
        if self.sources and sources:
            return self.nodes[-heappop(self.sources)[2]].context
        return None

    def clear(self) -> None:
        """Forget everything, after a run."""
        self.nodes.clear()
        self.heap.clear()
        self.opens.clear()
        self.sources.clear()
        self._contexts.clear()
        self.has_only_calls = not self._paused
        self.flush = _flush_nothing


def _flush_nothing(context: CalculatorContext) -> None:
    """Do nothing: the run has not begun, or is over."""
