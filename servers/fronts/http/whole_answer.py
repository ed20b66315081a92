"""A whole answer with status 200, written without aiohttp's response.

`aiohttp.web.Response` costs as much as all other work of the front for an inference.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from aiohttp import web

from servers.fronts.http.answer_stream import SentResponse
from servers.fronts.http.exchange import Exchange
from servers.fronts.http.response_head import response_head
from servers.fronts.http.warning_header import with_warnings

# Up to this size one write of a copy costs less than several writes.
_IN_ONE_PIECE = 64 * 1024


async def send_whole(
    exchange: Exchange, fields: Mapping[str, str], pieces: Sequence[bytes | memoryview]
) -> web.StreamResponse:
    """Send a body in pieces, each when the client has read most of the data before it.

    Large pieces must not change any more: neither this function nor uvloop copies them. asyncio's
    own loop copies what the socket does not accept at once.

    Args:
        fields: headers besides the usual ones and the length.
    """
    client, connection = exchange.client, exchange.connection
    if not client.is_writable:  # it has not read the answer to its last request
        await client.writable()
    size = sum(map(len, pieces))
    fields = {**fields, "Content-Length": str(size)}
    headers = exchange.headers
    if exchange.record.warnings:
        headers = with_warnings(headers, exchange.record.warnings)
    head = response_head(fields, headers, keeps_alive=exchange.keeps_alive)
    connection.head_bytes += len(head)
    if size <= _IN_ONE_PIECE:
        connection.send(b"".join((head, *pieces)))
        return SentResponse()
    connection.send(head)
    try:
        for piece in pieces:
            if not client.is_writable:
                await client.writable()
            connection.send(piece)
    except asyncio.CancelledError:
        connection.abort()  # nothing else may follow a part of the body
        raise
    return SentResponse()
