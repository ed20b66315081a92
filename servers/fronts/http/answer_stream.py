"""Answers in pieces: packets are written to the socket directly.

aiohttp's own `StreamResponse` needs an await, hence a task or a queue, per packet. A packet here
costs one formatting and one ``transport.write``, which is a call of the system: uvloop 0.23 joins
none. So the last event waits for the end of the answer, which follows at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from aiohttp import web

from calculators.kit.requests.request_record import RequestRecord
from servers.fronts.http.connection import HttpConnection
from servers.fronts.http.errors import HttpError
from servers.fronts.http.response_head import response_head
from servers.fronts.http.warning_header import with_warnings


class AnswerStream(ABC):
    """An answer in pieces to one client.

    The head waits for the first bytes, so an error before them has its own status. After ``end`` or
    ``fail``, and when the client is gone, nothing is written.
    """

    __slots__ = (
        "_connection",
        "_ended",
        "_ending",
        "_fields",
        "_has_started",
        "_headers",
        "_held",
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
        self._has_started = False
        self._ended = False
        self._last = b""
        self._ending = ending
        #: The last piece, framed, for a turn of the loop.
        self._held = b""
        self._written_at = self._loop.time()

    @property
    def has_started(self) -> bool:
        """Return whether the client has been sent a status."""
        return self._has_started

    def emit(self, packet: str | bytes) -> None:
        """Send a piece, unchanged. Must be called on the event loop."""
        data = packet.encode("utf-8", "replace") if isinstance(packet, str) else packet
        if self._ended or not data:
            return
        self._last = data
        self._written_at = self._loop.time()
        if self._has_started and self._is_chunked:
            chunk = b"%x\r\n%b\r\n" % (len(data), data)
        else:
            chunk = self._framed(data)
        if self._held:
            self._send_held()
        if self._ending and data.endswith(self._ending):
            # Nearly always the run ends in the next turn of the loop, and then one call of the
            # system sends this and the end. If not, the turn after that sends it.
            self._held = chunk
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
        if not self._has_started:
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
        """Return a piece as it is sent: as a chunk, and the first one behind the head."""
        if self._is_chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if not self._has_started:
            self._has_started = True
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
