"""Metrics of requests and runs: by graph, and by version of a plain model."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, TypeVar

from graph_runtime import GraphMetrics, RunTotals, ValidatedGraph
from servers.config.server_config import MetricsConfig
from servers.contract.data_plane import Method
from servers.operations.metrics.families import CounterFamily, Families, Family, Gauge, Histogram

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


_F = TypeVar("_F", Family[CounterFamily], Family[Gauge], Family[Histogram])

#: Upper bounds in microseconds, 10 to 1.5e9 (``src/model_metric_reporter.cpp``).
BUCKETS_US: Final = tuple(float(math.floor(10 * 1.8**power)) for power in range(33))


class OvmsFamilies:
    """The families. Those that the settings do not name are counted but not shown."""

    def __init__(self, families: Families, settings: MetricsConfig) -> None:
        self._families = families
        self._settings = settings
        # For plain models, and for lookups of graphs.
        self.success = self._counter(
            "ovms_requests_success", "Number of successful requests to a model or a DAG."
        )
        self.fail = self._counter(
            "ovms_requests_fail", "Number of failed requests to a model or a DAG."
        )
        self.request_time = self._histogram(
            "ovms_request_time_us", "Processing time of requests to a model or a DAG."
        )
        self.current_requests = self._gauge(
            "ovms_current_requests", "Number of inference requests currently in process."
        )
        self.streams = self._gauge("ovms_streams", "Number of OpenVINO execution streams.")
        self.inference_time = self._histogram(
            "ovms_inference_time_us", "Inference execution time in the OpenVINO backend."
        )
        self.wait_time = self._histogram(
            "ovms_wait_for_infer_req_time_us", "Request waiting time in the scheduling queue."
        )
        self.queue_size = self._gauge(
            "ovms_infer_req_queue_size", "Inference request queue size (nireq)."
        )
        self.active = self._gauge(
            "ovms_infer_req_active",
            "Number of currently consumed inference request from the processing queue.",
        )
        # For graphs.
        self.current_graphs = self._gauge(
            "ovms_current_graphs", "Number of MediaPipe graphs in process."
        )
        self.graph_loaded = self._gauge(
            "ovms_graph_loaded", "1 if the MediaPipe graph is loaded, 0 if it is unloaded."
        )
        self.accepted = self._counter(
            "ovms_requests_accepted",
            "Number of accepted requests which ended up inserting packet(s) into the MediaPipe "
            "graph.",
        )
        self.rejected = self._counter(
            "ovms_requests_rejected",
            "Number of rejected requests which did not end up being inserted into the MediaPipe "
            "graph.",
        )
        self.responses = self._counter(
            "ovms_responses", "Number of responses generated by the MediaPipe graph."
        )
        self.graph_error = self._counter(
            "ovms_graph_error", "Number of errors generated by the MediaPipe graph."
        )
        self.processing_time = self._histogram(
            "ovms_graph_processing_time_us", "Time packet spent in the MediaPipe graph."
        )

    def _counter(self, name: str, help: str) -> Family[CounterFamily]:
        return self._shown(self._families.counter(name, help, is_bare=True))

    def _gauge(self, name: str, help: str) -> Family[Gauge]:
        return self._shown(self._families.gauge(name, help))

    def _histogram(self, name: str, help: str) -> Family[Histogram]:
        return self._shown(self._families.histogram(name, help, BUCKETS_US))

    def _shown(self, family: _F) -> _F:
        family.is_shown = self._settings.shows(family.name)
        return family


#: Labels of OpenVINO Model Server for fronts and APIs.
GRPC = "gRPC"
REST = "REST"
KSERVE = "KServe"
V3 = "V3"

METADATA = "ModelMetadata"
READY = "ModelReady"

_CALLS = (
    (KSERVE, Method.INFER, GRPC),
    (KSERVE, Method.INFER_STREAM, GRPC),
    (KSERVE, Method.INFER, REST),
    (KSERVE, Method.INFER_STREAM, REST),
    (V3, Method.UNARY, REST),
    (V3, Method.STREAM, REST),
)


class CallCounts(NamedTuple):
    """The counts of one method over one front.

    Attributes:
        accepted: requests that reached the graph.
        rejected: requests that did not: an input does not fit, too many are in flight, the graph is
            not loaded.
        responses: packets of answers.
        errors: runs that failed.
        cancelled: requests whose client left, whose time limit was exceeded, or that the server's
            stop ended.
        time_us: the duration of each run.
    """

    accepted: CounterFamily
    rejected: CounterFamily
    responses: CounterFamily
    errors: CounterFamily
    cancelled: CounterFamily
    time_us: Histogram


class LookupCounts(NamedTuple):
    """The counts of requests about a model, such as for its metadata."""

    success: CounterFamily
    fail: CounterFamily


class GraphRequestMetrics:
    """All series of a graph, with the value 0 from its start."""

    def __init__(self, name: str, ovms: OvmsFamilies, cancelled: Family[CounterFamily]) -> None:
        self.current: Gauge = ovms.current_graphs.of({"name": name})
        #: By method and interface.
        self.calls: dict[tuple[Method, str], CallCounts] = {}
        for api, method, interface in _CALLS:
            labels = {"name": name, "api": api, "method": method, "interface": interface}
            self.calls[method, interface] = CallCounts(
                ovms.accepted.of(labels),
                ovms.rejected.of(labels),
                ovms.responses.of(labels),
                ovms.graph_error.of(labels),
                cancelled.of(labels),
                ovms.processing_time.of({"name": name, "method": method}),
            )
        self._lookups = {
            (method, interface): LookupCounts(ovms.success.of(labels), ovms.fail.of(labels))
            for method in (METADATA, READY)
            for interface in (GRPC, REST)
            for labels in ({"name": name, "api": KSERVE, "method": method, "interface": interface},)
        }

    def lookup(self, method: str, interface: str, version: str) -> LookupCounts:
        return self._lookups[method, interface]


class InferCounts(NamedTuple):
    """The counts of inferences over one front."""

    version: str
    current: Gauge
    success: CounterFamily
    fail: CounterFamily
    cancelled: CounterFamily
    time_us: Histogram


class ModelRequests:
    """All series of a model, with the value 0 from the start of each version."""

    def __init__(self, name: str, ovms: OvmsFamilies, cancelled: Family[CounterFamily]) -> None:
        self._name = name
        self._ovms = ovms
        self._cancelled = cancelled
        self._infer: dict[tuple[str, str, str], InferCounts] = {}
        self._metadata: dict[tuple[str, str], LookupCounts] = {}
        # Counted for all versions together, so without a label for the version.
        self._ready = {
            interface: self._lookup_counts(self._labels(READY, interface))
            for interface in (GRPC, REST)
        }
        #: The version for requests that name none; "" while there is none.
        self._default = ""
        self.versions: frozenset[str] = frozenset()

    def set_versions(self, versions: Iterable[str]) -> None:
        """Set the loaded versions. The caller drops the series of others."""
        self.versions = frozenset(version for version in versions if version)
        self._default = max(self.versions, key=int, default="")
        for key in [key for key in self._infer if key[0] not in self.versions]:
            del self._infer[key]
        for version, interface in list(self._metadata):
            if version not in self.versions:
                del self._metadata[version, interface]
        for version in self.versions:
            for interface in (GRPC, REST):
                self._infer_counts(version, Method.INFER, interface)
                self._infer_counts(version, Method.INFER_STREAM, interface)
                if (version, interface) not in self._metadata:
                    labels = {**self._labels(METADATA, interface), "version": version}
                    self._metadata[version, interface] = self._lookup_counts(labels)

    def infer(self, version: str, method: str, interface: str) -> InferCounts | None:
        """Return the counts; None if plain models have no such version or method."""
        return self._infer.get((self._counted_version(version), method, interface))

    def lookup(self, method: str, interface: str, version: str) -> LookupCounts | None:
        if method == READY:
            return self._ready[interface]
        return self._metadata.get((self._counted_version(version), interface))

    def _counted_version(self, version: str) -> str:
        return version if version in self.versions else self._default

    def _infer_counts(self, version: str, method: str, interface: str) -> None:
        key = (version, method, interface)
        if key in self._infer:
            return
        labels = {**self._labels(method, interface), "version": version}
        place = {"name": self._name, "version": version}
        self._infer[key] = InferCounts(
            version,
            self._ovms.current_requests.of(place),
            self._ovms.success.of(labels),
            self._ovms.fail.of(labels),
            self._cancelled.of(labels),
            self._ovms.request_time.of({**place, "interface": interface}),
        )

    def _lookup_counts(self, labels: dict[str, str]) -> LookupCounts:
        return LookupCounts(self._ovms.success.of(labels), self._ovms.fail.of(labels))

    def _labels(self, method: str, interface: str) -> dict[str, str]:
        return {"name": self._name, "api": KSERVE, "method": method, "interface": interface}
