"""An HTTP request of a client that may leave at any time, in any manner."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from enum import StrEnum
from random import Random
from typing import Final

from tests.reliability.asked import BUSY, Asked

_SECONDS: Final = 120.0


class Leaving(StrEnum):
    """Ways in which a client ends its request."""

    WHOLE = "reads all"
    CLOSES = "closes in the middle"
    VANISHES = "resets in the middle"
    HALF = "sends half of it"
    SILENT = "connects and says nothing"


class Broken(Exception):
    """An answer that is not as it should be."""


async def exchange(port: int, asked: Asked, leaving: Leaving, random: Random) -> str:
    """Send a request on a connection of its own; return the status, or how the client left.

    Raises:
        Broken: there is no answer, or it is not whole though it was read to its end.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(_SECONDS):
            return await _exchange(reader, writer, asked, leaving, random)
    except TimeoutError:
        raise Broken(f"{asked.kind}: no end after {_SECONDS:g} s") from None
    finally:
        if leaving is Leaving.VANISHES:
            _reset(writer)
        writer.close()


async def _exchange(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    asked: Asked,
    leaving: Leaving,
    random: Random,
) -> str:
    if leaving is Leaving.SILENT:
        await asyncio.sleep(random.uniform(0.0, 2.0))
        return leaving
    request = _request(asked)
    if leaving is Leaving.HALF:
        writer.write(request[: random.randrange(len(request))])
        await asyncio.sleep(random.uniform(0.0, 1.0))
        return leaving
    writer.write(request)
    if leaving is not Leaving.WHOLE:
        await asyncio.wait({asyncio.ensure_future(_read_some(reader, random))}, timeout=20.0)
        return leaving
    try:
        received = await reader.read()
    except ConnectionError as error:
        raise Broken(f"{asked.kind}: {error}") from error
    status, body = _answer(asked.kind, received)
    if status == 200:
        try:
            asked.check(body)
        except (AssertionError, KeyError, ValueError) as error:
            raise Broken(f"{asked.kind}: {error}") from error
    elif status not in BUSY:
        raise Broken(f"{asked.kind}: {status} {body[:300]!r}")
    return str(status)


async def _read_some(reader: asyncio.StreamReader, random: Random) -> None:
    for _ in range(random.choice((0, 1, 1, 2, 5, 20))):
        if not await reader.read(1024):
            return


def _request(asked: Asked) -> bytes:
    body = json.dumps(asked.body).encode()
    head = (
        f"POST {asked.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _answer(kind: str, received: bytes) -> tuple[int, bytes]:
    """Read status and body.

    Raises:
        Broken: the answer is cut off.
    """
    head, end, body = received.partition(b"\r\n\r\n")
    if not end or not head.startswith(b"HTTP/1.1 "):
        raise Broken(f"{kind}: an answer of {len(received)} bytes: {received[:100]!r}")
    fields = head.lower().split(b"\r\n")
    if b"transfer-encoding: chunked" in fields:
        body = _dechunked(kind, body)
    else:
        length = next(int(each[16:]) for each in fields if each.startswith(b"content-length: "))
        if length != len(body):
            raise Broken(f"{kind}: {len(body)} of {length} bytes")
    return int(head[9:12]), body


def _dechunked(kind: str, body: bytes) -> bytes:
    pieces: list[bytes] = []
    while True:
        length, end, body = body.partition(b"\r\n")
        if not end:
            raise Broken(f"{kind}: the last chunk is missing after {b''.join(pieces)[-100:]!r}")
        if not int(length, 16):
            return b"".join(pieces)
        pieces.append(body[: int(length, 16)])
        body = body[int(length, 16) + 2 :]


def _reset(writer: asyncio.StreamWriter) -> None:
    """Make closing send a reset instead of the end of the stream, as if the client had crashed."""
    sock = writer.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
