"""Requests to graphs: under ``/v3/`` and ``/v1/``, and at the whole paths that tasks have."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from aiohttp import web

from calculators.kit.requests.http_answer import ResponsePacket
from calculators.kit.requests.http_payload import HttpPayload, Messages
from calculators.kit.requests.multipart_form import MultipartForm
from calculators.kit.tasks import TaskEndpoint, tasks_at
from servers.access.access import KEY_HEADERS
from servers.contract.data_plane import DataPlane, Method
from servers.fronts.http.body import read_json
from servers.fronts.http.browser_guard import BrowserGuard
from servers.fronts.http.deadline import TIMEOUT, limit_time, limit_time_by
from servers.fronts.http.errors import HttpError
from servers.fronts.http.exchange import Exchange
from servers.fronts.http.form_body import FORM, has_form, read_form
from servers.fronts.http.form_texts import front_members
from servers.fronts.http.graph_answer import answer_from_packets
from servers.fronts.http.message_stream import KEY_PROTOCOL, MessageStream, wants_socket
from servers.fronts.http.routes import may_stream, nothing_at
from servers.fronts.http.settings import HttpSettings

# Nothing is served under a longer name, so similar names are not searched for.
MAX_MODEL_CHARS = 1024
#: Members of a request that the events of an answer depend on.
_OF_EVENTS = ("model", "stream_options")


class GraphRequests:
    """Runs the graphs that requests name, and answers with their packets."""

    def __init__(self, data_plane: DataPlane, settings: HttpSettings, guard: BrowserGuard) -> None:
        self._data_plane = data_plane
        self._settings = settings
        self._guard = guard
        self._sockets = 0

    async def answer(self, exchange: Exchange, path: str) -> web.StreamResponse:
        """Answer one request.

        Raises:
            Exception: nothing has been sent; the answer is `http_error` of it.
        """
        endpoint = exchange.endpoint
        if endpoint is not None and endpoint.is_socket:
            return await self._answer_socket(exchange, path, endpoint)
        limit_time(exchange, self._settings.request_seconds)
        request = exchange.request
        body, value, form = b"", None, None
        if request.method != "POST":
            members = _query_members(request)
        elif (endpoint is None or endpoint.takes_form) and has_form(request):
            # A page of any site may send a form without asking first.
            self._guard.check_page(request.headers)
            form = await read_form(request, self._settings, exchange.hold)
            members = front_members(form)
        else:
            body, value = await self._read_json(exchange, path, endpoint)
            members = value
        if members.get("model") is None and endpoint is None:
            # The request names no graph, so there is none to answer at this path.
            raise HttpError(404, f"{nothing_at(path)}; to call a graph, name it as model")
        model = self._model_of(members, path, endpoint, request.method)
        exchange.record.model = model
        if TIMEOUT in members:
            limit_time_by(exchange, members[TIMEOUT])
        streams = may_stream(path) if endpoint is None else endpoint.streams
        is_stream = streams and _wants_stream(members)
        payload = self._payload(exchange, body, value, form)
        # A list, out of which the graph takes the payload: else this would keep it.
        run = partial(self._run, model, Method.STREAM if is_stream else Method.UNARY, [payload])
        events_of = None
        if is_stream and endpoint is not None and endpoint.events_of is not None:
            kept = {name: members[name] for name in _OF_EVENTS if name in members}
            events_of = partial(endpoint.events_of, kept)
        # A parsed body is several times as large as the body: only the graph should hold it.
        del body, value, form, members, payload
        return await answer_from_packets(
            exchange, exchange.error_form, run, is_stream=is_stream, events_of=events_of
        )

    async def _answer_socket(
        self, exchange: Exchange, path: str, endpoint: TaskEndpoint
    ) -> web.StreamResponse:
        # It lasts as long as it is used; only the client's own limit counts.
        limit_time(exchange, 0)
        request = exchange.request
        model = self._model_of(_query_members(request), path, endpoint, request.method)
        exchange.record.model = model
        if request.method != "GET" or not wants_socket(request):
            headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
            raise HttpError(426, "this path is a WebSocket's", headers=headers)
        # Browsers let a page of any site open one.
        self._guard.check_page(request.headers)
        if self._sockets >= self._settings.max_sockets:
            raise HttpError(503, "too many WebSockets are open", headers={"Retry-After": "1"})
        self._sockets += 1
        try:
            stream = MessageStream(exchange, self._settings)
            payload = self._payload(exchange, b"", None, None, stream)
            run = partial(self._run, model, Method.STREAM, [payload])
            del payload
            return await stream.answer(run)
        finally:
            self._sockets -= 1

    async def _read_json(
        self, exchange: Exchange, path: str, endpoint: TaskEndpoint | None
    ) -> tuple[bytes, dict[str, Any]]:
        request = exchange.request
        takes_form = endpoint is None or endpoint.takes_form
        types = f"application/json or {FORM}" if takes_form else "application/json"
        try:
            body, value = await read_json(request, self._settings, exchange.hold, types=types)
        except HttpError as error:
            is_for_a_graph = request.body_exists and error.status != 415
            if endpoint is None and not is_for_a_graph:
                raise HttpError(404, nothing_at(path)) from None
            raise
        if not isinstance(value, dict):
            raise HttpError(400, "the body must be a JSON object")
        return body, value

    def _model_of(
        self, members: dict[str, Any], path: str, endpoint: TaskEndpoint | None, method: str
    ) -> str:
        model = members.get("model")
        if model is None:
            if endpoint is None or (method == "POST" and endpoint.needs_model):
                text = "the body has no model: name one that is served"
                raise HttpError(400, text, param="model")
            model = self._only_model(path, method)
        if not isinstance(model, str) or not model:
            text = "model must be the name of a model, as a string"
            raise HttpError(400, text, param="model")
        if len(model) > MAX_MODEL_CHARS:
            raise HttpError(404, "no such model", param="model", code="model_not_found")
        return model

    def _only_model(self, path: str, method: str) -> str:
        """Return the only model of the tasks that answer a path.

        Raises:
            HttpError: 404, there is none; 400, there are several.
        """
        tasks = tasks_at(path)
        models = self._data_plane.models()
        names = [each.name for each in models if each.task in tasks and not each.parent]
        if len(names) == 1:
            return names[0]
        if not names:
            text = "no model that answers this path is served"
            raise HttpError(404, text, param="model", code="model_not_found")
        place = "model" if method == "POST" else "?model="
        text = f"{len(names)} models answer this path: name one of them as {place}"
        raise HttpError(400, text, param="model")

    def _payload(
        self,
        exchange: Exchange,
        body: bytes,
        value: Any,
        form: MultipartForm | None,
        messages: Messages | None = None,
    ) -> HttpPayload:
        request = exchange.request
        headers = dict(zip(map(str.lower, request.headers), request.headers.values(), strict=True))
        headers["x-request-id"] = exchange.request_id
        if self._settings.access.keys is not None:
            for name in (*KEY_HEADERS, KEY_PROTOCOL):  # keys are for this server, not for the graph
                headers.pop(name, None)
        payload = HttpPayload(
            request.raw_path,
            headers,
            body,
            value,
            exchange.client,
            exchange.record,
            form=form,
            method="GET" if request.method == "HEAD" else request.method,
            messages=messages,
        )
        if exchange.hold.counted:
            weakref.finalize(payload, exchange.hold.release)
        return payload

    async def _run(
        self,
        model: str,
        method: Method,
        payload: list[HttpPayload],
        emit: Callable[[ResponsePacket], None],
    ) -> None:
        """Run the graph once, with the only payload of a list."""
        servable = await self._data_plane.resolve(model, method)
        await servable.answer(payload.pop(), emit)


def _query_members(request: web.BaseRequest) -> dict[str, Any]:
    """Return the members that a request without a body has in its query."""
    models = request.query.getall("model", [])
    if len(models) > 1:
        raise HttpError(400, "the query has model more than once", param="model")
    return {"model": models[0]} if models else {}


def _wants_stream(members: dict[str, Any]) -> bool:
    stream = members.get("stream")
    if stream is None:
        return False
    if not isinstance(stream, bool):
        raise HttpError(400, "stream must be true or false", param="stream")
    return stream
