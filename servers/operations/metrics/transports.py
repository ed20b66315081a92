"""Metrics of all requests: routes, statuses, times."""

from __future__ import annotations

from typing import Final

from servers.operations.metrics.families import Families
from servers.operations.metrics.series import Counter, Histogram
from servers.operations.request_log import RequestEnd

#: Upper bounds in seconds.
_SECONDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25),
    *(0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
_HTTP_METHODS: Final = frozenset({"GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH"})


class TransportCounts:
    """The counts of both fronts. Clients cannot choose values of labels, so there are few."""

    def __init__(self, families: Families) -> None:
        self._http = families.counter(
            "graphrt_http_requests_total", "HTTP requests by route, method and status."
        )
        self._http_seconds = families.histogram(
            "graphrt_http_request_seconds",
            "From a request's headers to the end of its answer.",
            _SECONDS,
        )
        self._grpc = families.counter(
            "graphrt_grpc_calls_total", "Calls over gRPC by method and status."
        )
        self._grpc_seconds = families.histogram(
            "graphrt_grpc_call_seconds", "From a call's begin to its status.", _SECONDS
        )
        self._known: dict[tuple[str, str, int | str], tuple[Counter, Histogram | None]] = {}

    def count(self, end: RequestEnd, seconds: float) -> None:
        key = (end.route, end.method, end.status)
        known = self._known.get(key)
        if known is None:
            known = self._known[self._safe(end)] = self._series(end)
        known[0].counted += 1
        if known[1] is not None:
            known[1].note(seconds)

    def _safe(self, end: RequestEnd) -> tuple[str, str, int | str]:
        """Return the key of the series. An HTTP method may be any word that a client sends."""
        return (end.route, self._method(end), end.status)

    def _series(self, end: RequestEnd) -> tuple[Counter, Histogram | None]:
        method = self._method(end)
        if end.protocol == "grpc":
            method = method.rpartition("/")[2] or method
            return (
                self._grpc.of({"method": method, "code": str(end.status)}),
                self._grpc_seconds.of({"method": method}),
            )
        route = end.route or "none"
        return (
            self._http.of({"route": route, "method": method, "code": str(end.status)}),
            # The length of a stream of what runs is that of its client's interest.
            None if end.is_watching else self._http_seconds.of({"route": route}),
        )

    def _method(self, end: RequestEnd) -> str:
        if end.protocol == "http" and end.method not in _HTTP_METHODS:
            return "other"
        return end.method
