"""An answer in server-sent events: what runs until its end, and how it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from calculators.requests.request_record import note_error, note_reason
from calculators.tasks import ErrorForm
from servers.fronts.http.errors import HttpError, http_error
from servers.fronts.http.event_stream import EventStream, SentResponse
from servers.fronts.http.exchange import Exchange
from servers.operations.request_log.reason import reason_for_log

_log = logging.getLogger(__name__)


async def answer_in_events(
    exchange: Exchange, form: ErrorForm, run: Callable[[EventStream], Awaitable[None]]
) -> web.StreamResponse:
    """Let ``run`` emit the events of an answer; its failure is the last of them.

    Raises:
        Exception: nothing has been sent; the answer is `http_error` of it.
    """
    stream = exchange.stream = EventStream(exchange, form)
    try:
        try:
            await run(stream)
        except asyncio.CancelledError as cancellation:
            raise exchange.reason_of(cancellation) from None
    except Exception as raised:
        if not stream.has_started:
            raise
        error = http_error(raised, exchange.request_id)
        if not exchange.client.is_disconnected:
            log_cause(error, exchange.request_id)
        note_error(str(error.status))
        note_reason(reason_of(error))
        stream.fail(error)
    else:
        stream.end()
    return SentResponse()


def reason_of(error: HttpError) -> str:
    """Of an error, as the log may have it."""
    return reason_for_log(str(error.code or error.type), error.param, error.detail)


def log_cause(error: HttpError, request_id: str) -> None:
    """What the client was not told goes to the log."""
    if error.cause is not None:
        _log.error("request %s failed", request_id, exc_info=error.cause)
