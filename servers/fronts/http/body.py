"""The one reader of request bodies: every route that takes a body gets it through `receive`.

The one JSON parser of client bodies: strict, bounded, unambiguous.

python-rapidjson refuses comments, NaN, 1e999, lone surrogates and text after the document. But it
stops reading at a NUL, so NULs are replaced before parsing, and lets some numbers become infinite,
which is checked after it. It does not bound depth (its C stack) and keeps the last of duplicate
keys. So the body without its strings, the *skeleton*, is checked first: its brackets give the
depth, its colons the number of members.
Numbers are read in rapidjson's default mode: with NM_NATIVE, 9 % of random doubles are an ulp or
two off, and integers past 64 bits silently become floats.

Each step holds the GIL throughout, so in a thread the event loop waits for one: the limits on size
and elements bound it (measured: 30 us for 11 KB of chat, 20 to 80 ms for 8 MiB of text). Fractions
have no such bound: one that is nearly halfway between two doubles takes 3 us, and 200,000 of them
0.6 s. So where there are many, `json` reads the values after the check; it calls a function for
each, and there the loop has its turn. rapidjson takes twice as long for ``bytes``, so it gets a
``str``.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any, TypeVar

import rapidjson
from aiohttp import StreamReader, web

from calculators.kit.child_process.fair_turns import FairTurns
from calculators.kit.requests.http_payload import without_values
from servers.contract.failure import clean
from servers.fronts.body_room import SLOW_SECONDS, BodyHold
from servers.fronts.http.errors import HttpError
from servers.fronts.http.settings import HttpSettings

# No client needs a longer integer, and converting digits is quadratic in their number.
_MAX_DIGITS = 64
_LONG_NUMBER = b"0" * (_MAX_DIGITS + 1)
_DIGITS_TO_0 = bytes.maketrans(b"123456789", b"0" * 9)
_LONG_EXPONENT = re.compile(rb"[eE]\+?000")
_LARGE_NUMBER = re.compile(rb"[0-9]+(?:\.[0-9]+)?[eE]\+?[0-9]{3,}")
_PARSE_ERROR = re.compile(r"Parse error at offset (\d+): (.*)", re.DOTALL)
# A body with more fractions leaves the interpreter to other threads between two.
_MANY_FRACTIONS = 10_000
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_OPENING = b"[{"


def parse_json(body: bytes, *, max_depth: int, max_elements: int, advice: str = "") -> Any:
    """Parse ``body``.

    Args:
        advice: advice for a client that sends more than ``max_elements`` values.

    Raises:
        HttpError: 400; the text names the place, and repeats nothing of the body except a
            duplicate key.
    """
    if not body or body.isspace():
        raise HttpError(400, "the body is empty; it must be a JSON object")
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise HttpError(400, f"the body is not UTF-8: byte {error.start + 1}") from None
    if text[0] == "\ufeff":
        raise HttpError(400, "the body starts with a byte order mark; JSON has none")
    skeleton = _skeleton(body, max_elements, advice)
    if skeleton.count(b"[") + skeleton.count(b"{") > max_depth:
        _check_depth(skeleton, max_depth)
    zeros = skeleton.translate(_DIGITS_TO_0)
    if _LONG_NUMBER in zeros:
        raise HttpError(400, f"the body has a number of more than {_MAX_DIGITS} digits")
    if "\0" in text:
        # \1 is invalid wherever \0 is, and rapidjson reports it.
        text = text.replace("\0", "\1")
    members = 0

    def count(mapping: dict[str, Any]) -> dict[str, Any]:
        nonlocal members
        members += len(mapping)
        return mapping

    fractions = skeleton.count(b".") + skeleton.count(b"e") + skeleton.count(b"E")
    # Inexact numbers, which cost nothing, if the values are read again.
    mode = None if fractions <= _MANY_FRACTIONS else rapidjson.NM_NATIVE
    try:
        value = rapidjson.loads(text, object_hook=count, allow_nan=False, number_mode=mode)
    except ValueError as error:
        raise _syntax_error(body, error) from None
    if members != skeleton.count(b":"):
        # Of two values with one name parsers keep the first or the last: a proxy that checks
        # requests may have seen the other one.
        raise _duplicate_key(text)
    if mode is not None:
        # A Python function as `parse_float` makes `json` use its C scanner with a call for each
        # fraction, and at each call the interpreter may give the loop its turn.
        value = json.loads(text, parse_float=_read_float)
    if _LONG_EXPONENT.search(zeros) is not None:
        _check_finite(skeleton)
    return value


def _read_float(text: str) -> float:
    return float(text)


def _skeleton(body: bytes, max_elements: int, advice: str) -> bytes:
    """Return ``body`` without its strings: exact up to the point at which ``body`` is not JSON."""
    if b"\\" in body and b'\\"' in body:
        body = body.replace(b"\\\\", b"").replace(b'\\"', b"")
    # A string is a value or a member's name: at most two per element, with two quotes each.
    most_quotes = 4 * max_elements + 4
    pieces = body.split(b'"', most_quotes)
    if len(pieces) > most_quotes:
        raise _too_many(max_elements, advice)
    skeleton = b"".join(pieces[::2])
    if skeleton.count(b",") + skeleton.count(b"[") + skeleton.count(b"{") > max_elements:
        raise _too_many(max_elements, advice)
    return skeleton


def _check_depth(skeleton: bytes, max_depth: int) -> None:
    depth = 0
    for bracket in skeleton.translate(None, _NOT_BRACKETS):
        if bracket in _OPENING:
            depth += 1
            if depth > max_depth:
                raise HttpError(400, f"the body is nested deeper than {max_depth} levels")
        else:
            depth -= 1


def _check_finite(skeleton: bytes) -> None:
    """Refuse numbers that became infinite: rapidjson reports most of them, but not all."""
    if any(math.isinf(float(number)) for number in _LARGE_NUMBER.findall(skeleton)):
        raise HttpError(400, "the body is not valid JSON: number too big to be stored in double")


def _too_many(max_elements: int, advice: str) -> HttpError:
    text = f"the body has more than {max_elements} JSON values"
    return HttpError(400, f"{text}; {advice}" if advice else text)


def _syntax_error(body: bytes, error: ValueError) -> HttpError:
    found = _PARSE_ERROR.fullmatch(str(error))
    if found is None:
        return HttpError(400, "the body is not valid JSON")
    offset = int(found[1])
    line = body.count(b"\n", 0, offset) + 1
    column = offset - body.rfind(b"\n", 0, offset)
    reason = found[2].rstrip(".")
    if body[offset : offset + 1] < b" " and reason.startswith("Invalid encoding"):
        reason = "A control character in a string must be escaped"
    reason = reason[:1].lower() + reason[1:]
    said = f"the body is not valid JSON: line {line}, byte {column}: {reason}"
    return HttpError(400, said, detail=without_values(said.replace(":", ",")))


def _duplicate_key(text: str) -> HttpError:
    found: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        seen = set()
        for key, _ in pairs:
            if key in seen and not found:
                found.append(key)
            seen.add(key)

    json.loads(text, object_pairs_hook=look)
    key = clean(found[0][:64]) if found else ""
    return HttpError(400, f'the body has the key "{key}" twice in one object', param=key or None)


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
    types: str | None = "application/json",
) -> tuple[bytes, Any]:
    """Read a JSON body; return it as sent, and parsed.

    ``types``: the Content-Types that the path takes, for the error about another one; None: any.

    Raises:
        HttpError: 400, 408, 413, 415, 417.
        RequestError: UNAVAILABLE, there is no room for it in time.
        ConnectionError: the client went.
    """
    if "Content-Encoding" in request.headers:
        check_encoding(request)
    content_type = request.headers.get("Content-Type", "")
    if types is not None and content_type != "application/json":
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
    # In turns by client (decision 0019): one key with many long bodies delays another key's by one
    # of them.
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
    # aiohttp answers Expect in its router, which this front does not use.
    if request.headers.get("Expect") and request.transport is not None:
        request.transport.write(_CONTINUE)
    size = 0
    loop = asyncio.get_running_loop()
    hold.began = loop.time()
    since = loop.time() + settings.body_idle_seconds
    try:
        has_more = True
        while has_more:
            # A body that is all there needs no timer.
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
                # Room that other bodies take is not this client's delay.
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
            # Another body may begin to wait for the room at any moment.
            gives_way = loop.time() + 1
        try:
            async with asyncio.timeout_at(min(until, gives_way)):
                return await content.readany()
        except TimeoutError:
            if loop.time() >= until:
                raise


def has_json(request: web.BaseRequest) -> bool:
    """Return whether the body of a request is JSON, by its Content-Type."""
    content_type = request.headers.get("Content-Type", "")
    return content_type.partition(";")[0].strip().lower() == "application/json"


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
