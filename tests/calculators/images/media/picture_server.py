"""A server of pictures on this machine that can misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

PICTURE: Final = b"a picture"


class PictureServer:
    """Handler state: the requests so far; ``port`` is the server's."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.port = 0
        self._may_end = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        match request.path:
            case "/redirect":
                raise web.HTTPFound(request.query["to"])
            case "/circle":
                raise web.HTTPTemporaryRedirect("/circle")
            case "/missing":
                raise web.HTTPNotFound
            case "/slow":
                await self._may_end.wait()
            case "/endless":
                return await self._endless(request)
            case _:
                pass
        return web.Response(body=PICTURE)

    async def _endless(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(bytes(1000))

    def end(self) -> None:
        """Release the slow answers."""
        self._may_end.set()


@asynccontextmanager
async def picture_server(host: str = "127.0.0.1") -> AsyncIterator[PictureServer]:
    """Run a server."""
    pictures = PictureServer()
    app = web.Application()
    app.router.add_get("/{path:.*}", pictures.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, host, 0)
    await site.start()
    pictures.port = runner.addresses[0][1]
    try:
        yield pictures
    finally:
        pictures.end()
        await runner.cleanup()
