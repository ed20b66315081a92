"""The OpenAPI document, made for the first client that asks.

Most servers are never asked, and making it takes a tenth of a server's start.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from typing import TypeAlias

from aiohttp import web

from servers.fronts.http.errors import HttpError
from servers.fronts.http.exchange import Exchange

#: Makes the document as JSON; called in a thread.
MakeDocument: TypeAlias = Callable[[], bytes]


class PublishedDocument:
    """Answers with the document, or with 304 to a client that has it."""

    def __init__(self, make: MakeDocument | None) -> None:
        """``make``: None if there is no document."""
        self._make = make
        self._making = asyncio.Lock()
        self._content = b""
        self._tag = ""

    async def answer(self, exchange: Exchange) -> web.Response:
        """Return the document or 304.

        Raises:
            HttpError: 404, there is no document.
        """
        if self._make is None:
            raise HttpError(404, "this server has no OpenAPI document")
        async with self._making:
            if not self._content:
                self._content = await asyncio.to_thread(self._make)
                self._tag = hashlib.sha256(self._content).hexdigest()[:32]
        headers = {
            **exchange.headers,
            "ETag": f'"{self._tag}"',
            "Cache-Control": "no-cache",  # may be cached, and must be validated each time
        }
        if self._is_known(exchange.request):
            return web.Response(status=304, headers=headers)
        return web.Response(body=self._content, content_type="application/json", headers=headers)

    def _is_known(self, request: web.BaseRequest) -> bool:
        known = request.headers.get("If-None-Match", "").split(",")
        return any(tag.strip().removeprefix("W/") in ("*", f'"{self._tag}"') for tag in known)
