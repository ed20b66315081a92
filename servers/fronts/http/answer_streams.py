"""Answers in pieces and as server-sent events, written to the socket without aiohttp's response.

The header ``Warning`` tells what a client should know of a request that was answered all the same.
Kubernetes answers unknown fields with the same header and code, so some clients show it. RFC 9111
has made the header obsolete for caches only.

Packets are written to the socket directly: aiohttp's own `StreamResponse` needs an await, hence a
task or a queue, per packet. A packet here costs one formatting and one ``transport.write``, which
is a call of the system: uvloop 0.23 joins none. So the last event waits for the end of the answer,
which follows at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import lru_cache
from time import time
from typing import ClassVar, Final
from wsgiref.handlers import format_date_time

from aiohttp import web

from calculators.kit.requests.request_record import RequestRecord
from calculators.kit.tasks import ErrorForm, StreamForm
from servers.fronts.http.connection import HttpConnection
from servers.fronts.http.errors import HttpError


def response_head(
    fields: Mapping[str, str], headers: Mapping[str, str], *, keeps_alive: bool
) -> bytes:
    """Status 200, ``fields`` of this kind of answer, and ``headers`` of every answer."""
    lines = [
        "HTTP/1.1 200 OK",
        f"Connection: {'keep-alive' if keeps_alive else 'close'}",
        f"Date: {_date(int(time()))}",
    ]
    lines += map(": ".join, fields.items())
    lines += map(": ".join, headers.items())
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@lru_cache(maxsize=1)
def _date(seconds: int) -> str:
    return format_date_time(seconds)


NAME: Final = "Warning"
#: RFC 7234: a miscellaneous persistent warning.
_CODE: Final = 299


def with_warnings(headers: Mapping[str, str], warnings: Sequence[str]) -> dict[str, str]:
    """Return ``headers`` with the warnings, if there are any."""
    if not warnings:
        return dict(headers)
    return {**headers, NAME: ", ".join(map(_value, warnings))}


def _value(text: str) -> str:
    # A header has ASCII, without control characters; names of members may have anything.
    shown = text.encode("ascii", "backslashreplace").decode()
    shown = "".join(each if each.isprintable() else " " for each in shown)
    quoted = shown.replace("\\", "\\\\").replace('"', '\\"')
    return f'{_CODE} graphrt "{quoted}"'


class AnswerStream(ABC):
    """An answer in pieces to one client.

    The head waits for the first bytes, so an error before them has its own status. After ``end`` or
    ``fail``, and when the client is gone, nothing is written.

    Attributes:
        has_started: the client has been sent a status.
    """

    __slots__ = (
        "_connection",
        "_ended",
        "_ending",
        "_fields",
        "_headers",
        "_held",
        "_is_chunked",
        "_keeps_alive",
        "_last",
        "_loop",
        "_record",
        "_written_at",
        "has_started",
    )

    def __init__(
        self,
        connection: HttpConnection,
        record: RequestRecord,
        fields: Mapping[str, str],
        headers: Mapping[str, str],
        *,
        is_chunked: bool,
        keeps_alive: bool,
        ending: bytes = b"",
    ) -> None:
        """
        Args:
            record: the request's record; warnings that it has when the head is sent go into that.
            fields: headers of this answer.
            headers: headers of every answer to this request.
            is_chunked: the client understands chunks; else the connection's end is the stream's.
            keeps_alive: the connection may serve another request afterwards.
            ending: the end of a piece that nothing follows; b"" if that is not known.
        """
        self._record = record
        self._connection = connection
        self._loop = connection.loop
        self._is_chunked = is_chunked
        self._fields = {**fields, "Transfer-Encoding": "chunked"} if is_chunked else fields
        self._headers = headers
        self._keeps_alive = keeps_alive
        self.has_started = False
        self._ended = False
        self._last = b""
        self._ending = ending
        #: The last piece, framed, for a turn of the loop.
        self._held = b""
        self._written_at = self._loop.time()

    def emit(self, packet: str | bytes) -> None:
        """Send a piece, unchanged. Must be called on the event loop."""
        data = packet.encode("utf-8", "replace") if isinstance(packet, str) else packet
        if self._ended or not data:
            return
        self._last = data
        self._written_at = self._loop.time()
        if self.has_started and self._is_chunked:
            # Written here and not by `_framed`: this line runs for every event of every stream.
            chunk = b"%x\r\n%b\r\n" % (len(data), data)
        else:
            chunk = self._framed(data)
        if self._held:
            self._send_held()
        if self._ending and data.endswith(self._ending):
            # Nearly always the run ends in the next turn of the loop, and then one call of the
            # system sends this and the end. If not, the turn after that sends it.
            self._held = chunk
            # `[DONE]` and the last chunk in one write took a chat of one token from 4.1 writes to
            # 3.1 (decision 0048).
            self._loop.call_soon(self._loop.call_soon, self._send_held)
        else:
            self._connection.send(chunk)

    def ping_if_silent(self, now: float, seconds: float) -> None:
        """Keep the connection in use if nothing has been sent for ``seconds``, if that can be.

        ``now``: the loop's time.
        """
        return

    def end(self) -> None:
        """End the answer. Its last piece has been sent."""
        if self._ended:
            return
        self._ended = True
        if not self.has_started:
            self._send(b"")  # there was no piece at all; an empty chunk is the last one
            return
        end, self._held = self._held, b""
        if self._is_chunked:
            end += b"0\r\n\r\n"
        if end:
            self._connection.send(end)

    @abstractmethod
    def fail(self, error: HttpError) -> bool:
        """End an answer that is not complete, so that the client notices.

        Returns whether the connection may serve another request.
        """

    def drop(self) -> None:
        """Write nothing from now on: the client is gone."""
        self._ended = True
        self._held = b""

    def _send_held(self) -> None:
        held, self._held = self._held, b""
        if held:
            self._connection.send(held)

    def _send(self, data: bytes) -> None:
        self._connection.send(self._framed(data))

    def _framed(self, data: bytes) -> bytes:
        """Return a piece as it is sent: as a chunk, and the first one after the head."""
        if self._is_chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if not self.has_started:
            self.has_started = True
            headers = self._headers
            if self._record.warnings:
                headers = with_warnings(headers, self._record.warnings)
            head = response_head(self._fields, headers, keeps_alive=self._keeps_alive)
            self._connection.head_bytes += len(head)
            data = head + data
        return data


class ByteStream(AnswerStream):
    """Pieces of a body that is not made of events, such as sound."""

    __slots__ = ()

    def fail(self, error: HttpError) -> bool:
        """Leave out the last chunk; the connection is closed once all is sent.

        Without chunks the end of the connection is the end of the body, so the connection is reset.
        """
        if not self._ended:
            self._ended = True
            if not self._is_chunked:
                # An error cannot change the status any more. Without the last chunk, or by a reset,
                # clients notice that the body is not whole (decision 0054).
                self._connection.reset()
        return False


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


PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"
# Anthropic's streams end with one of these instead.
_LAST_EVENTS = (b"event: message_stop\n", b"event: error\n")
#: The headers of such an answer.
_FIELDS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    # nginx would collect the events otherwise, and the client would see them all at once.
    "X-Accel-Buffering": "no",
}


#: The forms of APIs whose streams have no last event of their own.
_JUST_END: Final = frozenset(
    {ErrorForm.KSERVE, ErrorForm.GOOGLE, ErrorForm.LLAMA_CPP, ErrorForm.HUGGING_FACE}
    | {ErrorForm.COHERE}
)


class EventStream(AnswerStream):
    """Server-sent events to one client; each packet is made of complete events."""

    __slots__ = ("_form",)
    fields: ClassVar[Mapping[str, str]] = _FIELDS

    def __init__(
        self,
        connection: HttpConnection,
        record: RequestRecord,
        headers: Mapping[str, str],
        *,
        is_chunked: bool,
        keeps_alive: bool,
        form: ErrorForm,
    ) -> None:
        """``form``: that of the event which ends a failed stream; the rest as in `AnswerStream`."""
        super().__init__(
            connection,
            record,
            self.fields,
            headers,
            is_chunked=is_chunked,
            keeps_alive=keeps_alive,
            ending=DONE if form is ErrorForm.OPENAI else b"",
        )
        self._form = form

    def ping_if_silent(self, now: float, seconds: float) -> None:
        """Send a comment if nothing has been sent for ``seconds``. ``now``: the loop's time."""
        if self._ended or now - self._written_at < seconds or self._connection.writing_paused:
            return
        self._written_at = now
        self._send(PING)

    def fail(self, error: HttpError) -> bool:
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
        return True

    def _has_terminal_event(self) -> bool:
        if self._form in _JUST_END:
            return False
        if self._form is ErrorForm.OPENAI:
            return self._last.endswith(DONE)
        events, ending, rest = self._last.rpartition(b"\n\n")
        last = events.rpartition(b"\n\n")[2]
        return bool(ending) and not rest and last.startswith(_LAST_EVENTS)


class ArrayStream(EventStream):
    """One JSON array to one client; each packet is made of complete items with their commas."""

    __slots__ = ()
    fields: ClassVar[Mapping[str, str]] = {**_FIELDS, "Content-Type": StreamForm.ARRAY.value}

    def ping_if_silent(self, now: float, seconds: float) -> None:
        """Send nothing: JSON has no comments."""

    def fail(self, error: HttpError) -> bool:
        """Send the error as the last item, unless the array has ended."""
        if not self._ended and not self._last.endswith(b"]"):
            body = error.body(self._form, self._record.request_id)
            self._send((b"," if self._last else b"[") + body + b"]")
        self.end()
        return True


#: The ends of a line that others follow, in answers of models and in other ones.
_GOES_ON: Final = (b'"done":false}\n', b'"}\n')


class LineStream(EventStream):
    """A line of JSON after the other to one client; each packet is made of complete lines."""

    __slots__ = ()
    fields: ClassVar[Mapping[str, str]] = {**_FIELDS, "Content-Type": StreamForm.LINES.value}

    def ping_if_silent(self, now: float, seconds: float) -> None:
        """Send nothing: clients take an empty line for JSON."""

    def fail(self, error: HttpError) -> bool:
        """Send the error as the last line, unless the graph sent its last line."""
        if not self._ended and (not self._last or self._last.endswith(_GOES_ON)):
            self._send(error.body(self._form, self._record.request_id) + b"\n")
        self.end()
        return True


STREAMS: Final[Mapping[StreamForm, type[EventStream]]] = {
    StreamForm.EVENTS: EventStream,
    StreamForm.ARRAY: ArrayStream,
    StreamForm.LINES: LineStream,
}
