"""Metrics of the requests to one plain model, by version."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from servers.contract.data_plane import Method
from servers.operations.metrics.families import Family
from servers.operations.metrics.graph_requests import (
    GRPC,
    KSERVE,
    METADATA,
    READY,
    REST,
    LookupCounts,
)
from servers.operations.metrics.ovms_families import OvmsFamilies
from servers.operations.metrics.series import Counter, Gauge, Histogram


class InferCounts(NamedTuple):
    """The counts of inferences over one front."""

    version: str
    current: Gauge
    success: Counter
    fail: Counter
    cancelled: Counter
    time_us: Histogram


class ModelRequests:
    """All series of a model, with the value 0 from the start of each version."""

    def __init__(self, name: str, ovms: OvmsFamilies, cancelled: Family[Counter]) -> None:
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
        return self._infer.get((self._asked(version), method, interface))

    def lookup(self, method: str, interface: str, version: str) -> LookupCounts | None:
        if method == READY:
            return self._ready[interface]
        return self._metadata.get((self._asked(version), interface))

    def _asked(self, version: str) -> str:
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
