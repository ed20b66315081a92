"""Metrics of nodes: counters, gauges and histograms that the graph's host may publish.

A calculator asks for the service in its contract and for its metrics, once, in ``open``::

    class WordCounter(Calculator):
        @classmethod
        def update_contract(cls, contract: CalculatorContract) -> None:
            contract.use_service(METRICS)

        def open(self, cc: CalculatorContext) -> None:
            metrics = metrics_of(cc)
            self.words = metrics.counter("words", "Words that went by.")

        def process(self, cc: CalculatorContext) -> None:
            self.words.add(len(cc.inputs[0].value.split()))

A server publishes them with the labels ``graph`` and ``node``. Without a publisher they do nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from graph_runtime.authoring.service import GraphService

if TYPE_CHECKING:
    from graph_runtime.authoring.context import CalculatorContext

NO_LABELS: Final[Mapping[str, str]] = {}

#: Upper bounds of a histogram's buckets in seconds, from a millisecond to ten minutes.
SECONDS: Final[Sequence[float]] = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)


class MetricCounter(Protocol):
    """A number that only grows. Any thread may call it."""

    def add(self, amount: float = 1) -> None:
        """Add ``amount``, which must not be negative."""

    def follow(self, read: Callable[[], float]) -> Callable[[], None]:
        """Add the value of ``read``, which starts at 0 and only grows, from now on.

        ``read`` is called whenever the metrics are read; several can be followed at once. Call the
        returned function to stop; the count so far stays.
        """


class MetricGauge(Protocol):
    """A number that goes up and down. Any thread may call it."""

    def set(self, value: float) -> None:
        """Replace the value."""

    def add(self, amount: float) -> None:
        """Add ``amount``, which may be negative."""

    def follow(self, read: Callable[[], float]) -> Callable[[], None]:
        """Take the value of ``read`` from now on; it is called whenever the metrics are read.

        Call the returned function to stop: the gauge is 0 then, unless it follows another by now.
        """


class MetricHistogram(Protocol):
    """Counts of values in buckets. Any thread may call it."""

    def observe(self, value: float) -> None:
        """Count one value, in the metric's unit."""


class NodeMetrics(Protocol):
    """The metrics of one node. Asking twice for one name and labels returns the same metric.

    Names are Prometheus's, ``[a-zA-Z_][a-zA-Z0-9_]*``, with the unit at the end; a counter is
    shown with ``_total`` appended. ``help`` is a sentence for people. ``labels`` should have few
    values: after a thousand series of a name, new ones are not counted.

    Each raises `ValueError` if the name or a label is malformed, is reserved for the server, or
    belongs to a metric of another kind.
    """

    def counter(self, name: str, help: str, labels: Mapping[str, str] = NO_LABELS) -> MetricCounter:
        """A counter of this name and these labels."""

    def gauge(self, name: str, help: str, labels: Mapping[str, str] = NO_LABELS) -> MetricGauge:
        """A gauge of this name and these labels."""

    def histogram(
        self,
        name: str,
        help: str,
        labels: Mapping[str, str] = NO_LABELS,
        *,
        bounds: Sequence[float] = SECONDS,
    ) -> MetricHistogram:
        """A histogram; ``bounds`` are the rising upper bounds of its buckets, in the metric's unit.

        A bucket for larger values is added.
        """


class GraphMetrics(Protocol):
    """The metrics of one graph: the service object of `METRICS`."""

    def of_node(self, name: str) -> NodeMetrics:
        """Return the metrics of the node with this name."""


class _Nothing:
    """A metric of any kind that is not published."""

    def add(self, amount: float = 1) -> None:
        return

    def set(self, value: float) -> None:
        return

    def observe(self, value: float) -> None:
        return

    def follow(self, read: Callable[[], float]) -> Callable[[], None]:
        return _ignore


def _ignore() -> None:
    return


_NOTHING: Final = _Nothing()


class NoMetrics:
    """`GraphMetrics` and `NodeMetrics` that publish nothing."""

    def of_node(self, name: str) -> NodeMetrics:
        return self

    def counter(self, name: str, help: str, labels: Mapping[str, str] = NO_LABELS) -> MetricCounter:
        return _NOTHING

    def gauge(self, name: str, help: str, labels: Mapping[str, str] = NO_LABELS) -> MetricGauge:
        return _NOTHING

    def histogram(
        self,
        name: str,
        help: str,
        labels: Mapping[str, str] = NO_LABELS,
        *,
        bounds: Sequence[float] = SECONDS,
    ) -> MetricHistogram:
        return _NOTHING


NO_METRICS: Final = NoMetrics()

METRICS: Final = GraphService[GraphMetrics]("graphrt::Metrics", lambda: NO_METRICS)


def metrics_of(cc: CalculatorContext) -> NodeMetrics:
    """Return the metrics of this node; its contract must ask for `METRICS`."""
    return (cc.service(METRICS) or NO_METRICS).of_node(cc.node_name)
