"""A reverse proxy that puts a server under a prefix of the path, as nginx's ``proxy_pass``."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import aiohttp
from aiohttp import web

#: Fields of a message that belong to one connection.
_OF_A_CONNECTION: Final = frozenset({"connection", "keep-alive", "transfer-encoding"})


@contextmanager
def behind_prefix(address: str, prefix: str) -> Iterator[str]:
    """Yield the address with the prefix; it ends with a slash."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    stop = asyncio.Event()
    begun: asyncio.Future[int] = loop.create_future()
    ended = asyncio.run_coroutine_threadsafe(_serve(address, prefix, begun, stop), loop)
    try:
        port = asyncio.run_coroutine_threadsafe(_value_of(begun), loop).result(60)
        yield f"http://127.0.0.1:{port}/{prefix}/"
    finally:
        loop.call_soon_threadsafe(stop.set)
        ended.result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)
        loop.close()


async def _value_of(begun: asyncio.Future[int]) -> int:
    return await begun


async def _serve(
    address: str, prefix: str, begun: asyncio.Future[int], stop: asyncio.Event
) -> None:
    async with aiohttp.ClientSession(auto_decompress=False) as client:

        async def pass_on(request: web.Request) -> web.StreamResponse:
            target = address + request.raw_path.removeprefix(f"/{prefix}/")
            sent = {name: value for name, value in request.headers.items() if _passes(name)}
            async with client.request(
                request.method, target, headers=sent, data=await request.read()
            ) as answer:
                headers = {name: value for name, value in answer.headers.items() if _passes(name)}
                response = web.StreamResponse(status=answer.status, headers=headers)
                await response.prepare(request)
                async for piece in answer.content.iter_any():
                    await response.write(piece)
                return response

        app = web.Application()
        app.router.add_route("*", f"/{prefix}/{{path:.*}}", pass_on)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        begun.set_result(runner.addresses[0][1])
        await stop.wait()
        await runner.cleanup()


def _passes(field: str) -> bool:
    return field.lower() not in _OF_A_CONNECTION
