"""A server that listens nowhere, for the requests of batches in its own process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from servers.batch_work.line_client import LineClient
from servers.server.lifecycle import Server, ServerSettings


@asynccontextmanager
async def inner_client(settings: ServerSettings, width: int) -> AsyncIterator[LineClient]:
    """Start a server, and yield a client of it. The server ends with the context.

    Args:
        settings: with HTTP, without addresses.
        width: connections at a time.
    """
    server = Server(settings)
    await server.start()
    try:
        await server.load()
        client = LineClient(server.take, width)
        try:
            yield client
        finally:
            await client.close()
    finally:
        await server.stop()
