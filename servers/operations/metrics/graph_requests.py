"""Metrics of the requests to one graph."""

from __future__ import annotations

from typing import NamedTuple

from servers.contract.data_plane import Method
from servers.operations.metrics.families import Family
from servers.operations.metrics.ovms_families import OvmsFamilies
from servers.operations.metrics.series import Counter, Gauge, Histogram

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

    accepted: Counter
    rejected: Counter
    responses: Counter
    errors: Counter
    cancelled: Counter
    time_us: Histogram


class LookupCounts(NamedTuple):
    """The counts of requests about a model, such as for its metadata."""

    success: Counter
    fail: Counter


class GraphRequests:
    """All series of a graph, with the value 0 from its start."""

    def __init__(self, name: str, ovms: OvmsFamilies, cancelled: Family[Counter]) -> None:
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
