"""One request, from its headers to the end of its answer."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from calculators.requests.http_payload import RequestError
from graph_runtime import Code, UnavailableError
from servers.fronts.http.body_room import BodyHold
from servers.fronts.http.client import Client
from servers.fronts.http.connection import HttpConnection
from servers.fronts.http.event_stream import EventStream
from servers.fronts.http.routes import Route


class Exchange:
    """What the handler, the connection and draining share about a request.

    Attributes:
        headers: of every answer to this request.
        hold: what its body has of the memory for bodies.
        route: what its path names; None before that is known, and where it names nothing.
        stream: the answer, once it is known to be a stream.
        keeps_alive: may the connection serve another request?
    """

    __slots__ = (
        "_began",
        "_deadline",
        "_ending",
        "_ends_at",
        "client",
        "connection",
        "headers",
        "hold",
        "keeps_alive",
        "request",
        "request_id",
        "route",
        "stream",
        "task",
    )

    def __init__(
        self,
        request: web.BaseRequest,
        connection: HttpConnection,
        request_id: str,
        task: asyncio.Task[Any],
        hold: BodyHold,
    ) -> None:
        self.request = request
        self.request_id = request_id
        self.connection = connection
        self.task = task
        self.hold = hold
        self.client = Client(connection)
        self.headers = {"Server": "graphrt", "X-Request-Id": request_id}
        self.route: Route | None = None
        self.stream: EventStream | None = None
        self.keeps_alive = request.keep_alive and not connection.is_last
        self._began = connection.loop.time()
        self._deadline: asyncio.TimerHandle | None = None
        self._ends_at = 0.0
        self._ending: Exception | None = None

    def disconnect(self) -> None:
        """The client is gone. The handler's task is cancelled by aiohttp."""
        if self.stream is not None:
            self.stream.drop()
        self.client.disconnect()

    def cut_off(self) -> None:
        """End the request now, with an error that the client gets."""
        self.keeps_alive = False
        self._end(UnavailableError("the server is shutting down"))

    def end_after(self, seconds: float) -> None:
        """Cut it off when so long has passed since its headers came; the shortest time counts."""
        at = self._began + seconds
        if self._deadline is None or at < self._ends_at:
            self.forget_deadline()
            # The handle cannot be asked: uvloop's of a time that has come does not know it.
            self._ends_at = at
            self._deadline = self.connection.loop.call_at(at, self._expire, seconds)

    def forget_deadline(self) -> None:
        """The request is over in time."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def reason_of(self, cancellation: asyncio.CancelledError) -> Exception:
        """The error to answer with when it was not the client's going that cancelled."""
        if not self.task.cancelling():
            return RuntimeError("the graph of a request was cancelled, the request was not")
        ending = self._ending
        if ending is None or self.client.is_disconnected:
            raise cancellation
        self._ending = None
        self.task.uncancel()
        return ending

    def _expire(self, seconds: float) -> None:
        text = f"the request was not answered within {seconds:g} s, its time-out"
        self._end(RequestError(text, code=Code.DEADLINE_EXCEEDED))

    def _end(self, error: Exception) -> None:
        if self._ending is None:
            self._ending = error
            self.task.cancel()
