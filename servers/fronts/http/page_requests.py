"""Requests of the page: its files, its live data, and the OpenAPI document.

The live stream, drawings and timelines of what runs are for operators too.

The files of the page (``GET /`` and ``GET /page/*``) are built from the folder ``page`` of the
sources and shipped compressed, each as NAME.gz. Their text is the same on every server and contains
nothing of it, so they need no key; everything that they show comes from below ``/v1``, where keys
are asked for. All addresses in them are relative, so a proxy may serve them below any prefix that
it strips.

The OpenAPI document is made for the first client that asks: most servers are never asked, and it
takes a tenth of a server's start.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

import msgspec
from aiohttp import web

from calculators.kit.requests.fields import whole
from calculators.kit.tasks import AuthorEndpoint, ErrorForm
from servers.contract.data_plane import ServedEndpoint
from servers.fronts.http.answer_streams import EventStream
from servers.fronts.http.body import read_json
from servers.fronts.http.browser_guard import BrowserGuard
from servers.fronts.http.errors import HttpError
from servers.fronts.http.exchange import Exchange, answer_in_events, json_answer, query_of
from servers.fronts.http.routes import Endpoint, Route, nothing_at
from servers.fronts.http.settings import HttpSettings
from servers.page.events import FollowRequest
from servers.page.scratch import Scratch
from servers.page.scratch_messages import DraftCheck, DraftRun
from servers.page.views import PageViews

#: Makes the document as JSON, with these endpoints of authors; called in a thread.
MakeDocument: TypeAlias = Callable[[Sequence[AuthorEndpoint]], bytes]


class PublishedDocument:
    """Answers with the document, or with 304 to a client that has it."""

    def __init__(
        self, make: MakeDocument | None, endpoints: Callable[[], Sequence[ServedEndpoint]]
    ) -> None:
        """``make``: None if there is no document. ``endpoints``: of authors, which may change."""
        self._make = make
        self._endpoints = endpoints
        self._described: Sequence[ServedEndpoint] = ()
        self._making = asyncio.Lock()
        self._content = b""
        self._tag = ""

    async def answer(self, exchange: Exchange) -> web.Response:
        """Return the document or 304.

        Raises:
            HttpError: 404, there is no document.
        """
        if self._make is None:
            raise HttpError(404, "this server has no OpenAPI document")
        async with self._making:
            endpoints = self._endpoints()
            if not self._content or endpoints != self._described:
                self._described = endpoints
                described = [each.endpoint for each in endpoints]
                self._content = await asyncio.to_thread(self._make, described)
                self._tag = hashlib.sha256(self._content).hexdigest()[:32]
        headers = {
            **exchange.headers,
            "ETag": f'"{self._tag}"',
            "Cache-Control": "no-cache",  # may be cached, and must be validated each time
        }
        if self._is_known(exchange.request):
            return web.Response(status=304, headers=headers)
        return web.Response(body=self._content, content_type="application/json", headers=headers)

    def _is_known(self, request: web.BaseRequest) -> bool:
        known = request.headers.get("If-None-Match", "").split(",")
        return any(tag.strip().removeprefix("W/") in ("*", f'"{self._tag}"') for tag in known)


#: The name of the file at ``/``.
INDEX: Final = "index.html"

_TYPES: Final = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "json": "application/json",
    "svg": "image/svg+xml",
    "txt": "text/plain",
    "woff2": "font/woff2",
}
_TEXTS: Final = frozenset({"css", "html", "js", "txt"})

#: The policy of the page: own scripts, styles, fonts and requests only; nothing inline; no value
#: becomes HTML or a script's address without one of the three named policies.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; worker-src 'self'; media-src 'self' data: blob:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types svelte-trusted-html dompurify graphrt"
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(self)",
    "Vary": "Accept-Encoding",
}
_VALIDATED: Final = "no-cache"  # may be cached, and must be validated each time
_FOR_EVER: Final = "public, max-age=31536000, immutable"

#: The bundler's names: a name, eight characters of a hash, and the ending.
_HASHED: Final = re.compile(r".+-[A-Za-z0-9_-]{8}\.[a-z0-9]+")
_NO_QUALITY: Final = re.compile(r"q=0(\.0{0,3})?")


class PageFiles:
    """The built files of the page. They are found when this is made, and read when first sent."""

    def __init__(self, folder: Path) -> None:
        self._files = {
            path.name.removesuffix(".gz"): _PageFile(path) for path in folder.glob("*.gz")
        }

    async def answer(self, exchange: Exchange, name: str) -> web.Response:
        """Return the file of this name, or 304 to a client that has it.

        Raises:
            HttpError: 404, there is no such file; for `INDEX` also if the client takes no HTML.
        """
        file = self._files.get(name)
        request = exchange.request
        if INDEX not in self._files:
            raise HttpError(
                404,
                "the page is not part of this installation: in a checkout, `npm ci && npm run "
                "build` in the folder page builds it; /docs and /openapi.json describe the server",
            )
        if file is None:
            raise HttpError(
                404,
                "the page has no file of this name; if the page shown is of another version, "
                "reload it",
            )
        if name == INDEX and not _takes_html(request.headers.get("Accept", "")):
            raise HttpError(404, "here is a page, text/html; /openapi.json lists what is served")
        is_packed = _takes_gzip(request.headers.get("Accept-Encoding", ""))
        content = await file.content(is_packed)
        # Each coding of a content needs a tag of its own (RFC 9110, 8.8.3.3).
        tag = file.tag if is_packed else f"{file.tag}-plain"
        headers = {
            **exchange.headers,
            **_HEADERS,
            "ETag": f'"{tag}"',
            "Cache-Control": _FOR_EVER if _HASHED.fullmatch(name) else _VALIDATED,
        }
        known = request.headers.get("If-None-Match", "").split(",")
        # If-None-Match compares weakly (RFC 9110, 13.1.2): a proxy that packs may have made the tag
        # weak.
        if any(each.strip().removeprefix("W/") in ("*", f'"{tag}"') for each in known):
            return web.Response(status=304, headers=headers)
        if is_packed:
            headers["Content-Encoding"] = "gzip"
        ending = name.rpartition(".")[2]
        return web.Response(
            body=content,
            content_type=_TYPES.get(ending, "application/octet-stream"),
            charset="utf-8" if ending in _TEXTS else None,
            headers=headers,
        )


class _PageFile:
    """One file as shipped, and inflated. ``tag``: its digest, once it has been read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._contents: dict[bool, bytes] = {}
        self.tag = ""

    async def content(self, is_packed: bool) -> bytes:
        if is_packed not in self._contents:
            self._contents[is_packed] = await asyncio.to_thread(self._read, is_packed)
        return self._contents[is_packed]

    def _read(self, is_packed: bool) -> bytes:
        packed = self._path.read_bytes()
        self.tag = hashlib.sha256(packed).hexdigest()[:32]
        return packed if is_packed else gzip.decompress(packed)


def _takes_gzip(accepted: str) -> bool:
    """Return whether a header Accept-Encoding names gzip, or everything, with a quality above 0."""
    qualities = {}
    for each in accepted.lower().split(","):
        coding, _, parameter = each.partition(";")
        qualities[coding.strip()] = _NO_QUALITY.fullmatch(parameter.replace(" ", "")) is None
    return qualities.get("gzip", qualities.get("*", False))


def _takes_html(accepted: str) -> bool:
    """Return whether a header Accept allows HTML; without the header, everything is allowed."""
    kinds = {each.partition(";")[0].strip().lower() for each in accepted.split(",")}
    return not accepted.strip() or bool(kinds & {"text/html", "text/*", "*/*"})


T = TypeVar("T")

_FORMATS = ("timeline", "perfetto")


class PageRequests:
    """Answers the requests of one front. Without ``views`` its paths are not served."""

    def __init__(
        self, views: PageViews | None, settings: HttpSettings, guard: BrowserGuard
    ) -> None:
        self._views = views if settings.page.page else None
        self._settings = settings
        self._guard = guard

    async def answer(self, exchange: Exchange, route: Route) -> web.StreamResponse:
        """Answer a request of `servers.fronts.http.routes.VIEWS`.

        Raises:
            Exception: nothing has been sent; the answer is `http_error` of it.
        """
        views = self._views
        if views is None:
            raise HttpError(404, nothing_at(exchange.request.path))
        self._guard.check_page(exchange.request.headers)
        query = query_of(exchange.request)
        match route.endpoint:
            case Endpoint.LIVE_EVENTS:
                return await self._live(exchange, views, query)
            case Endpoint.GRAPH_VIEW:
                expand = [each for each in query.get("expand", "").split(",") if each]
                direction = query.get("direction", "")
                return _json(exchange, await views.graph(route.model, expand, direction))
            case Endpoint.NODE_VIEW:
                return _json(exchange, await views.node(route.model, route.item))
            case Endpoint.REQUEST_VIEW:
                return await self._request(exchange, views, route.item, query)
            case Endpoint.CALCULATORS:
                return _json(exchange, await views.calculators())
            case Endpoint.CALCULATOR:
                return _json(exchange, await views.calculator(route.item))
            case Endpoint.SCRATCH_CHECK:
                scratch = self._scratch(views)
                draft = await self._body(exchange, DraftCheck)
                return _json(exchange, await scratch.check(draft))
            case Endpoint.SCRATCH_RUN:
                scratch = self._scratch(views)
                asked_run = await self._body(exchange, DraftRun)
                return _json(exchange, await scratch.run(asked_run))
            case _:
                asked = await self._body(exchange, FollowRequest)
                return _json(exchange, views.follow(route.model, asked), status=202)

    def _scratch(self, views: PageViews) -> Scratch:
        if views.scratch is None:
            raise HttpError(
                403,
                "graphs cannot be checked and tried here; the server's --page_edit=true allows it",
            )
        return views.scratch

    async def _body(self, exchange: Exchange, kind: type[T]) -> T:
        _, body = await read_json(exchange.request, self._settings, exchange.hold)
        if isinstance(body, dict):
            body = {name: whole(value) for name, value in body.items()}
        try:
            return msgspec.convert(body, kind)
        except msgspec.ValidationError as error:
            raise HttpError(400, f"the body is not valid: {error}") from None

    async def _live(
        self, exchange: Exchange, views: PageViews, query: Mapping[str, str]
    ) -> web.StreamResponse:
        reader = views.reader(query.get("graphs", ""), query.get("hz", ""), query.get("focus", ""))
        client = exchange.client

        async def run(stream: EventStream) -> None:
            await views.feed.read(reader, stream.emit, lambda: client.is_writable)

        return await answer_in_events(exchange, ErrorForm.KSERVE, run)

    async def _request(
        self, exchange: Exchange, views: PageViews, request_id: str, query: Mapping[str, str]
    ) -> web.StreamResponse:
        form = query.get("format", "timeline")
        if form not in _FORMATS:
            raise HttpError(400, f"one of {', '.join(_FORMATS)} is needed", param="format")
        if form == "timeline":
            return _json(exchange, await views.timeline(request_id))
        trace = await views.perfetto(request_id)
        # The id is harmless in a header: only such ids are taken from clients.
        name = f'attachment; filename="{request_id}.json"'
        exchange.headers["Content-Disposition"] = name
        return _json(exchange, trace)


def _json(exchange: Exchange, value: object, status: int = 200) -> web.Response:
    return json_answer(exchange, msgspec.json.encode(value), status)
