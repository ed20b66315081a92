"""A file as an answer, read piece by piece as the client takes it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import BinaryIO

from aiohttp import web

from servers.batches.contents import open_content
from servers.fronts.http.answer_stream import SentResponse
from servers.fronts.http.exchange import Exchange
from servers.fronts.http.response_head import response_head

_PIECE = 256 * 1024


async def send_file(exchange: Exchange, path: Path, size: int) -> web.StreamResponse:
    """Send a file of JSON lines. ``size``: its bytes.

    Raises:
        ContentError: it cannot be read, or has another size.
    """
    file = await asyncio.to_thread(open_content, path, size)
    try:
        fields = {
            "Content-Type": "application/octet-stream",
            "Content-Disposition": f'attachment; filename="{path.name}"',
            "Content-Length": str(size),
        }
        if exchange.request.method == "HEAD":
            return web.Response(headers={**exchange.headers, **fields})
        await _send(exchange, file, size, fields)
    finally:
        file.close()
    return SentResponse()


async def _send(exchange: Exchange, file: BinaryIO, size: int, fields: dict[str, str]) -> None:
    client, connection = exchange.client, exchange.connection
    if not client.is_writable:
        await client.writable()
    connection.send(response_head(fields, exchange.headers, keeps_alive=exchange.keeps_alive))
    sent = 0
    try:
        while sent < size:
            piece = await asyncio.to_thread(file.read, min(_PIECE, size - sent))
            if not piece:
                raise ConnectionError("the file became shorter")
            if not client.is_writable:
                await client.writable()
            if client.is_disconnected:
                return
            connection.send(piece)
            sent += len(piece)
    except (asyncio.CancelledError, OSError):
        connection.abort()  # nothing else may follow a part of the body
        raise asyncio.CancelledError from None
