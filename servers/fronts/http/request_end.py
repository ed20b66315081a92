"""The end of an HTTP request, for the log and for traces."""

from __future__ import annotations

from aiohttp import web

from calculators.kit.tasks import TaskEndpoint
from servers.fronts.http.exchange import Exchange
from servers.fronts.http.routes import VIEWS, Endpoint, Route
from servers.operations.request_log import RequestEnd

_MODEL = "/v2/models/{model}"
_NAMES = {
    Endpoint.MODEL: "/v3/models/{model}",
    Endpoint.PAGE: "/page/{file}",
    Endpoint.METADATA: _MODEL,
    Endpoint.MODEL_READY: f"{_MODEL}/ready",
    Endpoint.INFER: f"{_MODEL}/infer",
    Endpoint.GENERATE: f"{_MODEL}/generate",
    Endpoint.GENERATE_STREAM: f"{_MODEL}/generate_stream",
    Endpoint.LOAD: "/v2/repository/models/{model}/load",
    Endpoint.UNLOAD: "/v2/repository/models/{model}/unload",
    Endpoint.GRAPH_VIEW: "/v1/graphs/{model}",
    Endpoint.NODE_VIEW: "/v1/graphs/{model}/nodes/{node}",
    Endpoint.REQUEST_VIEW: "/v1/requests/{id}",
    Endpoint.FOLLOW: "/v1/graphs/{model}/follow",
    Endpoint.FILE: "/v1/files/{id}",
    Endpoint.FILE_CONTENT: "/v1/files/{id}/content",
    Endpoint.BATCH: "/v1/batches/{id}",
    Endpoint.BATCH_CANCEL: "/v1/batches/{id}/cancel",
}
_PROBED = frozenset({"/metrics", "/livez", "/readyz", "/health", "/ping"})
_LIVE = "/v1/live"
#: Statuses of views that are not worth a line: 499 is a client that has looked enough.
_FINE = (200, 202, 499)
# A line in the log would cost as much as a small inference.
_QUIET = "/v2/models/"


def request_end(
    exchange: Exchange, path: str, status: int, response_bytes: int, *, is_traced: bool
) -> RequestEnd:
    """Return how a request ended. ``path`` has no query, where people put keys.

    The fields for traces only are left out without a trace: they cost more than the rest.
    """
    request = exchange.request
    route = exchange.route
    is_view = route is not None and route.endpoint in VIEWS and status in _FINE
    return RequestEnd(
        protocol="http",
        method=request.method,
        path=path,
        route=route_name(path, route, exchange.endpoint),
        status=status,
        is_failure=status >= 500,
        is_quiet=is_view or is_probe(path) or (status == 200 and path.startswith(_QUIET)),
        is_watching=path == _LIVE,
        scheme=request.scheme if is_traced else "",
        request_bytes=request.content.total_bytes,
        response_bytes=response_bytes,
    )


def is_probe(path: str) -> bool:
    """Return whether monitoring polls this path."""
    return path.startswith("/v2/health/") or path in _PROBED


def route_name(path: str, route: Route | None, endpoint: TaskEndpoint | None) -> str:
    """Return the path with placeholders for names that clients choose; "" if nothing is served."""
    if route is None:
        return ""
    if route.endpoint is Endpoint.GRAPH:
        return path if endpoint is not None else f"{path[:3]}/{{path}}"
    return _NAMES.get(route.endpoint, path)


def body_length(response: web.StreamResponse) -> int:
    """Return the bytes of a body that aiohttp writes; others count in their connection."""
    body = response.body if isinstance(response, web.Response) else None
    return len(body) if isinstance(body, bytes) else 0
