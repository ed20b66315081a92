"""Metrics of calculators: `graph_runtime.METRICS` in a server."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

from graph_runtime import NO_METRICS, MetricCounter, MetricGauge, MetricHistogram, NodeMetrics
from graph_runtime.authoring.metrics import NO_LABELS, SECONDS
from servers.operations.metrics.families import Families, Family
from servers.operations.metrics.series import Series

_log: Final = logging.getLogger(__name__)

S = TypeVar("S", bound=Series)

#: Series of one name, over all nodes. More result from labels that clients choose, a mistake.
SERIES_LIMIT: Final = 1000

#: Prefixes of other metrics on the same page.
_KEPT: Final = ("ovms_", "process_", "python_")
#: Labels that are set here, and the label of histograms.
_KEPT_LABELS: Final = frozenset({"graph", "node", "le"})


class GraphNodeMetrics:
    """The metrics of one graph: a `graph_runtime.GraphMetrics`, the service of `METRICS`."""

    def __init__(self, families: Families, graph: str, kept: frozenset[str]) -> None:
        """``kept``: names of the server's own families, which nodes cannot use."""
        self._families = families
        self._graph = graph
        self._kept = kept
        self._nodes: dict[str, NodeMetrics] = {}

    def of_node(self, name: str) -> NodeMetrics:
        found = self._nodes.get(name)
        if found is None:
            found = self._nodes[name] = _OneNode(self._families, self._graph, name, self._kept)
        return found


class _OneNode:
    """The metrics of one node: a `graph_runtime.NodeMetrics`."""

    def __init__(self, families: Families, graph: str, node: str, kept: frozenset[str]) -> None:
        self._families = families
        self._place = {"graph": graph, "node": node}
        self._kept = kept

    def counter(self, name: str, help: str, labels: Mapping[str, str] = NO_LABELS) -> MetricCounter:
        self._check(name.removesuffix("_total") + "_total")
        return self._of(self._families.counter(name, help), labels) or NO_METRICS.counter("", "")

    def gauge(self, name: str, help: str, labels: Mapping[str, str] = NO_LABELS) -> MetricGauge:
        self._check(name)
        return self._of(self._families.gauge(name, help), labels) or NO_METRICS.gauge("", "")

    def histogram(
        self,
        name: str,
        help: str,
        labels: Mapping[str, str] = NO_LABELS,
        *,
        bounds: Sequence[float] = SECONDS,
    ) -> MetricHistogram:
        self._check(name)
        family = self._families.histogram(name, help, bounds)
        return self._of(family, labels) or NO_METRICS.histogram("", "")

    def _check(self, name: str) -> None:
        if name in self._kept or name.startswith(_KEPT):
            raise ValueError(f'the metric "{name}" is one of the server\'s: choose another name')

    def _of(self, family: Family[S], labels: Mapping[str, str]) -> S | None:
        for label in labels:
            if label in _KEPT_LABELS or not label.isidentifier() or not label.isascii():
                raise ValueError(
                    f'the metric "{family.name}" cannot have the label "{label}": graph and node '
                    f"are set, and others are letters, digits and _"
                )
        all_labels = {**self._place, **labels}
        if len(family) >= SERIES_LIMIT and not family.has(all_labels):
            if not family.is_full:
                family.is_full = True
                _log.warning(
                    "the metric %r has %d series: others are not counted; its labels must have few "
                    "values",
                    family.name,
                    len(family),
                )
            return None
        return family.of(all_labels)
