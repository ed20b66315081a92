"""`Handler`: answers HTTP requests. The one place where exceptions become answers.

``/docs``: a page that shows the OpenAPI document and lets people try requests.

The page is the repository's own, in three files of this folder: it loads nothing from other hosts,
so that it works on a machine without a network, and its policy forbids that too. Swagger UI and
Redoc would do the same in 1 to 2 MB of scripts that need inline styles.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from calculators.kit.requests.request_record import note_reason
from calculators.kit.tasks import ErrorForm, endpoint_at, find_task, is_servers
from calculators.tensors.inference import quoted
from servers import NAME, version
from servers.access import KEY_HEADERS, Access
from servers.contract.data_plane import DataPlane, ModelDescription, ReloadError, ServedEndpoint
from servers.contract.failure import clean, forget_frames
from servers.fronts.body_room import BodyHold, BodyRoom
from servers.fronts.http.answer_streams import with_warnings
from servers.fronts.http.browser_guard import BrowserGuard
from servers.fronts.http.connection import HttpConnection
from servers.fronts.http.errors import HttpError, http_error
from servers.fronts.http.exchange import (
    GOOGLE_KEY,
    Exchange,
    ListPage,
    body_length,
    is_probe,
    limit_time,
    log_cause,
    query_of,
    reason_of,
    request_end,
)
from servers.fronts.http.graph_request import MAX_MODEL_CHARS, GraphRequests
from servers.fronts.http.kserve_request import KserveRequests
from servers.fronts.http.message_stream import key_in_protocols, wants_socket
from servers.fronts.http.ollama_requests import RUNNING, OllamaRequests, capabilities_of
from servers.fronts.http.page_requests import (
    MakeDocument,
    PageFiles,
    PageRequests,
    PublishedDocument,
)
from servers.fronts.http.routes import (
    BATCHES_NOT_SERVED,
    CONTROLS,
    LM_STUDIO,
    NOTHING_KEPT,
    OF_BATCHES,
    OF_KEPT,
    OF_PAGE,
    POST,
    POSTED_ROOT,
    RUNS,
    VIEWS,
    Endpoint,
    Route,
    author_route,
    error_form,
    find_route,
    is_shared,
    kept_list,
    methods_at,
    nothing_at,
)
from servers.fronts.http.settings import HttpSettings
from servers.fronts.kserve_rest.inference_codec import describe_model
from servers.operations.request_log import RequestJournal, request_id_of
from servers.page.views import PageViews

if TYPE_CHECKING:
    from servers.batches.desk import BatchDesk
    from servers.fronts.http.batch_requests import BatchRequests
    from servers.fronts.http.kept_requests import KeptRequests

_FILES: Final = {
    "/docs": ("viewer.html", "text/html"),
    "/docs/viewer.js": ("viewer.js", "text/javascript"),
    "/docs/viewer.css": ("viewer.css", "text/css"),
}
#: Scripts, styles and requests of this server only; nothing inline; in no frame of another page.
_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


async def docs_answer(exchange: Exchange, path: str) -> web.Response:
    """Return the page, or one of its files."""
    name, content_type = _FILES[path]
    return web.Response(
        body=await asyncio.to_thread(_content, name),
        content_type=content_type,
        charset="utf-8",
        headers={**exchange.headers, **_HEADERS},
    )


@cache
def _content(name: str) -> bytes:
    return (files("servers.fronts.http") / "docs_page_files" / name).read_bytes()


# The supported extensions to KServe's protocol, by Triton's names.
_EXTENSIONS = ("binary_tensor_data", "generate", "model_repository", "parameters")
#: The header of Anthropic's clients, which know a list of models of another form.
_ANTHROPIC = "Anthropic-Version"
#: Headers of Google's clients.
_GOOGLE_CLIENT = "X-Goog-Api-Client"
_GOOGLE_KEY = "X-Goog-Api-Key"
_VERSION = re.compile(r"[0-9]{1,18}", re.ASCII)

#: The status of a reload that failed for some models and took effect for others.
_RELOADED_IN_PART = 422


def _import_kept_requests() -> type[KeptRequests]:
    from servers.fronts.http.kept_requests import KeptRequests

    return KeptRequests


#: Returns the body of ``/metrics`` and its media type for an Accept header.
MetricsText = Callable[[str], Awaitable[tuple[bytes, str]]]


class Handler:
    """Answers every request of a front; aiohttp calls `handle`."""

    def __init__(
        self,
        data_plane: DataPlane,
        settings: HttpSettings,
        journal: RequestJournal | None = None,
        document: MakeDocument | None = None,
        metrics: MetricsText | None = None,
        room: BodyRoom | None = None,
        views: PageViews | None = None,
        batches: BatchDesk | None = None,
    ) -> None:
        self._data_plane = data_plane
        self._journal = journal or RequestJournal()
        self._settings = settings
        self._guard = BrowserGuard(settings)
        self._room = room or BodyRoom()
        self._kserve = KserveRequests(data_plane, settings)
        store = None if batches is None else lambda: batches.store
        self._kept: KeptRequests | None = None
        keeps = settings.max_stored_responses > 0
        kept = self._kept_requests if keeps else None
        self._graphs = GraphRequests(data_plane, settings, self._guard, store, kept)
        self._page = PageRequests(views, settings, self._guard)
        self._ollama = OllamaRequests(data_plane, settings, self._guard)
        self._batches: BatchRequests | None = None
        if batches is not None:
            # Late: a server without batches imports none of their modules.
            from servers.fronts.http.batch_requests import BatchRequests

            self._batches = BatchRequests(batches, settings, self._guard)
        self._document = PublishedDocument(document, data_plane.endpoints)
        self._page_files = PageFiles(settings.page.files)
        self._metrics = metrics
        self.is_draining = False
        #: The port at which clients of Ollama look for it; 0: there is none of its own.
        self.ollama_port = 0

    async def _kept_requests(self) -> KeptRequests:
        if self._kept is None:
            # Late: most servers keep nothing. In a thread: modules are files.
            make = await asyncio.to_thread(_import_kept_requests)
            # Another request may have been faster.
            if self._kept is None:
                self._kept = make(self._settings, self._guard, self._journal)
        return self._kept

    async def open(self) -> None:
        """Open what is kept in a directory.

        Raises:
            StoreError: the directory cannot be used.
        """
        if self._settings.response_store is not None and self._settings.max_stored_responses:
            await (await self._kept_requests()).open()

    async def finish(self) -> None:
        """Wait for what is answered in the background."""
        if self._kept is not None:
            await self._kept.finish()

    async def close(self) -> None:
        """End what is answered in the background."""
        if self._kept is not None:
            await self._kept.close()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request. Raises only if the client is gone."""
        connection = request.protocol
        task = asyncio.current_task()
        assert isinstance(connection, HttpConnection)
        assert task is not None
        request_id = request_id_of(request.headers.get("X-Request-Id"))
        # The raw path, as routes are ASCII; without the query, where people put keys.
        path = request.raw_path.partition("?")[0]
        record = self._journal.begin(request_id, request.headers.get, is_probe=is_probe(path))
        # A task answers POST at the path of the page.
        is_page = path == "/" and request.method != "POST"
        endpoint = None if is_page else endpoint_at(path)
        form = error_form(path) if endpoint is None else endpoint.error_form
        # Headers first: few requests name another API by them.
        if form is ErrorForm.OPENAI and (named := _form_of(request.headers)) is not form:
            form = named if is_shared(path) else form
        served = self._of_authors(path) if endpoint is None else ()
        hold = BodyHold(self._room, request.content_length or 0)
        exchange = Exchange(request, connection, record, task, hold, endpoint, form, served)
        if form is ErrorForm.ANTHROPIC:
            exchange.headers["Request-Id"] = request_id  # the name that Anthropic's clients read
        sent = connection.head_bytes - connection.sent_bytes
        status = 499  # nginx's status for a client that left before its answer
        connection.begin(exchange)
        try:
            try:
                response = await self._dispatch(exchange, path)
            except asyncio.CancelledError as cancellation:
                response = _error_response(exchange, exchange.reason_of(cancellation))
            # SystemExit of a calculator is its request's 500 (decision 0092).
            except BaseException as raised:  # no code of an author ends the event loop
                response = _error_response(exchange, raised)
            status = response.status
            sent += body_length(response)
        finally:
            exchange.hold.release()
            exchange.client.forget()
            exchange.forget_deadline()
            connection.finish()
            sent += connection.sent_bytes - connection.head_bytes
            is_traced = record.trace is not None
            end = request_end(exchange, path, status, sent, is_traced=is_traced)
            self._journal.end(record, end)
        if not request.content.is_eof():
            exchange.keeps_alive = False  # the rest of the body is not read
        if status != 101 and wants_socket(request):
            exchange.keeps_alive = False  # what follows may be messages, and not a request
        if status != 101:
            connection.refuse_upgrade()
        if not exchange.keeps_alive:
            connection.is_last = True
            response.force_close()
        return response

    async def _dispatch(self, exchange: Exchange, path: str) -> web.StreamResponse:
        request = exchange.request
        _check_request_line(request)
        exchange.headers.update(self._guard.check(request.headers))
        access = self._settings.access
        # Browsers send preflight requests without a key.
        if access.keys is not None and request.method != "OPTIONS":
            # Before the route is known: without a key nobody learns which paths and models there
            # are.
            # The page is open; what is posted to its path is for a model.
            is_posted = path == "/" and request.method == "POST"
            access.check(POSTED_ROOT if is_posted else path, *_keys(exchange))
        if path == "/" and self._shows_no_page(request):
            return web.Response(text=RUNNING, headers=exchange.headers)
        route = find_route(path, request.method)
        if route is not None and route.endpoint is Endpoint.GRAPH and request.method != "POST":
            # A path whose POST runs a model may have a list of what is kept.
            route = kept_list(path, request.method) or route
        # A page that is switched off answers as if there were none; its path has others.
        is_page = route is not None and route.endpoint in OF_PAGE and path != "/"
        if is_page and not self._settings.page.page:
            route = None
        if exchange.served:
            route = author_route(
                method for each in exchange.served for method in each.endpoint.methods
            )
        exchange.route = route
        if route is None:
            raise HttpError(404, nothing_at(path))
        if request.method == "OPTIONS":
            return self._options(exchange, methods_at(path, route))
        if route.endpoint in OF_BATCHES and self._batches is None:
            raise HttpError(404, BATCHES_NOT_SERVED)
        if route.endpoint in OF_KEPT and not self._settings.max_stored_responses:
            raise HttpError(404, NOTHING_KEPT)
        if request.method not in route.methods:
            is_googles = route.endpoint is Endpoint.MODEL and request.method == "POST"
            is_googles = is_googles and exchange.error_form is ErrorForm.GOOGLE
            is_graphs = route.endpoint is Endpoint.GRAPH
            if is_googles or (is_graphs and not (exchange.endpoint or exchange.served)):
                raise HttpError(404, nothing_at(path))
            methods = methods_at(path, route)
            raise HttpError(
                405,
                f"the method must be {' or '.join(methods)} here",
                headers={"Allow": _allowed(methods)},
            )
        if route.endpoint is Endpoint.GRAPH:
            _note_client(exchange, access)
            if exchange.served:
                return await self._graphs.answer_at_own_path(exchange)
            return await self._graphs.answer(exchange, path)
        if route.endpoint in OF_KEPT:
            _note_client(exchange, access)
            return await (await self._kept_requests()).answer(exchange, route)
        if self._batches is not None and route.endpoint in OF_BATCHES:
            _note_client(exchange, access)
            return await self._batches.answer(exchange, route)
        if route.endpoint is Endpoint.OLLAMA:
            _note_client(exchange, access)
            return await self._ollama.answer(exchange, route.item)
        if route.endpoint in CONTROLS:
            access.check_control()
            self._guard.check_page(request.headers)
        if route.endpoint in VIEWS:
            return await self._page.answer(exchange, route)
        if route.endpoint in RUNS:
            _note_client(exchange, access)
            limit_time(exchange, self._settings.request_seconds)
        if path.startswith("/v2/"):
            _check_names(route)
        if route.endpoint is Endpoint.RELOAD:
            return await self._reload(exchange)
        if route.methods == POST:
            return await self._kserve.answer(exchange, route)
        return await self._look_up(exchange, route)

    def _of_authors(self, path: str) -> tuple[ServedEndpoint, ...]:
        """Return the endpoints of authors at a path that is not the server's own or a task's."""
        endpoints = self._data_plane.endpoints()
        if not endpoints or is_servers(path):
            return ()
        return tuple(each for each in endpoints if each.endpoint.match(path) is not None)

    def _shows_no_page(self, request: web.BaseRequest) -> bool:
        """Return whether ``/`` is what clients of Ollama ask it for, and not the page."""
        if request.method not in ("GET", "HEAD"):
            return False
        if not self._settings.page.page:
            return True
        # The page is for browsers there, too.
        wire = request.transport
        name = None if wire is None else wire.get_extra_info("sockname")
        is_there = name is not None and name[1] == self.ollama_port
        return is_there and "text/html" not in request.headers.get("Accept", "")

    def _options(self, exchange: Exchange, methods: tuple[str, ...]) -> web.Response:
        allowed = self._guard.preflight_headers(exchange.request.headers, (*methods, "OPTIONS"))
        headers = {**exchange.headers, "Allow": _allowed(methods), **allowed}
        return web.Response(status=204, headers=headers)

    async def _reload(self, exchange: Exchange) -> web.StreamResponse:
        """Answer 201 with all states if anything has changed, else 200, as OpenVINO Model Server.

        If some models failed, the answer is an error with names and reasons: 412, or 422 if others
        took effect.
        """
        try:
            has_changed = await self._data_plane.reload()
        except ReloadError as error:
            failed = {name: clean(reason) for name, reason in error.failed.items()}
            raise HttpError(
                _RELOADED_IN_PART if error.reloaded else 412,
                clean(error.message),
                details={"reloaded": list(error.reloaded), "failed": failed},
            ) from error
        return _json(exchange, self._data_plane.statuses(), status=201 if has_changed else 200)

    def _check_ready(self) -> None:
        if self.is_draining or not self._data_plane.is_ready:
            raise HttpError(503, "the server is not ready")

    async def _look_up(self, exchange: Exchange, route: Route) -> web.StreamResponse:
        match route.endpoint:
            # The bodies of KServe's own server, which its client expects.
            case Endpoint.LIVE:
                return _json(exchange, {"live": True})
            case Endpoint.READY:
                self._check_ready()
                return _json(exchange, {"ready": True})
            # The body of llama.cpp's server; others answer without one.
            case Endpoint.HEALTH:
                self._check_ready()
                return _json(exchange, {"status": "ok"})
            case Endpoint.VERSION:
                return _json(exchange, {"version": version()})
            case Endpoint.PAGE:
                return await self._page_files.answer(exchange, route.item)
            case Endpoint.DOCS:
                return await docs_answer(exchange, exchange.request.path)
            case Endpoint.SERVER:
                return _json(
                    exchange,
                    {"name": NAME, "version": version(), "extensions": _EXTENSIONS},
                )
            case Endpoint.METADATA:
                metadata = await self._data_plane.metadata(route.model, route.version)
                return _json(exchange, describe_model(metadata))
            case Endpoint.MODEL_READY:
                # During a drain a model can still answer what is in flight, but an orchestrator
                # must send nothing more (decision 0043).
                is_ready = self._data_plane.is_model_ready(route.model, route.version)
                if self.is_draining or not is_ready:
                    raise HttpError(503, "the model is not ready")
                return web.Response(headers=exchange.headers)
            case Endpoint.STATUSES:
                return _json(exchange, self._data_plane.statuses())
            case Endpoint.MODELS:
                known = self._data_plane.models()
                if route.item == LM_STUDIO:
                    data = list(map(_lm_studio_model, known))
                    return _json(exchange, {"object": "list", "data": data})
                if exchange.error_form is ErrorForm.ANTHROPIC:
                    return _json(exchange, _anthropic_models(known))
                if exchange.error_form is ErrorForm.GOOGLE:
                    return _json(exchange, {"models": list(map(_google_model, known))})
                models = [_model_object(model) for model in known]
                return _json(exchange, {"object": "list", "data": models})
            case Endpoint.MODEL:
                describe = _DESCRIBED[exchange.error_form]
                if route.item == LM_STUDIO:
                    describe = _lm_studio_model
                for model in self._data_plane.models():
                    if model.name == route.model:
                        return _json(exchange, describe(model))
                raise HttpError(404, "no such model", param="model", code="model_not_found")
            case Endpoint.OPENAPI:
                return await self._document.answer(exchange)
            case Endpoint.METRICS:
                if self._metrics is None:
                    raise HttpError(404, "metrics are not served")
                body, content_type = await self._metrics(exchange.request.headers.get("Accept", ""))
                headers = {**exchange.headers, "Content-Type": content_type}
                return web.Response(body=body, headers=headers)
            case _:
                raise AssertionError(f"{route.endpoint} is not looked up")


def _form_of(headers: Mapping[str, str]) -> ErrorForm:
    """Return the form that the client of a path of several APIs expects, by its headers."""
    if _ANTHROPIC in headers:
        return ErrorForm.ANTHROPIC
    is_googles = _GOOGLE_CLIENT in headers or _GOOGLE_KEY in headers
    return ErrorForm.GOOGLE if is_googles else ErrorForm.OPENAI


def _note_client(exchange: Exchange, access: Access) -> None:
    """Put the client's identity into the request's record."""
    client = exchange.connection.client
    if access.keys is not None:
        client = access.client(client, *_keys(exchange))
    exchange.record.client = client


def _keys(exchange: Exchange) -> tuple[str | None, ...]:
    """Return the values of `KEY_HEADERS`; Google's clients may put the key into the query."""
    request = exchange.request
    keys = (_authorization(request), *map(request.headers.get, KEY_HEADERS[1:]))
    if exchange.error_form is ErrorForm.GOOGLE and "key=" in request.raw_path:
        return (*keys, query_of(request).get(GOOGLE_KEY))
    return keys


def _authorization(request: web.BaseRequest) -> str | None:
    """Return the header with a key; a page that opens a WebSocket cannot send it."""
    authorization = request.headers.get("Authorization")
    if authorization is None and wants_socket(request):
        return key_in_protocols(request)
    return authorization


def _check_request_line(request: web.BaseRequest) -> None:
    if not (1, 0) <= request.version <= (1, 1):
        raise HttpError(505, "only HTTP/1.0 and HTTP/1.1 are supported")
    if not request.raw_path.startswith("/"):
        raise HttpError(400, "the request's target must be a path: this server is not a proxy")
    expect = request.headers.get("Expect")
    if expect is not None and expect.lower() != "100-continue":
        raise HttpError(417, "the only supported Expect is 100-continue")


def _check_names(route: Route) -> None:
    """Refuse names that no model and no version can have, before they are looked up."""
    if len(route.model) > MAX_MODEL_CHARS:
        raise HttpError(404, "no such model")
    if route.version and _VERSION.fullmatch(route.version) is None:
        raise HttpError(
            404, f"there is no version {clean(quoted(route.version))}: versions are whole numbers"
        )


def _allowed(methods: Iterable[str]) -> str:
    return ", ".join((*methods, "OPTIONS"))


def _json(exchange: Exchange, value: object, status: int = 200) -> web.Response:
    return web.Response(
        status=status,
        body=json.dumps(value).encode(),
        content_type="application/json",
        headers=exchange.headers,
    )


def _error_response(exchange: Exchange, raised: BaseException) -> web.Response:
    """Return the answer for what a request has raised, and log it.

    Raises:
        CancelledError: the client is gone.
    """
    if exchange.client.is_disconnected:
        del raised
        raise asyncio.CancelledError from None
    error = http_error(raised, exchange.request_id)
    try:
        log_cause(error, exchange.request_id)
        note_reason(reason_of(error))
        return web.Response(
            status=error.status,
            body=error.body(exchange.error_form, exchange.request_id),
            content_type="application/json",
            headers={**with_warnings(exchange.headers, exchange.record.warnings), **error.headers},
        )
    finally:
        forget_frames(raised)
        del error, raised  # this frame is in their traceback: a cycle would keep the body


def _anthropic_model(model: ModelDescription) -> dict[str, Any]:
    length = model.facts.get("max_model_len")
    created = datetime.fromtimestamp(model.created, UTC)
    return {
        "type": "model",
        "id": model.name,
        "display_name": model.name,
        "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        # Prompt and answer share the length.
        "max_input_tokens": length,
        "max_tokens": length,
    }


def _anthropic_models(models: Iterable[ModelDescription]) -> Mapping[str, Any]:
    """Return the list as Anthropic's clients read it: one page with all models."""
    return ListPage.members([_anthropic_model(model) for model in models], has_more=False)


def _model_object(model: ModelDescription) -> dict[str, Any]:
    found: dict[str, Any] = {
        "id": model.name,
        "object": "model",
        "created": model.created,
        "owned_by": NAME,
        **model.facts,
    }
    if model.task:
        found["task"] = model.task
        task = find_task(model.task)
        if task is not None:
            found["endpoints"] = list(dict.fromkeys(each.path for each in task.endpoints))
    if model.parent:
        # An adapter, as in vLLM, where the root is a path.
        found |= {"root": model.parent, "parent": model.parent}
    return found


def _google_model(model: ModelDescription) -> dict[str, Any]:
    length = model.facts.get("max_model_len")
    task = find_task(model.task) if model.task else None
    paths = [each.path for each in task.endpoints if each.names_model] if task else []
    found: dict[str, Any] = {
        "name": f"models/{model.name}",
        "baseModelId": model.parent or model.name,
        "version": "1",
        "displayName": model.name,
        "supportedGenerationMethods": [path.rpartition(":")[2] for path in paths],
    }
    if length is not None:
        # Prompt and answer share the length.
        found |= {"inputTokenLimit": length, "outputTokenLimit": length}
    return found


def _lm_studio_model(model: ModelDescription) -> dict[str, Any]:
    words = capabilities_of(model)
    # Its plural is their word for a model that does one thing.
    kind = f"{words[0]}s" if words else model.task
    if "completion" in words:
        kind = "vlm" if "vision" in words else "llm"
    length = model.facts.get("max_model_len")
    return {
        "id": model.name,
        "object": "model",
        "type": kind,
        "publisher": NAME,
        "arch": model.card.architecture or None,
        # One of the two words that clients know.
        "compatibility_type": "gguf",
        "quantization": model.card.quantization or None,
        "state": "loaded" if length is not None else "not-loaded",
        "max_context_length": length,
        "loaded_context_length": length,
        "capabilities": ["tool_use"] if "tools" in words else [],
    }


_DESCRIBED: Final = {
    ErrorForm.OPENAI: _model_object,
    ErrorForm.ANTHROPIC: _anthropic_model,
    ErrorForm.GOOGLE: _google_model,
}
