"""A whole answer with status 200, written at once: what aiohttp's own response takes longer for.

`aiohttp.web.Response` costs as much as all that an inference's front does besides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from aiohttp import web

from servers.fronts.http.event_stream import SentResponse
from servers.fronts.http.exchange import Exchange
from servers.fronts.http.response_head import response_head

# Up to here one write of a copy costs less than several.
_IN_ONE_PIECE = 64 * 1024


async def send_whole(
    exchange: Exchange, fields: Mapping[str, str], pieces: Sequence[bytes | memoryview]
) -> web.StreamResponse:
    """Send a body in pieces, each when the client has taken most of what was before it.

    Large pieces are not copied here: uvloop sends from them, and copies nothing either; asyncio's
    own loop copies what the socket does not take at once. They must not change any more.

    Args:
        fields: headers besides those of every answer, and besides the length.
    """
    client, connection = exchange.client, exchange.connection
    if not client.is_writable:  # it has not read the answer to its last request
        await client.writable()
    size = sum(map(len, pieces))
    head = response_head(exchange, {**fields, "Content-Length": str(size)})
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
        connection.abort()  # nothing else may stand where the rest should
        raise
    return SentResponse()
