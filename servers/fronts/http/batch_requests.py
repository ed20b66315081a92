"""Requests for files and batches, OpenAI's ``/v1/files`` and ``/v1/batches``."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, BinaryIO, Final

from aiohttp import web

from calculators.kit.requests.http_payload import MultipartForm
from calculators.kit.tasks import endpoint_at
from servers.batches.batch_lines import is_path
from servers.batches.contents import open_content
from servers.batches.desk import BatchDesk, Upload
from servers.batches.objects import (
    ANCHOR,
    DOCUMENT_PURPOSES,
    INPUT_PURPOSE,
    NotNowError,
    NotStoredError,
    StorageFullError,
    StoreError,
    read_creation,
    seconds_of,
    unix_seconds,
)
from servers.fronts.http.answer_streams import SentResponse, response_head
from servers.fronts.http.body import check_encoding, read_json
from servers.fronts.http.browser_guard import BrowserGuard
from servers.fronts.http.errors import HttpError
from servers.fronts.http.exchange import Exchange, ListPage, object_answer, owner_of, query_of
from servers.fronts.http.form_body import FORM, FormParser, FormPart, boundary_of, has_form
from servers.fronts.http.message_batches import MessageBatches
from servers.fronts.http.routes import RUNS, Endpoint, Route, find_route
from servers.fronts.http.settings import HttpSettings

_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# Besides the file: boundaries, headers and fields.
_REST_OF_FORM = 64 * 1024


async def receive_upload(
    request: web.BaseRequest, settings: HttpSettings, upload: Upload, most_bytes: int
) -> tuple[MultipartForm, str]:
    """Write the file of a form into ``upload``; return the form and the file's name.

    Neither parsing nor writing is on the event loop, and at most one piece is in memory.

    Raises:
        HttpError: 400, 408, 413.
        StoreError: the file cannot be written.
        ConnectionError: the client went.
    """
    check_encoding(request)
    parser = _UploadParser(
        boundary_of(request.headers.get("Content-Type", "")), settings, upload, most_bytes
    )
    length = request.content_length
    if length is not None and length > most_bytes + _REST_OF_FORM:
        raise too_large(most_bytes)
    # aiohttp answers Expect in its router, which this front does not use.
    if request.headers.get("Expect") and request.transport is not None:
        request.transport.write(_CONTINUE)
    loop = asyncio.get_running_loop()
    since = loop.time() + settings.body_idle_seconds
    size = 0
    content = request.content
    try:
        while not content.at_eof():
            due = since + size / settings.min_body_rate
            async with asyncio.timeout_at(min(due, loop.time() + settings.body_idle_seconds)):
                piece = await content.readany()
            size += len(piece)
            if piece:
                began = loop.time()
                await asyncio.to_thread(parser.parse, piece)
                # The client is not slow while the disk is.
                since += loop.time() - began
    except TimeoutError:
        raise HttpError(408, "the body did not arrive in time") from None
    except web.RequestPayloadError:
        raise HttpError(400, "the body is not encoded as its headers say") from None
    if not size:
        raise HttpError(400, "the body is empty; it must be a form")
    form = await parser.form()
    if parser.filename is None:
        text = "the form needs a file, with a filename and content, in its field `file`"
        raise HttpError(400, text, param="file")
    return form, parser.filename


def too_large(most_bytes: int) -> HttpError:
    """Return the error for a file above the limit."""
    return HttpError(413, f"the file is larger than {most_bytes} bytes", param="file")


class _UploadParser(FormParser):
    """Writes the content of the field ``file``. ``filename``: of it; None before it comes."""

    def __init__(
        self, boundary: bytes, settings: HttpSettings, upload: Upload, most_bytes: int
    ) -> None:
        super().__init__(boundary, settings)
        self._upload = upload
        self._most = most_bytes
        self._number = 0
        self.filename: str | None = None

    def add_to_file(self, part: FormPart, data: bytes) -> None:
        if part.name != "file":
            raise HttpError(400, "only the field `file` may be a file", param=part.shown_name)
        if self._number not in (0, part.number):
            raise HttpError(400, "the form has more than one file", param="file")
        self._number = part.number
        self.filename = part.filename or "file"
        if self._upload.size + len(data) > self._most:
            raise too_large(self._most)
        self._upload.write(data)


async def discard(upload: Upload) -> None:
    """Remove an upload that failed. Does nothing to one that is finished."""
    try:
        await asyncio.to_thread(upload.discard)
    except StoreError:
        return


_PIECE = 256 * 1024


async def send_file(exchange: Exchange, path: Path, size: int) -> web.StreamResponse:
    """Send a file of JSON lines. ``size``: its bytes.

    Raises:
        ContentError: it cannot be read, or has another size.
    """
    file = await asyncio.to_thread(open_content, path, size)
    try:
        fields = {
            "Content-Type": "application/octet-stream",
            "Content-Disposition": f'attachment; filename="{path.name}"',
            "Content-Length": str(size),
        }
        if exchange.request.method == "HEAD":
            return web.Response(headers={**exchange.headers, **fields})
        await _send(exchange, file, size, fields)
    finally:
        file.close()
    return SentResponse()


async def _send(exchange: Exchange, file: BinaryIO, size: int, fields: dict[str, str]) -> None:
    client, connection = exchange.client, exchange.connection
    if not client.is_writable:
        await client.writable()
    connection.send(response_head(fields, exchange.headers, keeps_alive=exchange.keeps_alive))
    sent = 0
    try:
        while sent < size:
            piece = await asyncio.to_thread(file.read, min(_PIECE, size - sent))
            if not piece:
                raise ConnectionError("the file became shorter")
            if not client.is_writable:
                await client.writable()
            if client.is_disconnected:
                return
            connection.send(piece)
            sent += len(piece)
    except (asyncio.CancelledError, OSError):
        connection.abort()  # nothing else may follow a part of the body
        raise asyncio.CancelledError from None


_MOST_FILES: Final = 10_000
_LONGEST_NAME: Final = 255
#: Uploads at a time; each has a file open.
_MOST_UPLOADS: Final = 64


class BatchRequests:
    """Answers the requests of one front."""

    def __init__(self, desk: BatchDesk, settings: HttpSettings, guard: BrowserGuard) -> None:
        self._desk = desk
        self._settings = settings
        self._guard = guard
        self._messages = MessageBatches(desk, settings)
        self._uploads = 0

    async def answer(self, exchange: Exchange, route: Route) -> web.StreamResponse:
        """Answer a request of `servers.fronts.http.routes.OF_BATCHES`.

        Raises:
            Exception: nothing has been sent; the answer is `http_error` of it.
        """
        try:
            return await self._answer(self._desk, exchange, route)
        except NotStoredError as error:
            raise HttpError(404, error.message, param="id", code="not_found") from None
        except NotNowError as error:
            raise HttpError(409, error.message, code="conflict") from None
        except StorageFullError as error:
            raise HttpError(507, error.message, code="storage_full") from None
        except StoreError as error:
            raise HttpError(503, error.message, cause=error.__cause__) from None

    async def _answer(
        self, desk: BatchDesk, exchange: Exchange, route: Route
    ) -> web.StreamResponse:
        owner, item = owner_of(exchange.record, self._settings), route.item
        is_read = exchange.request.method in ("GET", "HEAD")
        match route.endpoint:
            case Endpoint.FILES if is_read:
                return await self._list_files(desk, exchange, owner)
            case Endpoint.FILES:
                return await self._upload(desk, exchange, owner)
            case Endpoint.FILE if is_read:
                file = await desk.ask(desk.store.file, item, owner, unix_seconds())
                return object_answer(exchange, file.to_object())
            case Endpoint.FILE:
                self._guard.check_page(exchange.request.headers)
                await desk.ask(desk.store.delete_file, item, owner, unix_seconds())
                return object_answer(exchange, {"id": item, "object": "file", "deleted": True})
            case Endpoint.FILE_CONTENT:
                file = await desk.ask(desk.store.file, item, owner, unix_seconds())
                return await send_file(exchange, desk.store.path_of(file.id), file.size)
            case Endpoint.BATCHES if is_read:
                return await self._list_batches(desk, exchange, owner)
            case Endpoint.BATCHES:
                return await self._create(desk, exchange, owner)
            case Endpoint.BATCH:
                batch = await desk.ask(desk.store.batch, item, owner)
                return object_answer(exchange, batch.to_object())
            case Endpoint.MESSAGE_BATCHES if is_read:
                return await self._messages.page(exchange, owner)
            case Endpoint.MESSAGE_BATCHES:
                return await self._messages.create(exchange, owner)
            case Endpoint.MESSAGE_BATCH_RESULTS:
                return await self._messages.results(exchange, owner, item)
            case Endpoint.MESSAGE_BATCH if is_read:
                return await self._messages.retrieve(exchange, owner, item)
            case Endpoint.MESSAGE_BATCH:
                self._guard.check_page(exchange.request.headers)
                return await self._messages.delete(exchange, owner, item)
            case Endpoint.MESSAGE_BATCH_CANCEL:
                self._guard.check_page(exchange.request.headers)
                return await self._messages.cancel(exchange, owner, item)
            case _:
                self._guard.check_page(exchange.request.headers)
                batch = await desk.ask(desk.store.cancel, item, owner, unix_seconds())
                return object_answer(exchange, batch.to_object())

    async def _upload(self, desk: BatchDesk, exchange: Exchange, owner: str) -> web.StreamResponse:
        request = exchange.request
        # A page of any site may send a form without asking first.
        self._guard.check_page(request.headers)
        if not has_form(request):
            raise HttpError(415, f"the body must have the Content-Type {FORM}")
        if self._uploads >= _MOST_UPLOADS:
            raise HttpError(503, "too many files are being uploaded", headers={"Retry-After": "1"})
        self._uploads += 1
        upload = await desk.begin_upload()
        try:
            most = desk.settings.max_file_bytes
            form, filename = await receive_upload(request, self._settings, upload, most)
            purpose, seconds = _fields_of(form)
            name = filename[:_LONGEST_NAME]
            file = await desk.end_upload(upload, owner, name, purpose, seconds)
        finally:
            self._uploads -= 1
            await asyncio.shield(discard(upload))
        return object_answer(exchange, file.to_object())

    async def _list_files(
        self, desk: BatchDesk, exchange: Exchange, owner: str
    ) -> web.StreamResponse:
        query = query_of(exchange.request)
        page = ListPage.of(query, usual=_MOST_FILES, most=_MOST_FILES)
        files, has_more = await desk.ask(
            desk.store.files,
            owner,
            unix_seconds(),
            purpose=query.get("purpose"),
            after=page.after,
            limit=page.limit,
            ascending=page.ascending,
        )
        return _list(exchange, [each.to_object() for each in files], has_more=has_more)

    async def _list_batches(
        self, desk: BatchDesk, exchange: Exchange, owner: str
    ) -> web.StreamResponse:
        query = query_of(exchange.request)
        limit = ListPage.limit_of(query)
        batches, has_more = await desk.ask(
            desk.store.batches, owner, after=query.get("after", ""), limit=limit
        )
        return _list(exchange, [each.to_object() for each in batches], has_more=has_more)

    async def _create(self, desk: BatchDesk, exchange: Exchange, owner: str) -> web.StreamResponse:
        _, body = await read_json(exchange.request, self._settings, exchange.hold)
        if not isinstance(body, dict):
            raise HttpError(400, "the body must be a JSON object")
        asked = read_creation(body)
        _check_endpoint(asked.endpoint)
        try:
            file = await desk.ask(desk.store.file, asked.input_file_id, owner, unix_seconds())
        except NotStoredError as error:
            raise HttpError(400, error.message, param="input_file_id") from None
        if file.purpose != INPUT_PURPOSE:
            text = f'the file has the purpose "{file.purpose}", not "{INPUT_PURPOSE}"'
            raise HttpError(400, text, param="input_file_id")
        batch = await desk.create(
            owner=owner,
            endpoint=asked.endpoint,
            input_file_id=asked.input_file_id,
            metadata=asked.metadata,
            output_seconds=asked.output_seconds,
        )
        return object_answer(exchange, batch.to_object())


def _check_endpoint(path: str) -> None:
    """Refuse a path that no request of a batch can have.

    Raises:
        HttpError: 400.
    """
    route = find_route(path) if is_path(path) else None
    if route is None or route.endpoint not in RUNS or "POST" not in route.methods:
        text = "requests of batches run models: no model answers POST at this path"
        raise HttpError(400, text, param="endpoint")
    endpoint = endpoint_at(path)
    if endpoint is not None and endpoint.is_socket:
        raise HttpError(400, "this path is a WebSocket's", param="endpoint")


def _fields_of(form: MultipartForm) -> tuple[str, int | None]:
    """Return the purpose of an upload, and the seconds that it is kept, or None.

    Raises:
        HttpError: 400.
        RequestError: the seconds are wrong.
    """
    purpose = _one(form, "purpose")
    known = (INPUT_PURPOSE, *DOCUMENT_PURPOSES)
    if purpose not in known:
        text = f"the form needs a purpose, one of {', '.join(known)}"
        raise HttpError(400, text, param="purpose")
    anchor = _one(form, "expires_after[anchor]")
    seconds = _one(form, "expires_after[seconds]")
    if anchor is None and seconds is None:
        return purpose, None
    if anchor != ANCHOR:
        text = f'"{ANCHOR}" is the only anchor'
        raise HttpError(400, text, param="expires_after.anchor")
    return purpose, seconds_of(seconds or "", "expires_after.seconds")


def _one(form: MultipartForm, name: str) -> str | None:
    values = form.fields.get(name, [])
    if len(values) > 1:
        raise HttpError(400, f"the form has {name} more than once", param=name)
    return values[0] if values else None


def _list(exchange: Exchange, data: list[dict[str, Any]], *, has_more: bool) -> web.Response:
    return object_answer(exchange, {"object": "list", **ListPage.members(data, has_more=has_more)})
