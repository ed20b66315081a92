"""`HttpRequest`: a request as aiohttp's parser found it."""

from __future__ import annotations

import asyncio

from aiohttp import HttpVersion, StreamReader, hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http import RawRequestMessage
from multidict import CIMultiDictProxy


class HttpRequest(web.BaseRequest):
    """A request whose head is read once; aiohttp's own class looks it up at every access."""

    # Declared, because they take the places of properties.
    protocol: web.RequestHandler
    content_length: int | None

    __slots__ = (
        "content",
        "content_length",
        "headers",
        "keep_alive",
        "method",
        "protocol",
        "raw_path",
        "version",
    )

    def __init__(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> None:
        super().__init__(message, payload, protocol, writer, task, task.get_loop())
        self.content = payload
        self.headers: CIMultiDictProxy[str] = message.headers
        self.keep_alive = not message.should_close
        self.method = message.method
        self.protocol = protocol
        self.raw_path = message.path
        self.version: HttpVersion = message.version
        length = self.headers.get(hdrs.CONTENT_LENGTH)
        self.content_length = None if length is None else int(length)
