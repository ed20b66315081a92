"""Bodies under ``/v2/``: JSON, followed by binary data of tensors; optionally compressed.

The binary data is copied twice: aiohttp's parser makes ``bytes`` of each piece from the socket, and
the pieces are joined here. The arrays of a request are views of the joined body, which is laid out
so that the first tensor is aligned. A tensor that is not aligned, because it follows one of an odd
size, is copied again.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from aiohttp import web

from servers.fronts.body_room import BodyHold
from servers.fronts.http.body import read_beside, read_bytes, receive
from servers.fronts.http.content_encoding import decompressed
from servers.fronts.http.errors import HttpError
from servers.fronts.http.json_body import parse_json
from servers.fronts.http.settings import HttpSettings
from servers.fronts.kserve_rest import LENGTH_HEADER, split_body

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
    """Read a body; return its JSON, not parsed yet, and the binary data behind it.

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
    whole = _Whole(size, request.headers.get(LENGTH_HEADER, ""))
    await receive(request, settings, limit, whole.take, hold)
    return whole.content()


class _Whole:
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
