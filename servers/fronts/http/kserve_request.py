"""POST requests under ``/v2/``: inferences, and loading of models."""

from __future__ import annotations

from functools import lru_cache, partial

from aiohttp import web

from calculators.kit.requests.request_record import name_model
from calculators.kit.tasks import ErrorForm
from calculators.tensors.inference import InferRequest, InferResponse
from servers.contract.data_plane import DataPlane, Method
from servers.fronts.http.body import read_beside
from servers.fronts.http.event_answer import answer_in_events
from servers.fronts.http.event_stream import EventStream
from servers.fronts.http.exchange import Exchange
from servers.fronts.http.generated_events import GeneratedEvents
from servers.fronts.http.kserve_body import parse_kserve_json, read_kserve_json, read_tensors
from servers.fronts.http.routes import Endpoint, Route
from servers.fronts.http.settings import HttpSettings
from servers.fronts.http.whole_answer import send_whole
from servers.fronts.kserve_rest import (
    RequestLayout,
    check_load,
    check_unload,
    decode_generate,
    decode_index,
    encode_generated,
    encode_index,
    encode_response,
    read_layout,
)

_JSON = {"Content-Type": "application/json"}
# Requests of one client to one model often differ in their binary data only. Reading the JSON is a
# third of the front's work for a small request, so the layouts of recent requests are cached.
_LONGEST_KNOWN = 2048
_KNOWN = 256


class KserveRequests:
    """Answers the requests of one front."""

    def __init__(self, data_plane: DataPlane, settings: HttpSettings) -> None:
        self._data_plane = data_plane
        self._settings = settings
        self._known_layout = lru_cache(maxsize=_KNOWN)(self._layout)

    async def answer(self, exchange: Exchange, route: Route) -> web.StreamResponse:
        """Infer, generate, or change what is loaded.

        Raises:
            Exception: nothing has been sent; the answer is `http_error` of it.
        """
        name_model(route.model)
        match route.endpoint:
            case Endpoint.INFER:
                return await self._infer(exchange, route)
            case Endpoint.GENERATE | Endpoint.GENERATE_STREAM:
                return await self._generate(exchange, route)
            case _:
                return await self._manage(exchange, route)

    async def _infer(self, exchange: Exchange, route: Route) -> web.StreamResponse:
        head, tail = await read_tensors(exchange.request, self._settings, exchange.hold)
        is_usual = tail and len(head) <= _LONGEST_KNOWN
        find = self._known_layout if is_usual else self._layout
        layout = await read_beside(head, partial(find, head))
        request = layout.fill(tail, model=route.model, version=route.version)
        response = await self._infer_once(request, exchange)
        answer = encode_response(response, layout.binary)
        return await send_whole(exchange, answer.headers, (answer.head, *(answer.tensors or ())))

    async def _infer_once(self, request: InferRequest, exchange: Exchange) -> InferResponse:
        servable = await self._data_plane.resolve(request.model, Method.INFER, request.version)
        return await servable.infer(request, exchange.client)

    def _layout(self, head: bytes) -> RequestLayout:
        return read_layout(parse_kserve_json(head, self._settings))

    async def _generate(self, exchange: Exchange, route: Route) -> web.StreamResponse:
        plane = self._data_plane
        value = await read_kserve_json(exchange.request, self._settings, exchange.hold)
        inputs = await plane.inputs_of(route.model, route.version)
        asked = decode_generate(value, inputs, model=route.model, version=route.version)
        if route.endpoint is Endpoint.GENERATE:
            body = encode_generated(await self._infer_once(asked, exchange))
            return await send_whole(exchange, _JSON, (body,))

        async def run(stream: EventStream) -> None:
            events = GeneratedEvents(stream)
            servable = await plane.resolve(asked.model, Method.INFER_STREAM, asked.version)
            async with servable.open_stream(asked, exchange.client, events.emit) as requests:
                await events.follow(requests, asked)

        return await answer_in_events(exchange, ErrorForm.KSERVE, run)

    async def _manage(self, exchange: Exchange, route: Route) -> web.StreamResponse:
        value = await read_kserve_json(
            exchange.request, self._settings, exchange.hold, may_be_empty=True
        )
        match route.endpoint:
            case Endpoint.INDEX:
                entries = self._data_plane.index()
                body = encode_index(entries, ready_only=decode_index(value))
                return await send_whole(exchange, _JSON, (body,))
            case Endpoint.LOAD:
                check_load(value)
                await self._data_plane.load(route.model)
            case Endpoint.UNLOAD:
                check_unload(value)
                await self._data_plane.unload(route.model)
            case _:
                raise AssertionError(f"{route.endpoint} is none of KServe's")
        return web.Response(headers=exchange.headers)
