"""The one reader of request bodies: every route that takes a body calls it."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from servers.openai_http.errors import HttpError
from servers.openai_http.json_body import parse_json
from servers.openai_http.settings import HttpSettings

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


async def read_json(request: web.BaseRequest, settings: HttpSettings) -> tuple[bytes, Any]:
    """The body as sent, and parsed.

    Raises:
        HttpError: 400, 408, 413, 415, 417.
        ConnectionError: the client went.
    """
    _check_headers(request, settings.max_body_bytes)
    body = await _read(request, settings)
    value = parse_json(
        body, max_depth=settings.max_json_depth, max_elements=settings.max_json_elements
    )
    return body, value


def _check_headers(request: web.BaseRequest, max_bytes: int) -> None:
    headers = request.headers
    if headers.get("Content-Encoding", "identity").lower() != "identity":
        raise HttpError(400, "a body with a Content-Encoding is not accepted: send it as it is")
    content_type = headers.get("Content-Type", "")
    if content_type != "application/json":
        _check_content_type(content_type)
    length = request.content_length
    if length is not None and length > max_bytes:
        raise _too_large(max_bytes)


def _check_content_type(content_type: str) -> None:
    media, _, parameters = content_type.partition(";")
    if media.strip().lower() != "application/json":
        raise HttpError(415, "the body must have the Content-Type application/json")
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip('"').lower()
            if charset not in ("utf-8", "utf8"):
                raise HttpError(415, "JSON must be UTF-8: no other charset is accepted")


async def _read(request: web.BaseRequest, settings: HttpSettings) -> bytes:
    content = request.content
    limit = settings.max_body_bytes
    if request.headers.get("Expect") and request.transport is not None:
        request.transport.write(_CONTINUE)
    pieces: list[bytes] = []
    size = 0
    try:
        while not content.at_eof():
            if content.is_eof():
                piece = content.read_nowait()
            else:
                async with asyncio.timeout(settings.body_idle_seconds):
                    piece = await content.readany()
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            pieces.append(piece)
    except TimeoutError:
        raise HttpError(408, "the body did not arrive in time") from None
    except web.RequestPayloadError:
        raise HttpError(400, "the body is not encoded as its headers say") from None
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _too_large(limit: int) -> HttpError:
    return HttpError(413, f"the body is larger than {limit} bytes")
