"""The OpenAPI document that was made when the server started."""

from __future__ import annotations

import hashlib

from aiohttp import web

from servers.fronts.http.errors import HttpError
from servers.fronts.http.exchange import Exchange


class PublishedDocument:
    """Answers with the document, or with 304 to a client that has it."""

    def __init__(self, content: bytes) -> None:
        """``content``: JSON; empty if there is no document."""
        self._content = content
        self._tag = hashlib.sha256(content).hexdigest()[:32]

    def answer(self, exchange: Exchange) -> web.Response:
        """Return the document or 304.

        Raises:
            HttpError: 404, there is no document.
        """
        if not self._content:
            raise HttpError(404, "this server has no OpenAPI document")
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
