"""POST requests under ``/v2/``: inferences, and loading of models.

A body is JSON, followed by binary data of tensors, and perhaps compressed. The binary data is
copied twice: aiohttp's parser makes ``bytes`` of each piece from the socket, and the pieces are
joined here. The arrays of a request are views of the joined body, which is laid out so that the
first tensor is aligned. A tensor that is not aligned, because it follows one of an odd size, is
copied again.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache, partial
from typing import Any

import numpy as np
from aiohttp import web

from calculators.kit.requests.request_record import name_model
from calculators.kit.tasks import ErrorForm
from calculators.tensors.inference import InferRequest, InferResponse
from servers.contract.data_plane import DataPlane, InferAnswer, InferFailure, InferStream, Method
from servers.fronts.body_room import (
    DEFLATE,
    GZIP,
    BodyHold,
    ContentTooLargeError,
    NotCompressedError,
    inflated,
)
from servers.fronts.http.answer_streams import EventStream
from servers.fronts.http.body import large_bodies, parse_json, read_beside, read_bytes, receive
from servers.fronts.http.errors import HttpError
from servers.fronts.http.exchange import Exchange, answer_in_events, send_whole
from servers.fronts.http.routes import Endpoint, Route
from servers.fronts.http.settings import HttpSettings
from servers.fronts.kserve_rest.generate_codec import decode_generate, encode_generated
from servers.fronts.kserve_rest.inference_codec import (
    LENGTH_HEADER,
    RequestLayout,
    check_load,
    check_unload,
    decode_index,
    encode_index,
    encode_response,
    read_layout,
    split_body,
)

# As KServe's clients send them.
_WINDOW_BITS = {"gzip": GZIP, "x-gzip": GZIP, "deflate": DEFLATE}


async def decompressed(body: bytes, encoding: str, limit: int, hold: BodyHold) -> bytes:
    """Return the content of a body with a ``Content-Encoding``.

    Raises:
        RequestError: UNAVAILABLE, there is no room for the content in time.
        HttpError: 413, the content is larger than ``limit`` bytes; 415, the encoding is neither
            gzip nor deflate; 400, the body is not encoded as ``encoding`` says.
    """
    window_bits = _WINDOW_BITS.get(encoding)
    if window_bits is None:
        raise HttpError(415, "the only Content-Encodings of a body here are gzip and deflate")
    try:
        return await inflated(body, window_bits, limit, hold, large_bodies)
    except NotCompressedError:
        text = "the body is not encoded as its Content-Encoding says"
        raise HttpError(400, text) from None
    except ContentTooLargeError:
        raise HttpError(413, f"the body's content is larger than {limit} bytes") from None


_TYPES = ("application/json", "application/octet-stream")
# Smaller bodies mostly arrive in one piece, which needs no joining.
_MANY_PIECES = 64 * 1024
_ALIGNMENT = 16
_ADVICE = "send tensors as binary data"


async def read_kserve_json(
    request: web.BaseRequest,
    settings: HttpSettings,
    hold: BodyHold,
    *,
    may_be_empty: bool = False,
) -> Any:
    """Read and parse a JSON body. Return None if it is empty and ``may_be_empty``.

    Raises:
        HttpError: 400, 408, 413, 415.
        RequestError: UNAVAILABLE, there is no room for it in time.
        ConnectionError: the client went.
    """
    _check_type(request)
    body = await _read(request, settings, settings.max_body_bytes, hold)
    if may_be_empty and not body:
        return None
    return await read_beside(body, partial(parse_kserve_json, bytes(body), settings))


async def read_tensors(
    request: web.BaseRequest, settings: HttpSettings, hold: BodyHold
) -> tuple[bytes, memoryview]:
    """Read a body; return its JSON, not parsed yet, and the binary data after it.

    Raises:
        HttpError: 400, 408, 413, 415.
        RequestError: UNAVAILABLE, there is no room for it in time; INVALID_ARGUMENT, the header
            with the length of the JSON is wrong.
        ConnectionError: the client went.
    """
    _check_type(request)
    limit = max(settings.max_body_bytes, settings.max_tensor_body_bytes)
    body = await _read(request, settings, limit, hold)
    head, tail = split_body(body, request.headers.get(LENGTH_HEADER))
    if len(head) > settings.max_body_bytes:
        limit = settings.max_body_bytes
        raise HttpError(413, f"the JSON is larger than {limit} bytes; {_ADVICE}")
    return head, tail


def parse_kserve_json(head: bytes, settings: HttpSettings) -> Any:
    """Parse the JSON of a body.

    Raises:
        HttpError: 400.
    """
    return parse_json(
        head,
        max_depth=settings.max_json_depth,
        max_elements=settings.max_tensor_json_elements,
        advice=_ADVICE,
    )


def _check_type(request: web.BaseRequest) -> None:
    """Refuse requests that a web page could send without a preflight request.

    No other client is refused: KServe's clients name JSON in many ways, or not at all.
    """
    headers = request.headers
    if "Origin" in headers:
        media = headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if media not in _TYPES:
            raise HttpError(415, f"the Content-Type must be {' or '.join(_TYPES)}")


async def _read(
    request: web.BaseRequest, settings: HttpSettings, limit: int, hold: BodyHold
) -> bytes | memoryview:
    encoding = request.headers.get("Content-Encoding", "identity").lower()
    if encoding != "identity":
        body = await read_bytes(request, settings, limit, hold)
        return await decompressed(body, encoding, limit, hold)
    size = request.content_length
    if size is None or size <= _MANY_PIECES or size > limit:
        return await read_bytes(request, settings, limit, hold)
    whole = _WholeRequest(size, request.headers.get(LENGTH_HEADER, ""))
    await receive(request, settings, limit, whole.take, hold)
    return whole.content()


class _WholeRequest:
    """A buffer for a large body of known size. Memory that is not written yet takes no space."""

    def __init__(self, size: int, json_length: str) -> None:
        head = int(json_length) if json_length.isdecimal() and len(json_length) < 10 else 0
        self._start = self._end = -head % _ALIGNMENT
        self._memory = np.empty(self._start + size, np.uint8).data

    def take(self, piece: bytes) -> None:
        end = self._end + len(piece)
        self._memory[self._end : end] = piece
        self._end = end

    def content(self) -> memoryview:
        return self._memory[self._start : self._end].toreadonly()


class GeneratedEvents:
    """Sends answers until one cannot be sent; then the run is ended."""

    def __init__(self, stream: EventStream) -> None:
        self._stream = stream
        self._failure: Exception | None = None
        self._patience: asyncio.Timeout | None = None

    def emit(self, answer: InferAnswer) -> None:
        """Send one answer."""
        if self._failure is not None:
            return
        try:
            if isinstance(answer, InferFailure):
                raise answer.error
            self._stream.emit(b"data: " + encode_generated(answer) + b"\n\n")
        except Exception as failure:
            self._failure = failure
            if self._patience is not None:
                self._patience.reschedule(0)

    async def follow(self, requests: InferStream, only: InferRequest) -> None:
        """Run with one request; return when the run is over.

        Raises:
            Exception: the run failed, or an answer cannot be expressed in JSON.
        """
        try:
            async with asyncio.timeout(None) as self._patience:
                await requests.send(only)
                requests.close_inputs()
                await requests.wait()
        except Exception:
            if self._failure is None:
                raise
        finally:
            self._patience = None
        if self._failure is not None:
            raise self._failure


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
