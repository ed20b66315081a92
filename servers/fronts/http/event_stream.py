"""The answer to a streaming request: packets are written to the socket directly.

aiohttp's own `StreamResponse` needs an await, hence a task or a queue, per packet. A packet here
costs one formatting and one ``transport.write``; uvloop joins the writes of one loop iteration.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web

from calculators.requests.request_record import RequestRecord
from calculators.tasks import ErrorForm
from servers.fronts.http.connection import HttpConnection
from servers.fronts.http.errors import HttpError
from servers.fronts.http.response_head import response_head
from servers.fronts.http.warning_header import with_warnings

PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"
# Anthropic's streams end with one of these instead.
_LAST_EVENTS = (b"event: message_stop\n", b"event: error\n")
_FIELDS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}
_CHUNKED = {**_FIELDS, "Transfer-Encoding": "chunked"}


class EventStream:
    """Server-sent events to one client.

    The head waits for the first bytes, so an error before them has its own status. After the
    terminal event (``end`` or ``fail``), and when the client is gone, nothing is written.
    """

    __slots__ = (
        "_connection",
        "_ended",
        "_fields",
        "_form",
        "_has_started",
        "_headers",
        "_is_chunked",
        "_keeps_alive",
        "_last",
        "_loop",
        "_record",
        "_written_at",
    )

    def __init__(
        self,
        connection: HttpConnection,
        record: RequestRecord,
        headers: Mapping[str, str],
        form: ErrorForm,
        *,
        is_chunked: bool,
        keeps_alive: bool,
    ) -> None:
        """
        Args:
            record: the request's record; warnings that it has when the head is sent go into that.
            headers: headers of every answer to this request.
            form: the form of an error, and so of the event that ends the stream.
            is_chunked: the client understands chunks; else the connection's end is the stream's.
            keeps_alive: the connection may serve another request afterwards.
        """
        self._form = form
        self._record = record
        self._connection = connection
        self._loop = connection.loop
        self._is_chunked = is_chunked
        self._fields = _CHUNKED if is_chunked else _FIELDS
        self._headers = headers
        self._keeps_alive = keeps_alive
        self._has_started = False
        self._ended = False
        self._last = b""
        self._written_at = self._loop.time()

    @property
    def has_started(self) -> bool:
        """Return whether the client has been sent a status."""
        return self._has_started

    def emit(self, packet: str | bytes) -> None:
        """Send complete events, unchanged. Must be called on the event loop."""
        data = packet if isinstance(packet, bytes) else _encoded(packet)
        if self._ended or not data:
            return
        self._last = data
        self._written_at = self._loop.time()
        if self._has_started and self._is_chunked:
            self._connection.send(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            self._send(data)

    def ping_if_silent(self, now: float, seconds: float) -> None:
        """Send a comment if nothing has been sent for ``seconds``. ``now``: the loop's time."""
        if self._ended or now - self._written_at < seconds or self._connection.writing_paused:
            return
        self._written_at = now
        self._send(PING)

    def end(self) -> None:
        """End the stream. The last packet was the terminal event, in forms that have one."""
        if self._ended:
            return
        self._ended = True
        if not self._has_started:
            self._send(b"")  # there was no event at all; an empty chunk is the last one
        elif self._is_chunked:
            self._connection.send(b"0\r\n\r\n")

    def fail(self, error: HttpError) -> None:
        """Send an error event and end the stream, unless the graph sent a terminal event before."""
        if not self._ended and not self._has_terminal_event():
            cut = self._last and not self._last.endswith(b"\n\n")
            body = error.body(self._form, self._record.request_id)
            event = b"data: " + body + b"\n\n"
            if self._form is ErrorForm.ANTHROPIC:
                event = b"event: error\n" + event
            elif self._form is ErrorForm.OPENAI:
                event += DONE
            self._send(b"\n\n" + event if cut else event)
        self.end()

    def drop(self) -> None:
        """Write nothing from now on: the client is gone."""
        self._ended = True

    def _has_terminal_event(self) -> bool:
        if self._form is ErrorForm.KSERVE:
            return False  # a stream of answers just ends
        if self._form is ErrorForm.OPENAI:
            return self._last.endswith(DONE)
        events, ending, rest = self._last.rpartition(b"\n\n")
        last = events.rpartition(b"\n\n")[2]
        return bool(ending) and not rest and last.startswith(_LAST_EVENTS)

    def _send(self, data: bytes) -> None:
        if self._is_chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if not self._has_started:
            self._has_started = True
            headers = self._headers
            if self._record.warnings:
                headers = with_warnings(headers, self._record.warnings)
            data = response_head(self._fields, headers, keeps_alive=self._keeps_alive) + data
        self._connection.send(data)


class SentResponse(web.StreamResponse):
    """The response that aiohttp gets for an answer that is written already.

    It does not refer to the request: the task holds it as its result, which would be a cycle.
    """

    @property
    def keep_alive(self) -> bool:
        return super().keep_alive is not False  # `force_close` sets False

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None


def _encoded(packet: str) -> bytes:
    if not isinstance(packet, str):
        kind = type(packet).__name__
        raise TypeError(f"an HTTP response packet must be str or bytes, not {kind}")
    return packet.encode("utf-8", "replace")
