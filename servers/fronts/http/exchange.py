"""One request, from its headers to the end of its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import RequestRecord
from calculators.kit.tasks import ErrorForm, TaskEndpoint
from graph_runtime import Code, UnavailableError
from servers.contract.disconnection import Disconnection
from servers.fronts.body_room import BodyHold
from servers.fronts.http.answer_stream import AnswerStream, ByteStream
from servers.fronts.http.connection import HttpConnection
from servers.fronts.http.event_stream import EventStream
from servers.fronts.http.routes import Route


class Client(Disconnection):
    """A `calculators.kit.requests.http_payload.ClientConnection` over an HTTP connection."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    @property
    def is_writable(self) -> bool:
        return not self._connection.is_full or self.is_disconnected

    async def writable(self) -> None:
        # A calculator that sends without end must yield to the loop: otherwise a client that leaves
        # is not noticed, and no other client is answered.
        await asyncio.sleep(0)
        while not self.is_writable:
            await self._connection.room.wait()


class Exchange:
    """The state of a request that the handler, the connection and draining share.

    Attributes:
        headers: headers of every answer to this request.
        endpoint: the task's endpoint at its path; None if no task has one there.
        error_form: the form of errors that its client expects.
        record: its record; calculators add warnings for the client to it.
        hold: its body's share of the memory for bodies.
        route: the route of its path; None before it is known, and if there is none.
        stream: the answer, if it is sent in pieces.
        keeps_alive: the connection may serve another request afterwards.
    """

    __slots__ = (
        "_began",
        "_deadline",
        "_ending",
        "_ends_at",
        "client",
        "connection",
        "endpoint",
        "error_form",
        "headers",
        "hold",
        "keeps_alive",
        "record",
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
        record: RequestRecord,
        task: asyncio.Task[Any],
        hold: BodyHold,
        endpoint: TaskEndpoint | None,
        error_form: ErrorForm,
    ) -> None:
        self.request = request
        self.record = record
        self.request_id = request_id = record.request_id
        self.connection = connection
        self.task = task
        self.hold = hold
        self.endpoint = endpoint
        self.error_form = error_form
        self.client = Client(connection)
        self.headers = {"Server": "graphrt", "X-Request-Id": request_id}
        self.route: Route | None = None
        self.stream: AnswerStream | None = None
        self.keeps_alive = request.keep_alive and not connection.is_last
        self._began = connection.loop.time()
        self._deadline: asyncio.TimerHandle | None = None
        self._ends_at = 0.0
        self._ending: Exception | None = None

    def begin_stream(
        self, form: ErrorForm, headers: Mapping[str, str] | None = None
    ) -> EventStream:
        """Make the stream of events that answers this request; nothing is sent yet.

        ``headers``: further ones of this answer.
        """
        stream = EventStream(
            self.connection,
            self.record,
            {**self.headers, **headers} if headers else self.headers,
            is_chunked=self._may_chunk(),
            keeps_alive=self.keeps_alive,
            form=form,
        )
        self.stream = stream
        return stream

    def begin_bytes(self, fields: Mapping[str, str]) -> ByteStream:
        """Make the stream of bytes that answers this request; nothing is sent yet.

        ``fields``: headers of this answer.
        """
        stream = ByteStream(
            self.connection,
            self.record,
            fields,
            self.headers,
            is_chunked=self._may_chunk(),
            keeps_alive=self.keeps_alive,
        )
        self.stream = stream
        return stream

    def _may_chunk(self) -> bool:
        """Return whether the client understands chunks."""
        if self.request.version >= (1, 1):
            return True
        self.keeps_alive = False  # the connection's end is the stream's
        return False

    def ping_if_silent(self, now: float, seconds: float) -> None:
        """Send a comment when the answer is a stream that has sent nothing for ``seconds``."""
        if self.stream is not None:
            self.stream.ping_if_silent(now, seconds)

    def disconnect(self) -> None:
        """Note that the client is gone. aiohttp cancels the handler's task."""
        if self.stream is not None:
            self.stream.drop()
        self.client.disconnect()

    def cut_off(self) -> None:
        """End the request now, with an error for the client."""
        self.keeps_alive = False
        self.end(UnavailableError("the server is shutting down"))

    def end_after(self, seconds: float) -> None:
        """End the request ``seconds`` after its headers arrived; the shortest limit counts."""
        at = self._began + seconds
        if self._deadline is None or at < self._ends_at:
            self.forget_deadline()
            # Kept, because uvloop's handle does not know its time once that has passed.
            self._ends_at = at
            self.record.deadline = at
            self._deadline = self.connection.loop.call_at(at, self._expire, seconds)

    def forget_deadline(self) -> None:
        """Forget the time limit: the request was answered in time."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def reason_of(self, cancellation: asyncio.CancelledError) -> Exception:
        """Return the error to answer with. Raise ``cancellation`` if the client is gone."""
        if not self.task.cancelling():
            return RuntimeError("the graph of a request was cancelled, the request was not")
        ending = self._ending
        if ending is None or self.client.is_disconnected:
            try:
                raise cancellation
            finally:
                del cancellation  # this frame is in its traceback: a cycle would keep the body
        self._ending = None
        self.task.uncancel()
        return ending

    def _expire(self, seconds: float) -> None:
        text = f"the request was not answered within {seconds:g} s, its time-out"
        text = self.record.unanswered(text)
        self.end(RequestError(text, code=Code.DEADLINE_EXCEEDED, detail=text))

    def end(self, error: Exception) -> None:
        """End the request now with this error, unless it is ending already."""
        if self._ending is None:
            self._ending = error
            self.task.cancel()
