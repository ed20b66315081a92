"""Anthropic's ``/v1/messages/batches``: the batches of the store in Anthropic's form.

A batch made here is one of the store, with a file of requests to ``/v1/messages``; clients of
OpenAI's form see it too. Its results are made of the lines of its two files while they are sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
from aiohttp import web
from msgspec import Raw, Struct

from calculators.kit.requests import fields
from calculators.kit.requests import members as declared
from calculators.kit.requests.schema import ref
from servers.batches.contents import open_content
from servers.batches.desk import BatchDesk
from servers.batches.objects import (
    INPUT_PURPOSE,
    Batch,
    NotNowError,
    Status,
    StoredFile,
    unix_seconds,
)
from servers.fronts.http.answer_streams import SentResponse
from servers.fronts.http.body import read_json
from servers.fronts.http.errors import HttpError
from servers.fronts.http.exchange import Exchange, ListPage, fail_stream, object_answer, query_of
from servers.fronts.http.settings import HttpSettings

#: The path of the requests of these batches.
MESSAGES: Final = "/v1/messages"
#: A batch of OpenAI's form may have one of these.
_ENDPOINTS: Final = (MESSAGES, "/v3/messages", "/v3/v1/messages")
ID_PREFIX: Final = "msgbatch_"
_MOST_LISTED: Final = 1000
_LONGEST_ID: Final = 256
_NAME: Final = "messages.jsonl"
#: Bytes of results that are made at a time.
_PIECE: Final = 256 * 1024
_LINES: Final = {"Content-Type": "application/x-jsonl"}

CREATE_MEMBERS: Final[declared.Members] = declared.table(
    declared.honoured(
        "requests",
        declared.Array(ref("MessageBatchItem"), {"minItems": 1}),
        "Requests to `/messages`, each with an id of its own.",
        is_required=True,
    ),
    declared.ignored("says who asks, or is a header in Anthropic's API", "betas user_profile_id"),
)


def read_requests(body: object, most: int) -> list[bytes]:
    """Return the lines of the input file for a body.

    Raises:
        RequestError: a request or its id is wrong, or there are too many.
    """
    read = declared.read_members(fields.body_object(body), CREATE_MEMBERS)
    requests = read.get("requests")
    if not requests:
        raise fields.missing("requests", "an array of requests with custom_id and params")
    fields.check_most("requests", len(requests), "requests", most)
    known: set[str] = set()
    lines = []
    for i, each in enumerate(requests):
        path = f"requests[{i}]"
        if not isinstance(each, dict):
            raise fields.wrong_type(path, "an object", each)
        name = fields.string(each, "custom_id", f"{path}.custom_id")
        if not name:
            raise fields.missing(f"{path}.custom_id", "an id to find the result by")
        if len(name) > _LONGEST_ID or name in known:
            why = "another request has it" if name in known else "it is too long"
            raise fields.invalid(f"{path}.custom_id", why)
        known.add(name)
        params = fields.json_object(each, "params", f"{path}.params")
        if params is None:
            raise fields.missing(f"{path}.params", "a request to /messages")
        if params.get("stream"):
            raise fields.invalid(f"{path}.params.stream", "a batch has whole answers")
        line = {"custom_id": name, "method": "POST", "url": MESSAGES, "body": params}
        lines.append(msgspec.json.encode(line) + b"\n")
    return lines


class MessageBatches:
    """Answers requests for batches of messages of one front."""

    def __init__(self, desk: BatchDesk, settings: HttpSettings) -> None:
        self._desk = desk
        self._settings = settings

    async def create(self, exchange: Exchange, owner: str) -> web.StreamResponse:
        """Make a batch of the requests in a body.

        Raises:
            HttpError: the body is wrong.
            StoreError: the requests cannot be kept.
        """
        desk = self._desk
        _, body = await read_json(exchange.request, self._settings, exchange.hold)
        lines = await asyncio.to_thread(read_requests, body, desk.settings.max_requests)
        del body
        upload = await desk.begin_upload()
        try:
            if sum(map(len, lines)) > desk.settings.max_file_bytes:
                raise HttpError(413, f"the requests have over {desk.settings.max_file_bytes} bytes")
            await asyncio.to_thread(upload.write, b"".join(lines))
            file = await desk.end_upload(upload, owner, _NAME, INPUT_PURPOSE, None)
        finally:
            await asyncio.shield(asyncio.to_thread(upload.discard))
        batch = await desk.create(
            owner=owner,
            endpoint=MESSAGES,
            input_file_id=file.id,
            metadata=None,
            output_seconds=None,
            prefix=ID_PREFIX,
            total=len(lines),
        )
        return object_answer(exchange, _object(batch, exchange))

    async def page(self, exchange: Exchange, owner: str) -> web.StreamResponse:
        """List the client's batches of messages, the newest first."""
        query = query_of(exchange.request)
        before = query.get("before_id", "")
        found, has_more = await self._desk.ask(
            self._desk.store.batches,
            owner,
            after=before or query.get("after_id", ""),
            limit=ListPage.limit_of(query, most=_MOST_LISTED),
            endpoints=_ENDPOINTS,
            ascending=bool(before),
        )
        batches = [_object(each, exchange) for each in (found[::-1] if before else found)]
        return object_answer(exchange, ListPage.members(batches, has_more=has_more))

    async def retrieve(self, exchange: Exchange, owner: str, item: str) -> web.StreamResponse:
        """Describe a batch."""
        batch = await self._desk.ask(self._desk.store.batch, item, owner)
        return object_answer(exchange, _object(batch, exchange))

    async def cancel(self, exchange: Exchange, owner: str, item: str) -> web.StreamResponse:
        """Begin to cancel a batch."""
        batch = await self._desk.ask(self._desk.store.cancel, item, owner, unix_seconds())
        return object_answer(exchange, _object(batch, exchange))

    async def delete(self, exchange: Exchange, owner: str, item: str) -> web.StreamResponse:
        """Delete a batch that has ended, with its files."""
        await self._desk.ask(self._desk.store.delete_batch, item, owner)
        return object_answer(exchange, {"id": item, "type": "message_batch_deleted"})

    async def results(self, exchange: Exchange, owner: str, item: str) -> web.StreamResponse:
        """Send the results of a batch that has ended, a line for each request that has one."""
        desk = self._desk
        batch = await desk.ask(desk.store.batch, item, owner)
        if not batch.is_finished:
            raise NotNowError("the batch has no results yet: its processing_status is not ended")
        files = [
            await desk.ask(desk.store.file, file_id, owner, unix_seconds())
            for file_id in (batch.output_file_id, batch.error_file_id)
            if file_id is not None
        ]
        if exchange.request.method == "HEAD":
            return web.Response(headers={**exchange.headers, **_LINES})
        stream = exchange.begin_bytes(_LINES)
        pieces = _pieces(desk, files)
        try:
            while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
                await exchange.client.writable()
                if exchange.client.is_disconnected:
                    break
                stream.emit(piece)
        except Exception as raised:
            if not stream.has_started:
                raise
            fail_stream(exchange, stream, raised)
        else:
            stream.end()
        return SentResponse()


def _pieces(desk: BatchDesk, files: Sequence[StoredFile]) -> Iterator[bytes]:
    """Yield the lines of results, many at a time. Blocks.

    Raises:
        ContentError: a file cannot be read.
    """
    with ExitStack() as opened:
        for file in files:
            content = opened.enter_context(open_content(desk.store.path_of(file.id), file.size))
            piece: list[bytes] = []
            size = 0
            for line in content:
                piece.append(result_line(line))
                size += len(piece[-1])
                if size >= _PIECE:
                    yield b"".join(piece)
                    piece, size = [], 0
            if piece:
                yield b"".join(piece)


class _LineAnswer(Struct):
    status_code: int
    body: Raw


class _LineFailure(Struct):
    code: str
    message: str


class _ResultLine(Struct):
    custom_id: str | None = None
    response: _LineAnswer | None = None
    error: _LineFailure | None = None


class _ErrorText(Struct):
    message: str


class _ErrorOfLine(Struct):
    error: _ErrorText
    type: str = ""


_read_line: Final = msgspec.json.Decoder(_ResultLine).decode
_read_error: Final = msgspec.json.Decoder(_ErrorOfLine).decode
_NOT_RUN: Final = {"batch_expired": "expired", "batch_cancelled": "canceled"}


def result_line(line: bytes) -> bytes:
    """Return the line of a result for a line of an output or error file, with its end."""
    read = _read_line(line)
    result: dict[str, object]
    if read.response is not None and read.response.status_code == 200:
        result = {"type": "succeeded", "message": read.response.body}
    elif read.response is not None:
        result = {"type": "errored", "error": _anthropic_error(read.response)}
    else:
        error = read.error or _LineFailure("", "the request was not answered")
        kind = _NOT_RUN.get(error.code)
        if kind is None:
            result = {"type": "errored", "error": _error("api_error", error.message)}
        else:
            result = {"type": kind}
    return msgspec.json.encode({"custom_id": read.custom_id, "result": result}) + b"\n"


def _anthropic_error(response: _LineAnswer) -> object:
    """Return an error in Anthropic's form; lines that were not asked have OpenAI's."""
    try:
        body = _read_error(response.body)
    except msgspec.DecodeError:
        return _error("api_error", "the answer is no error that can be shown")
    if body.type == "error":
        return response.body
    kind = "api_error" if response.status_code >= 500 else "invalid_request_error"
    return _error(kind, body.error.message)


def _error(kind: str, message: str) -> dict[str, object]:
    error = {"type": kind, "message": message}
    return {"type": "error", "error": error, "request_id": None}


def _object(batch: Batch, exchange: Exchange) -> dict[str, Any]:
    """Return Anthropic's ``message_batch`` object."""
    request = exchange.request
    status = "ended" if batch.is_finished else "in_progress"
    if batch.status is Status.CANCELLING:
        status = "canceling"
    ended = batch.completed_at or batch.failed_at or batch.expired_at or batch.cancelled_at
    counts = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    if batch.is_finished:
        counts |= {"succeeded": batch.completed, "errored": batch.failed}
        rest = {Status.CANCELLED: "canceled", Status.EXPIRED: "expired"}
        counts[rest.get(batch.status, "errored")] += batch.total - batch.completed - batch.failed
    else:
        counts["processing"] = batch.total
    host = request.headers.get("Host", "localhost")
    address = f"{request.scheme}://{host}{MESSAGES}/batches/{batch.id}/results"
    return {
        "id": batch.id,
        "type": "message_batch",
        "processing_status": status,
        "request_counts": counts,
        "created_at": _time(batch.created_at),
        "expires_at": _time(batch.expires_at),
        "ended_at": _time(ended) if batch.is_finished else None,
        "cancel_initiated_at": _time(batch.cancelling_at),
        "archived_at": None,
        "results_url": address if batch.is_finished else None,
    }


def _time(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()
