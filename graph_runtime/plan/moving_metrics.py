"""`MovingMetrics`: the metrics of a resource, published for the node that has the resource now."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Generic, TypeVar

from graph_runtime.authoring.metrics import (
    NO_LABELS,
    SECONDS,
    MetricCounter,
    MetricGauge,
    MetricHistogram,
    NodeMetrics,
)

M = TypeVar("M")


class MovingMetrics:
    """A `NodeMetrics`, and a `GraphMetrics` of that one node, over the metrics of a node.

    After `move_to` everything that was made here publishes for another node: a resource that
    outlives a reload need not know that its node has a new name. Earlier counts stay with the node
    for which they were counted.
    """

    def __init__(self, node: NodeMetrics) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._made: list[_Counter | _Gauge | _Histogram] = []

    def of_node(self, name: str) -> NodeMetrics:
        return self

    def counter(self, name: str, help: str, labels: Mapping[str, str] = NO_LABELS) -> MetricCounter:
        return self._add(_Counter(lambda node: node.counter(name, help, labels), self._node))

    def gauge(self, name: str, help: str, labels: Mapping[str, str] = NO_LABELS) -> MetricGauge:
        return self._add(_Gauge(lambda node: node.gauge(name, help, labels), self._node))

    def histogram(
        self,
        name: str,
        help: str,
        labels: Mapping[str, str] = NO_LABELS,
        *,
        bounds: Sequence[float] = SECONDS,
    ) -> MetricHistogram:
        return self._add(
            _Histogram(lambda node: node.histogram(name, help, labels, bounds=bounds), self._node)
        )

    def move_to(self, node: NodeMetrics) -> None:
        """Publish for ``node`` from now on."""
        with self._lock:
            if node is self._node:
                return
            self._node = node
            for metric in self._made:
                metric.move_to(node)

    def _add(self, metric: _A) -> _A:
        with self._lock:
            self._made.append(metric)
        return metric


class _Metric(Generic[M]):
    """A metric of the present node."""

    def __init__(self, make: Callable[[NodeMetrics], M], node: NodeMetrics) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._metric = make(node)

    def move_to(self, node: NodeMetrics) -> None:
        with self._lock:
            self._metric = self._make(node)


class _Followed:
    """A function that a metric follows. ``end`` stops it."""

    def __init__(self, read: Callable[[], float], end: Callable[[], None]) -> None:
        self.read = read
        self.end = end


class _Counter(_Metric[MetricCounter]):
    def __init__(self, make: Callable[[NodeMetrics], MetricCounter], node: NodeMetrics) -> None:
        super().__init__(make, node)
        self._followed: list[_Followed] = []

    def add(self, amount: float = 1) -> None:
        self._metric.add(amount)

    def follow(self, read: Callable[[], float]) -> Callable[[], None]:
        with self._lock:
            followed = _Followed(read, self._metric.follow(read))
            self._followed.append(followed)
        return partial(self._end, followed)

    def move_to(self, node: NodeMetrics) -> None:
        super().move_to(node)
        with self._lock:
            for each in self._followed:
                each.end()
                # Its counts until now are the other node's.
                each.end = self._metric.follow(partial(_since, each.read, each.read()))

    def _end(self, followed: _Followed) -> None:
        with self._lock:
            if followed in self._followed:
                self._followed.remove(followed)
                followed.end()


class _Gauge(_Metric[MetricGauge]):
    def __init__(self, make: Callable[[NodeMetrics], MetricGauge], node: NodeMetrics) -> None:
        super().__init__(make, node)
        self._level = 0.0
        self._followed: _Followed | None = None

    def set(self, value: float) -> None:
        with self._lock:
            self._level = value
            self._metric.set(value)

    def add(self, amount: float) -> None:
        with self._lock:
            self._level += amount
            self._metric.add(amount)

    def follow(self, read: Callable[[], float]) -> Callable[[], None]:
        with self._lock:
            followed = self._followed = _Followed(read, self._metric.follow(read))
        return partial(self._end, followed)

    def move_to(self, node: NodeMetrics) -> None:
        with self._lock:
            before, self._metric = self._metric, self._make(node)
            followed = self._followed
            if followed is not None:
                # First, because another resource may have moved to the gauge that is left.
                end, followed.end = followed.end, self._metric.follow(followed.read)
                end()
            elif self._level:
                before.add(-self._level)
                self._metric.add(self._level)

    def _end(self, followed: _Followed) -> None:
        with self._lock:
            followed.end()
            if self._followed is followed:
                self._followed = None


class _Histogram(_Metric[MetricHistogram]):
    def observe(self, value: float) -> None:
        self._metric.observe(value)


_A = TypeVar("_A", _Counter, _Gauge, _Histogram)


def _since(read: Callable[[], float], begin: float) -> float:
    return read() - begin
