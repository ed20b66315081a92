"""The one reader of request bodies: every route that takes a body gets it through `receive`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

from aiohttp import StreamReader, web

from calculators.kit.child_process.fair_turns import FairTurns
from servers.fronts.body_room import SLOW_SECONDS, BodyHold
from servers.fronts.http.errors import HttpError
from servers.fronts.http.json_body import parse_json
from servers.fronts.http.settings import HttpSettings

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# Reading a longer body takes milliseconds, and 8 MiB some tens. One is read at a time, because
# many that arrive together would block the loop for seconds.
SHORT = 64 * 1024
large_bodies = FairTurns()
T = TypeVar("T")


async def read_json(
    request: web.BaseRequest,
    settings: HttpSettings,
    hold: BodyHold,
    *,
    types: str = "application/json",
) -> tuple[bytes, Any]:
    """Read a JSON body; return it as sent, and parsed.

    ``types``: the Content-Types that the path takes, for the error about another one.

    Raises:
        HttpError: 400, 408, 413, 415, 417.
        RequestError: UNAVAILABLE, there is no room for it in time.
        ConnectionError: the client went.
    """
    if "Content-Encoding" in request.headers:
        check_encoding(request)
    content_type = request.headers.get("Content-Type", "")
    if content_type != "application/json":
        _check_content_type(content_type, types)
    body = await read_bytes(request, settings, settings.max_body_bytes, hold)
    depth, elements = settings.max_json_depth, settings.max_json_elements
    parse = partial(parse_json, body, max_depth=depth, max_elements=elements)
    return body, await read_beside(body, parse)


async def read_beside(body: bytes | memoryview, read: Callable[[], T]) -> T:
    """Call what reads a body: for a long one in a thread, one at a time.

    The thread leaves the interpreter to the loop between two steps of `read`.

    Raises:
        Exception: as ``read``.
    """
    if len(body) <= SHORT:
        return read()
    async with large_bodies.turn(float(len(body))):
        begin = perf_counter()
        reading = asyncio.get_running_loop().run_in_executor(None, read)
        try:
            try:
                await asyncio.wait([reading])
            except asyncio.CancelledError:
                await asyncio.wait([reading])  # the turn is over when the thread is
                reading.exception()
                raise
            # Leave the loop to others for as long as the steps have blocked it.
            await asyncio.sleep(perf_counter() - begin)
            return reading.result()
        finally:
            del reading  # its error has this frame in its traceback: a cycle would keep the body


async def read_bytes(
    request: web.BaseRequest, settings: HttpSettings, limit: int, hold: BodyHold
) -> bytes:
    """Read a body.

    Raises:
        HttpError: 400, 408, 413.
        RequestError: UNAVAILABLE, there is no room for it in time.
        ConnectionError: the client went.
    """
    pieces: list[bytes] = []
    await receive(request, settings, limit, pieces.append, hold)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


async def receive(
    request: web.BaseRequest,
    settings: HttpSettings,
    limit: int,
    take: Callable[[bytes], object],
    hold: BodyHold,
) -> None:
    """Pass a body of at most ``limit`` bytes to ``take``, each piece when there is room for it.

    Raises:
        HttpError: 400, 408, 413.
        RequestError: UNAVAILABLE, there is no room for it in time.
        ConnectionError: the client went.
    """
    content = request.content
    length = request.content_length
    if length is not None and length > limit:
        raise _too_large(limit)
    if length is None:
        coding = request.headers.get("Transfer-Encoding", "chunked")
        if coding.strip().lower() != "chunked":
            raise HttpError(400, "the only Transfer-Encoding of a body here is chunked")
    if request.headers.get("Expect") and request.transport is not None:
        request.transport.write(_CONTINUE)
    size = 0
    loop = asyncio.get_running_loop()
    hold.began = loop.time()
    since = loop.time() + settings.body_idle_seconds
    try:
        has_more = True
        while has_more:
            if content.is_eof():
                has_more = False
                piece = content.read_nowait()
            else:
                due = since + size / settings.min_body_rate
                idle = loop.time() + settings.body_idle_seconds
                piece = await _next_piece(content, min(due, idle), hold, loop)
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            take(piece)
            missing = hold.add(len(piece))
            if missing:
                waits = loop.time()
                await hold.wait(missing)
                waited = loop.time() - waits
                since += waited
                hold.began += waited
        hold.end()
    except TimeoutError:
        raise HttpError(408, "the body did not arrive in time") from None
    except web.RequestPayloadError:
        raise HttpError(400, "the body is not encoded as its headers say") from None


async def _next_piece(
    content: StreamReader, until: float, hold: BodyHold, loop: asyncio.AbstractEventLoop
) -> bytes:
    """Return the next piece of a body.

    Raises:
        HttpError: 408, the body arrives too slowly and others wait for its room.
        TimeoutError: the piece did not arrive in time.
    """
    while True:
        gives_way = hold.began + SLOW_SECONDS
        if loop.time() >= gives_way:
            if hold.is_in_the_way:
                raise HttpError(408, "the body arrives too slowly, and others wait for its room")
            gives_way = loop.time() + 1
        try:
            async with asyncio.timeout_at(min(until, gives_way)):
                return await content.readany()
        except TimeoutError:
            if loop.time() >= until:
                raise


def check_encoding(request: web.BaseRequest) -> None:
    """Refuse a compressed body.

    Raises:
        HttpError: 400.
    """
    if request.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise HttpError(400, "a body with a Content-Encoding is not accepted: send it without")


def _check_content_type(content_type: str, types: str) -> None:
    media, _, parameters = content_type.partition(";")
    if media.strip().lower() != "application/json":
        raise HttpError(415, f"the body must have the Content-Type {types}")
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = value.strip().strip('"').lower()
            if charset not in ("utf-8", "utf8"):
                raise HttpError(415, "JSON must be UTF-8: no other charset is accepted")


def _too_large(limit: int) -> HttpError:
    return HttpError(413, f"the body is larger than {limit} bytes")
