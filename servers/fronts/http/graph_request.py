"""POST requests to graphs, under ``/v3/`` and ``/v1/``."""

from __future__ import annotations

import logging
import weakref
from typing import Any

from aiohttp import web

from calculators.requests.http_payload import HttpPayload
from calculators.requests.request_record import name_model
from calculators.tasks import ErrorForm
from servers.access.access import KEY_HEADERS
from servers.contract.data_plane import DataPlane, Method
from servers.fronts.http.body import read_json
from servers.fronts.http.deadline import limit_time_by
from servers.fronts.http.errors import HttpError
from servers.fronts.http.event_answer import answer_in_events
from servers.fronts.http.event_stream import EventStream
from servers.fronts.http.exchange import Exchange
from servers.fronts.http.routes import (
    error_form,
    may_stream,
    nothing_at,
    task_paths,
)
from servers.fronts.http.settings import HttpSettings
from servers.fronts.http.warning_header import with_warnings

_log = logging.getLogger(__name__)

# Nothing is served under a longer name, so similar names are not searched for.
MAX_MODEL_CHARS = 1024


async def answer_graph_request(
    exchange: Exchange, path: str, data_plane: DataPlane, settings: HttpSettings
) -> web.StreamResponse:
    """Run the graph that the body names, and answer with its packets.

    Raises:
        Exception: nothing has been sent; the answer is `http_error` of it.
    """
    request = exchange.request
    try:
        body, value = await read_json(request, settings, exchange.hold)
    except HttpError as error:
        is_for_a_graph = request.body_exists and error.status != 415
        if path not in task_paths() and not is_for_a_graph:
            raise HttpError(404, nothing_at(path)) from None
        raise
    if not isinstance(value, dict):
        raise HttpError(400, "the body must be a JSON object")
    if value.get("model") is None and path not in task_paths():
        # The request names no graph, so there is none to answer at this path.
        raise HttpError(404, f"{nothing_at(path)}; to call a graph, name it as model")
    model = _model_of(value)
    name_model(model)
    limit_time_by(exchange, value)
    is_stream = may_stream(path) and _wants_stream(value)
    headers = {name.lower(): text for name, text in request.headers.items()}
    headers["x-request-id"] = exchange.request_id
    if settings.access.keys is not None:
        for name in KEY_HEADERS:  # keys are for this server, not for the graph
            headers.pop(name, None)
    payload = HttpPayload(request.raw_path, headers, body, value, exchange.client)
    weakref.finalize(payload, exchange.hold.release)
    answering = (
        _stream(exchange, data_plane, model, payload, error_form(path))
        if is_stream
        else _unary(exchange, data_plane, model, payload)
    )
    # A parsed body is several times as large as the body: only the graph should hold it.
    del body, value, payload
    return await answering


def _model_of(value: dict[str, Any]) -> str:
    model = value.get("model")
    if model is None:
        raise HttpError(400, "the body has no model: name one that is served", param="model")
    if not isinstance(model, str) or not model:
        raise HttpError(400, "model must be the name of a model, as a string", param="model")
    if len(model) > MAX_MODEL_CHARS:
        raise HttpError(404, "no such model", param="model", code="model_not_found")
    return model


def _wants_stream(value: dict[str, Any]) -> bool:
    stream = value.get("stream")
    if stream is None:
        return False
    if not isinstance(stream, bool):
        raise HttpError(400, "stream must be true or false", param="stream")
    return stream


async def _unary(
    exchange: Exchange, data_plane: DataPlane, model: str, payload: HttpPayload
) -> web.StreamResponse:
    packets: list[str | bytes] = []
    kept = [payload]
    del payload
    servable = await data_plane.resolve(model, Method.UNARY)
    await servable.answer(kept.pop(), packets.append)
    if not packets:
        raise RuntimeError(f"the graph of model {model!r} gave no answer")
    if len(packets) > 1:
        _log.warning("the graph of model %r gave more than one packet to a unary request", model)
    packet = packets[0]
    answer = packet.encode("utf-8", "replace") if isinstance(packet, str) else packet
    headers = exchange.headers
    if exchange.record.warnings:
        headers = with_warnings(headers, exchange.record.warnings)
    return web.Response(body=answer, content_type="application/json", headers=headers)


async def _stream(
    exchange: Exchange, data_plane: DataPlane, model: str, payload: HttpPayload, form: ErrorForm
) -> web.StreamResponse:
    kept = [payload]
    del payload

    async def run(stream: EventStream) -> None:
        servable = await data_plane.resolve(model, Method.STREAM)
        await servable.answer(kept.pop(), stream.emit)
        if not stream.has_started:
            raise RuntimeError(f"the graph of model {model!r} gave no answer")

    return await answer_in_events(exchange, form, run)
