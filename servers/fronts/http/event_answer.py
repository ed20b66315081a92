"""Answers in server-sent events, up to their end or failure."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from calculators.kit.requests.request_record import note_error, note_reason
from calculators.kit.tasks import ErrorForm
from servers.fronts.http.answer_stream import AnswerStream, SentResponse
from servers.fronts.http.errors import HttpError, http_error
from servers.fronts.http.event_stream import EventStream
from servers.fronts.http.exchange import Exchange
from servers.operations.request_log import reason_for_log

_log = logging.getLogger(__name__)


async def answer_in_events(
    exchange: Exchange, form: ErrorForm, run: Callable[[EventStream], Awaitable[None]]
) -> web.StreamResponse:
    """Let ``run`` emit the events of an answer. If it fails, the last event is the error.

    Raises:
        Exception: nothing has been sent; the answer is `http_error` of it.
    """
    stream = exchange.begin_stream(form)
    try:
        try:
            await run(stream)
        except asyncio.CancelledError as cancellation:
            raise exchange.reason_of(cancellation) from None
    except Exception as raised:
        if not stream.has_started:
            raise
        fail_stream(exchange, stream, raised)
    else:
        stream.end()
    return SentResponse()


def fail_stream(exchange: Exchange, stream: AnswerStream, raised: Exception) -> None:
    """End an answer that has begun, because ``raised`` ended its request."""
    error = http_error(raised, exchange.request_id)
    if not exchange.client.is_disconnected:
        log_cause(error, exchange.request_id)
    note_error(str(error.status))
    note_reason(reason_of(error))
    if not stream.fail(error):
        exchange.keeps_alive = False


def reason_of(error: HttpError) -> str:
    """Return the reason of an error for the log, without anything that the client sent."""
    return reason_for_log(str(error.code or error.type), error.param, error.detail)


def log_cause(error: HttpError, request_id: str) -> None:
    """Log the exception whose text the client does not get, if there is one."""
    if error.cause is not None:
        _log.error("request %s failed", request_id, exc_info=error.cause)
