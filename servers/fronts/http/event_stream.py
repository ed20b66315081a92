"""The answer to a request for server-sent events."""

from __future__ import annotations

from collections.abc import Mapping

from calculators.kit.requests.request_record import RequestRecord
from calculators.kit.tasks import ErrorForm
from servers.fronts.http.answer_stream import AnswerStream
from servers.fronts.http.connection import HttpConnection
from servers.fronts.http.errors import HttpError

PING = b": ping\n\n"
DONE = b"data: [DONE]\n\n"
# Anthropic's streams end with one of these instead.
_LAST_EVENTS = (b"event: message_stop\n", b"event: error\n")
#: The headers of such an answer.
_FIELDS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache",
    "X-Accel-Buffering": "no",
}


class EventStream(AnswerStream):
    """Server-sent events to one client; each packet is made of complete events."""

    __slots__ = ("_form",)

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
            _FIELDS,
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
        if self._form is ErrorForm.KSERVE:
            return False  # a stream of answers just ends
        if self._form is ErrorForm.OPENAI:
            return self._last.endswith(DONE)
        events, ending, rest = self._last.rpartition(b"\n\n")
        last = events.rpartition(b"\n\n")[2]
        return bool(ending) and not rest and last.startswith(_LAST_EVENTS)
