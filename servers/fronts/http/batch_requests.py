"""Requests for files and batches, OpenAI's ``/v1/files`` and ``/v1/batches``."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

from aiohttp import web

from calculators.kit.requests.multipart_form import MultipartForm
from calculators.kit.tasks import endpoint_at
from servers.batches.batch_members import ANCHOR, read_creation, seconds_of
from servers.batches.clock import unix_seconds
from servers.batches.desk import BatchDesk
from servers.batches.errors import NotNowError, NotStoredError, StorageFullError, StoreError
from servers.batches.objects import INPUT_PURPOSE
from servers.batches.request_lines import is_path
from servers.fronts.http.body import read_json
from servers.fronts.http.browser_guard import BrowserGuard
from servers.fronts.http.errors import HttpError
from servers.fronts.http.exchange import Exchange
from servers.fronts.http.file_answer import send_file
from servers.fronts.http.file_upload import discard, receive_upload
from servers.fronts.http.form_body import FORM, has_form
from servers.fronts.http.plain_exchange import json_answer, query_of
from servers.fronts.http.routes import RUNS, Endpoint, Route, find_route
from servers.fronts.http.settings import HttpSettings

NOT_SERVED: Final = (
    "files and batches are not served here; the server's --batch_dir names a directory for them"
)
_MOST_LISTED: Final = {Endpoint.FILES: 10_000, Endpoint.BATCHES: 100}
_LISTED: Final = {Endpoint.FILES: 10_000, Endpoint.BATCHES: 20}
_LONGEST_NAME: Final = 255
#: Uploads at a time; each has a file open.
_MOST_UPLOADS: Final = 64


class BatchRequests:
    """Answers the requests of one front. Without a ``desk`` the paths are not served."""

    def __init__(self, desk: BatchDesk | None, settings: HttpSettings, guard: BrowserGuard) -> None:
        self._desk = desk
        self._settings = settings
        self._guard = guard
        self._uploads = 0

    @property
    def are_served(self) -> bool:
        return self._desk is not None

    async def answer(self, exchange: Exchange, route: Route) -> web.StreamResponse:
        """Answer a request of `servers.fronts.http.routes.OF_BATCHES`.

        Raises:
            Exception: nothing has been sent; the answer is `http_error` of it.
        """
        assert self._desk is not None
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
        owner, item = self._owner(exchange), route.item
        is_read = exchange.request.method in ("GET", "HEAD")
        match route.endpoint:
            case Endpoint.FILES if is_read:
                return await self._list_files(desk, exchange, owner)
            case Endpoint.FILES:
                return await self._upload(desk, exchange, owner)
            case Endpoint.FILE if is_read:
                file = await desk.ask(desk.store.file, item, owner, unix_seconds())
                return _json(exchange, file.to_object())
            case Endpoint.FILE:
                self._guard.check_page(exchange.request.headers)
                await desk.ask(desk.store.delete_file, item, owner, unix_seconds())
                return _json(exchange, {"id": item, "object": "file", "deleted": True})
            case Endpoint.FILE_CONTENT:
                file = await desk.ask(desk.store.file, item, owner, unix_seconds())
                return await send_file(exchange, desk.store.path_of(file.id), file.size)
            case Endpoint.BATCHES if is_read:
                return await self._list_batches(desk, exchange, owner)
            case Endpoint.BATCHES:
                return await self._create(desk, exchange, owner)
            case Endpoint.BATCH:
                batch = await desk.ask(desk.store.batch, item, owner)
                return _json(exchange, batch.to_object())
            case _:
                self._guard.check_page(exchange.request.headers)
                batch = await desk.ask(desk.store.cancel, item, owner, unix_seconds())
                return _json(exchange, batch.to_object())

    def _owner(self, exchange: Exchange) -> str:
        """Return the client to whom files and batches belong: its key, where keys are needed."""
        name = exchange.record.client.name
        return name if self._settings.access.keys is not None else ""

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
        return _json(exchange, file.to_object())

    async def _list_files(
        self, desk: BatchDesk, exchange: Exchange, owner: str
    ) -> web.StreamResponse:
        query = query_of(exchange.request)
        order = query.get("order", "desc")
        if order not in ("asc", "desc"):
            raise HttpError(400, "order must be asc or desc", param="order")
        files, has_more = await desk.ask(
            desk.store.files,
            owner,
            unix_seconds(),
            purpose=query.get("purpose"),
            after=query.get("after", ""),
            limit=_limit(query, Endpoint.FILES),
            ascending=order == "asc",
        )
        return _list(exchange, [each.to_object() for each in files], has_more=has_more)

    async def _list_batches(
        self, desk: BatchDesk, exchange: Exchange, owner: str
    ) -> web.StreamResponse:
        query = query_of(exchange.request)
        limit = _limit(query, Endpoint.BATCHES)
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
        return _json(exchange, batch.to_object())


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
    if purpose is None:
        raise HttpError(400, f'the form needs a purpose, "{INPUT_PURPOSE}"', param="purpose")
    if purpose != INPUT_PURPOSE:
        text = f'the only purpose of files here is "{INPUT_PURPOSE}"'
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


def _limit(query: dict[str, str], endpoint: Endpoint) -> int:
    text = query.get("limit")
    if text is None:
        return _LISTED[endpoint]
    most = _MOST_LISTED[endpoint]
    if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
        raise HttpError(400, f"limit must be a number from 1 to {most}", param="limit")
    return int(text)


def _list(exchange: Exchange, data: list[dict[str, Any]], *, has_more: bool) -> web.Response:
    return _json(
        exchange,
        {
            "object": "list",
            "data": data,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
            "has_more": has_more,
        },
    )


def _json(exchange: Exchange, value: object) -> web.Response:
    return json_answer(exchange, json.dumps(value).encode())
