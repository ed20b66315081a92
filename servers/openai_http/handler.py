"""From a request's headers to its answer: the one place where exceptions become answers."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from typing import Any

from aiohttp import web

from calculators.inference.place import quoted
from servers.data_plane import DataPlane, ModelDescription
from servers.error_text import clean
from servers.kserve_rest import describe_model
from servers.openai_http.browser_guard import BrowserGuard
from servers.openai_http.connection import HttpConnection
from servers.openai_http.errors import HttpError, http_error
from servers.openai_http.event_answer import log_cause
from servers.openai_http.exchange import Exchange
from servers.openai_http.graph_request import MAX_MODEL_CHARS, answer_graph_request
from servers.openai_http.kserve_request import KserveRequests
from servers.openai_http.request_id import request_id_of
from servers.openai_http.routes import (
    POST,
    Endpoint,
    ErrorForm,
    Route,
    error_form,
    find_route,
)
from servers.openai_http.settings import HttpSettings
from servers.product import NAME, version

_access_log = logging.getLogger("servers.openai_http.access")
_PREFLIGHT_SECONDS = "600"
_CROSS_ORIGIN_HEADERS = (
    "authorization, content-type, x-request-id, x-api-key, anthropic-version, anthropic-beta,"
    " inference-header-content-length"
)
# By Triton's names: what of its extensions to KServe's protocol is there.
_EXTENSIONS = ("binary_tensor_data", "generate", "model_repository", "parameters")
_VERSION = re.compile(r"[0-9]{1,18}", re.ASCII)


class Handler:
    """Answers every request of a front; `handle` is what aiohttp calls."""

    def __init__(self, data_plane: DataPlane, settings: HttpSettings) -> None:
        self._data_plane = data_plane
        self._settings = settings
        self._guard = BrowserGuard(settings)
        self._kserve = KserveRequests(data_plane, settings)
        self.is_draining = False

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Never raises but for a client that is gone."""
        connection = request.protocol
        task = asyncio.current_task()
        assert isinstance(connection, HttpConnection)
        assert task is not None
        request_id = request_id_of(request.headers.get("X-Request-Id"))
        exchange = Exchange(request, connection, request_id, task)
        path = request.raw_path.partition("?")[0]
        if error_form(path) is ErrorForm.ANTHROPIC:
            exchange.headers["Request-Id"] = request_id  # where Anthropic's clients look for it
        started = connection.loop.time()
        status = 499  # nginx's word for a client that went before its answer
        connection.begin(exchange)
        try:
            response = await self._answer(exchange, path)
            status = response.status
        finally:
            exchange.client.forget()
            connection.finish()
            _log_access(request, path, status, connection.loop.time() - started, request_id)
        if not request.content.is_eof():
            exchange.keeps_alive = False  # what is left of the body is not worth reading
        if not exchange.keeps_alive:
            connection.is_last = True
            response.force_close()
        return response

    async def _answer(self, exchange: Exchange, path: str) -> web.StreamResponse:
        try:
            try:
                return await self._dispatch(exchange, path)
            except asyncio.CancelledError as cancellation:
                raise exchange.reason_of(cancellation) from None
        except Exception as raised:
            if exchange.client.is_disconnected:
                raise asyncio.CancelledError from None
            error = http_error(raised, exchange.request_id)
            log_cause(error, exchange.request_id)
            return _error_response(exchange, path, error)

    async def _dispatch(self, exchange: Exchange, path: str) -> web.StreamResponse:
        request = exchange.request
        _check_request_line(request)
        self._guard.check(request.headers)
        exchange.headers.update(self._guard.cors_headers(request.headers))
        route = find_route(path)
        if route is None:
            raise HttpError(404, "nothing is served at this path")
        if request.method == "OPTIONS":
            return _options(exchange, route)
        if request.method not in route.methods:
            raise HttpError(
                405,
                f"the method must be {' or '.join(route.methods)} here",
                headers={"Allow": _allowed(route)},
            )
        if route.endpoint is Endpoint.GRAPH:
            return await answer_graph_request(exchange, path, self._data_plane, self._settings)
        if path.startswith("/v2/"):
            _check_names(route)
        if route.methods == POST:
            return await self._kserve.answer(exchange, route)
        return self._look_up(exchange, route)

    def _look_up(self, exchange: Exchange, route: Route) -> web.StreamResponse:
        match route.endpoint:
            # The bodies are what KServe's own server says, and its client wants to hear.
            case Endpoint.LIVE:
                return _json(exchange, {"live": True})
            case Endpoint.READY:
                if self.is_draining or not self._data_plane.is_ready:
                    raise HttpError(503, "the server is not ready")
                return _json(exchange, {"ready": True})
            case Endpoint.SERVER:
                return _json(
                    exchange,
                    {"name": NAME, "version": version(), "extensions": _EXTENSIONS},
                )
            case Endpoint.METADATA:
                metadata = self._data_plane.metadata(route.model, route.version)
                return _json(exchange, describe_model(metadata))
            case Endpoint.MODEL_READY:
                is_ready = self._data_plane.is_model_ready(route.model, route.version)
                if self.is_draining or not is_ready:
                    raise HttpError(503, "the model is not ready")
                return web.Response(headers=exchange.headers)
            case Endpoint.STATUSES:
                return _json(exchange, self._data_plane.statuses())
            case Endpoint.MODELS:
                models = [_model_object(model) for model in self._data_plane.models()]
                return _json(exchange, {"object": "list", "data": models})
            case Endpoint.MODEL:
                for model in self._data_plane.models():
                    if model.name == route.model:
                        return _json(exchange, _model_object(model))
                raise HttpError(404, "no such model", param="model", code="model_not_found")
            case Endpoint.METRICS:
                raise HttpError(404, "metrics are not served")
            case _:
                raise AssertionError(f"{route.endpoint} is not looked up")


def _check_request_line(request: web.BaseRequest) -> None:
    if not (1, 0) <= request.version <= (1, 1):
        raise HttpError(505, "only HTTP/1.0 and HTTP/1.1 are spoken here")
    if not request.raw_path.startswith("/"):
        raise HttpError(400, "the request's target must be a path: this is no proxy")
    expect = request.headers.get("Expect")
    if expect is not None and expect.lower() != "100-continue":
        raise HttpError(417, "the only Expect that is met is 100-continue")


def _check_names(route: Route) -> None:
    """Refuse what no model and no version is called, before anybody searches for it."""
    if len(route.model) > MAX_MODEL_CHARS:
        raise HttpError(404, "no such model")
    if route.version and _VERSION.fullmatch(route.version) is None:
        raise HttpError(
            404, f"there is no version {clean(quoted(route.version))}: versions are whole numbers"
        )


def _allowed(route: Route) -> str:
    return ", ".join((*route.methods, "OPTIONS"))


def _options(exchange: Exchange, route: Route) -> web.Response:
    headers = {**exchange.headers, "Allow": _allowed(route)}
    if "Access-Control-Allow-Origin" in headers:
        headers["Access-Control-Allow-Methods"] = _allowed(route)
        headers["Access-Control-Allow-Headers"] = _CROSS_ORIGIN_HEADERS
        headers["Access-Control-Max-Age"] = _PREFLIGHT_SECONDS
    return web.Response(status=204, headers=headers)


def _json(exchange: Exchange, value: object) -> web.Response:
    return web.Response(
        body=json.dumps(value).encode(),
        content_type="application/json",
        headers=exchange.headers,
    )


def _error_response(exchange: Exchange, path: str, error: HttpError) -> web.Response:
    return web.Response(
        status=error.status,
        body=error.body(error_form(path), exchange.request_id),
        content_type="application/json",
        headers={**exchange.headers, **error.headers},
    )


def _model_object(model: ModelDescription) -> dict[str, Any]:
    return {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": "graphrt",
    }


def _log_access(
    request: web.BaseRequest, path: str, status: int, seconds: float, request_id: str
) -> None:
    # The path without its query: people put keys there. ascii() shows escapes as text.
    # Health is asked for all the time, and a line costs as much as a small inference.
    is_usual = status == 200 and path.startswith(("/v2/health/", "/v2/models/"))
    level = logging.DEBUG if is_usual else logging.INFO
    if _access_log.isEnabledFor(level):
        shown = ascii(path[:256])[1:-1]
        _access_log.log(
            level, "%s %s %d %.1f ms %s", request.method, shown, status, seconds * 1e3, request_id
        )
