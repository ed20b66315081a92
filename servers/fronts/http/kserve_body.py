"""Bodies under ``/v2/``: JSON, binary data of tensors behind it, compressed if the client likes.

How often the binary data is copied: aiohttp's parser makes ``bytes`` of each piece that the socket
gave, and here these are put together. The arrays of a request are views of that. It is laid out so
that the first tensor is aligned; one that is not, behind a tensor of an odd size, is copied again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from aiohttp import web

from servers.fronts.http.body import read_bytes, receive
from servers.fronts.http.body_room import BodyHold
from servers.fronts.http.content_encoding import decompressed
from servers.fronts.http.errors import HttpError
from servers.fronts.http.json_body import parse_json
from servers.fronts.http.settings import HttpSettings
from servers.fronts.kserve_rest import LENGTH_HEADER, split_body

_TYPES = ("application/json", "application/octet-stream")
# Smaller bodies mostly come in one piece, which needs no putting together.
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
    """The parsed body; None when it is empty and may be.

    Raises:
        HttpError: 400, 408, 413, 415, 503.
        ConnectionError: the client went.
    """
    _check_type(request)
    body = await _read(request, settings, settings.max_body_bytes, hold)
    if may_be_empty and not body:
        return None
    return parse_kserve_json(bytes(body), settings)


async def read_tensors(
    request: web.BaseRequest, settings: HttpSettings, hold: BodyHold
) -> tuple[bytes, memoryview]:
    """The JSON of a body, not parsed yet, and the binary data behind it.

    Raises:
        HttpError: 400, 408, 413, 415, 503.
        RequestError: the header with the length of the JSON is wrong.
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
    """The value of a body's JSON.

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
    """Refuse what a web page could send to a server without asking it first.

    No other client is refused: KServe's ones name JSON in many ways, or not at all.
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
        return await decompressed(body, encoding, limit)
    size = request.content_length
    if size is None or size <= _MANY_PIECES or size > limit:
        return await read_bytes(request, settings, limit, hold)
    whole = _Whole(size, request.headers.get(LENGTH_HEADER, ""))
    await receive(request, settings, limit, whole.take, hold)
    return whole.content()


class _Whole:
    """A large body of a known size, put together piece by piece; untouched memory costs nothing."""

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
