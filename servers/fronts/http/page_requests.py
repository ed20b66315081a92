"""Requests for what runs: the live stream, drawings, timelines. For the page and for operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from aiohttp import web

from calculators.kit.tasks import ErrorForm
from servers.fronts.http.body import read_json
from servers.fronts.http.browser_guard import BrowserGuard
from servers.fronts.http.errors import HttpError
from servers.fronts.http.event_answer import answer_in_events
from servers.fronts.http.event_stream import EventStream
from servers.fronts.http.exchange import Exchange
from servers.fronts.http.plain_exchange import json_answer, query_of
from servers.fronts.http.routes import Endpoint, Route, nothing_at
from servers.fronts.http.settings import HttpSettings
from servers.page.events import FollowRequest
from servers.page.scratch import Scratch
from servers.page.scratch_messages import DraftCheck, DraftRun
from servers.page.views import PageViews

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
