"""The answer to a request to a graph, in the form that the graph's packets ask for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from msgspec import Struct

from calculators.kit.requests.http_answer import HttpAnswer, ResponsePacket
from calculators.kit.tasks import ErrorForm
from calculators.kit.tasks.operation import EVENTS, JSON
from graph_runtime import Code, GraphError
from servers.fronts.http.answer_stream import AnswerStream, SentResponse
from servers.fronts.http.event_answer import fail_stream
from servers.fronts.http.exchange import Exchange
from servers.fronts.http.warning_header import with_warnings
from servers.fronts.http.whole_answer import send_whole

_log = logging.getLogger(__name__)
_JSON_FIELDS = {"Content-Type": JSON}
#: The first character of a packet that may be JSON.
_OBJECT = ("{", b"{")


async def answer_from_packets(
    exchange: Exchange,
    form: ErrorForm,
    run: Callable[[Callable[[ResponsePacket], None]], Awaitable[None]],
    *,
    is_stream: bool,
    events_of: Callable[[str], str] | None = None,
) -> web.StreamResponse:
    """Let ``run`` emit the packets of an answer.

    Args:
        is_stream: packets of ``str`` or ``bytes`` are events; else the first is the JSON.
        events_of: makes the events of a first packet that is JSON; raises `ValueError` if it is
            none.

    Raises:
        Exception: nothing has been sent; the answer is `http_error` of it.
    """
    # Events may be long in coming: comments can go before them.
    stream: AnswerStream | None = exchange.begin_stream(form) if is_stream else None
    answer = GraphAnswer(exchange, form, stream, events_of)
    try:
        try:
            await run(answer.emit)
        except asyncio.CancelledError as cancellation:
            raise exchange.reason_of(cancellation) from None
    except Exception as raised:
        stream = answer.stream
        if stream is None or not stream.has_started:
            raise
        fail_stream(exchange, stream, raised)
        return SentResponse()
    return await answer.end()


class GraphAnswer(Struct, eq=False):
    """Takes the packets of a graph, and sends those of an answer in pieces at once.

    Attributes:
        stream: the answer, if it is sent in pieces.
        events_of: see `answer_from_packets`.
        has_begun: there was a packet.
        further: the number of packets after the first one of an answer that is whole.
        body: the first packet of an answer that is JSON.
        whole: an answer that names its type.
    """

    exchange: Exchange
    form: ErrorForm
    stream: AnswerStream | None
    events_of: Callable[[str], str] | None = None
    has_begun: bool = False
    further: int = 0
    body: bytes | None = None
    whole: HttpAnswer | None = None

    def emit(self, packet: ResponsePacket) -> None:
        """Take a packet. Must be called on the event loop.

        Raises:
            GraphError: an `HttpAnswer` is not the first packet.
        """
        if isinstance(packet, HttpAnswer):
            self._begin(packet)
        elif self.stream is not None:
            if not self.has_begun and self.events_of is not None and packet[:1] in _OBJECT:
                packet = _as_events(packet, self.events_of)
            self.stream.emit(packet)
        elif self.whole is not None or self.body is not None:
            self.further += 1
        else:
            self.body = packet.encode("utf-8", "replace") if isinstance(packet, str) else packet
        self.has_begun = True

    async def end(self) -> web.StreamResponse:
        """End the answer: the graph has ended well.

        Raises:
            RuntimeError: it gave no answer.
        """
        whole = self.whole
        if self.further and (whole is None or not whole.has_more):
            _log.warning("a graph gave more than one packet to a unary request")
        if self.body is not None:
            return await self._send_whole(_JSON_FIELDS, self.body)
        if whole is not None:
            # The front's own headers take precedence.
            taken = self.exchange.headers
            fields = {name: value for name, value in whole.headers.items() if name not in taken}
            fields["Content-Type"] = whole.content_type
            return await self._send_whole(fields, whole.body)
        if self.stream is None or not self.stream.has_started:
            raise RuntimeError("the graph gave no answer")
        self.stream.end()
        return SentResponse()

    async def _send_whole(self, fields: Mapping[str, str], body: bytes) -> web.StreamResponse:
        exchange = self.exchange
        if exchange.request.method != "HEAD":
            return await send_whole(exchange, fields, (body,))
        headers = with_warnings({**exchange.headers, **fields}, exchange.record.warnings)
        return web.Response(body=body, headers=headers)

    def _begin(self, answer: HttpAnswer) -> None:
        has_events = answer.media_type == EVENTS
        # A stream of events may have begun with a comment.
        is_late = self.stream is not None and self.stream.has_started and not has_events
        if self.has_begun or is_late:
            text = "an HttpAnswer must be the first packet of an answer"
            raise GraphError(text, code=Code.INTERNAL)
        if not answer.has_more or self.exchange.request.method == "HEAD":
            self._drop_stream()
            self.whole = answer
            return
        if not has_events:
            fields = {
                "Content-Type": answer.content_type,
                "X-Accel-Buffering": "no",
                **answer.headers,
            }
            self.stream = self.exchange.begin_bytes(fields)
        elif self.stream is None:
            self.stream = self.exchange.begin_stream(self.form, answer.headers)
        assert self.stream is not None
        self.stream.emit(answer.body)

    def _drop_stream(self) -> None:
        self.stream = self.exchange.stream = None


def _as_events(packet: str | bytes, events_of: Callable[[str], str]) -> str | bytes:
    """Return the events of a packet that is JSON, and any other packet as it is."""
    text = packet if isinstance(packet, str) else packet.decode("utf-8", "replace")
    try:
        return events_of(text)
    except ValueError:
        return packet
