"""One request, from its headers to the end of its answer."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from graph_runtime import UnavailableError
from servers.openai_http.client import Client
from servers.openai_http.connection import HttpConnection
from servers.openai_http.event_stream import EventStream


class Exchange:
    """What the handler, the connection and draining share about a request.

    Attributes:
        headers: of every answer to this request.
        stream: the answer, once it is known to be a stream.
        keeps_alive: may the connection serve another request?
    """

    __slots__ = (
        "_is_cut_off",
        "client",
        "connection",
        "headers",
        "keeps_alive",
        "request",
        "request_id",
        "stream",
        "task",
    )

    def __init__(
        self,
        request: web.BaseRequest,
        connection: HttpConnection,
        request_id: str,
        task: asyncio.Task[Any],
    ) -> None:
        self.request = request
        self.request_id = request_id
        self.connection = connection
        self.task = task
        self.client = Client(connection)
        self.headers = {"Server": "graphrt", "X-Request-Id": request_id}
        self.stream: EventStream | None = None
        self.keeps_alive = request.keep_alive and not connection.is_last
        self._is_cut_off = False

    def disconnect(self) -> None:
        """The client is gone. The handler's task is cancelled by aiohttp."""
        if self.stream is not None:
            self.stream.drop()
        self.client.disconnect()

    def cut_off(self) -> None:
        """End the request now, with an error that the client gets."""
        self._is_cut_off = True
        self.keeps_alive = False
        self.task.cancel()

    def reason_of(self, cancellation: asyncio.CancelledError) -> Exception:
        """The error to answer with when it was not the client's going that cancelled."""
        if not self.task.cancelling():
            return RuntimeError("the graph of a request was cancelled, the request was not")
        if not self._is_cut_off or self.client.is_disconnected:
            raise cancellation
        self._is_cut_off = False
        self.task.uncancel()
        return UnavailableError("the server is shutting down")
