"""Requests to graphs: under ``/v3/`` and ``/v1/``, and at the whole paths that tasks have."""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote_to_bytes

from aiohttp import web
from msgspec import Struct

from calculators.kit.requests.form_members import NOTHING
from calculators.kit.requests.http_answer import HttpAnswer, ResponsePacket
from calculators.kit.requests.http_payload import (
    ClientConnection,
    FormFile,
    HttpPayload,
    Messages,
    MultipartForm,
    WebDocuments,
)
from calculators.kit.requests.request_record import RequestRecord
from calculators.kit.tasks import ErrorForm, StreamForm, TaskEndpoint, declared_path, tasks_at
from calculators.kit.tasks.operation import EVENTS, JSON
from graph_runtime import Code, FamilySettings, GraphError, NotFoundError
from servers.access import KEY_HEADERS
from servers.contract.data_plane import DataPlane, LoadedServable, Method
from servers.fronts.http.answer_streams import AnswerStream, SentResponse, with_warnings
from servers.fronts.http.body import check_encoding, has_json, read_bytes, read_json
from servers.fronts.http.browser_guard import BrowserGuard
from servers.fronts.http.errors import HttpError
from servers.fronts.http.exchange import (
    GOOGLE_KEY,
    TIMEOUT,
    Exchange,
    fail_stream,
    limit_time,
    limit_time_by,
    owner_of,
    query_of,
    send_whole,
)
from servers.fronts.http.form_body import FORM, has_form, read_form
from servers.fronts.http.message_stream import KEY_PROTOCOL, MessageStream, wants_socket
from servers.fronts.http.ollama_requests import check_sender, names_of, no_model, released_model
from servers.fronts.http.routes import may_stream, nothing_at
from servers.fronts.http.settings import BATCH_HEADER, HttpSettings

if TYPE_CHECKING:
    from servers.batches.store import BatchStore
    from servers.fronts.http.kept_requests import AnswerKeeper, KeptRequests

_log = logging.getLogger(__name__)
_JSON_FIELDS = {"Content-Type": JSON}
#: The beginnings of server-sent events; a comment begins with a colon.
_FIELDS_OF_EVENTS: Final = ("data:", "event:", "id:", "retry:", ":")
_STREAMS: Final[dict[type, tuple[Any, ...]]] = {
    str: _FIELDS_OF_EVENTS,
    bytes: tuple(each.encode() for each in _FIELDS_OF_EVENTS),
}
_EVENT_CHARS: Final = max(map(len, _FIELDS_OF_EVENTS))
#: Endpoints whose requests may continue what is kept.
_CONTINUING = frozenset({"/responses", "/responses/input_tokens", "/responses/compact"})
#: The first character of a packet that may be JSON.
_OBJECT = ("{", b"{")


class GraphAnswer(Struct, eq=False):
    """Takes the packets of a graph, and sends the pieces of a streamed answer at once.

    Attributes:
        stream: the answer, if it is sent in pieces: packets of ``str`` or ``bytes`` are its
            events. Else the first one is JSON.
        events_of: makes the events of a first packet that is JSON; raises `ValueError` if it is
            none.
        finds_events: a first packet that is made of events begins a stream; else only the request
            does.
        has_begun: there was a packet.
        further: the number of packets after the first one of an answer that is whole.
        body: the first packet of an answer that is JSON.
        whole: an answer that names its type.
        kept: keeps the answer; None: it is not kept.
    """

    exchange: Exchange
    form: ErrorForm
    stream: AnswerStream | None
    events_of: Callable[[str], str] | None = None
    finds_events: bool = False
    has_begun: bool = False
    further: int = 0
    body: bytes | None = None
    whole: HttpAnswer | None = None
    kept: AnswerKeeper | None = None

    def emit(self, packet: ResponsePacket) -> None:
        """Take a packet. Must be called on the event loop.

        Raises:
            GraphError: an `HttpAnswer` is not the first packet.
        """
        if isinstance(packet, HttpAnswer):
            self._begin(packet)
        elif self.stream is not None or (self.finds_events and self._begin_events(packet)):
            assert self.stream is not None
            if not self.has_begun and self.events_of is not None:
                packet = _as_events(packet, self.events_of)
            if self.kept is not None:
                packet = self.kept.watch(packet)
            self.stream.emit(packet)
        elif self.whole is not None or self.body is not None:
            self.further += 1
        else:
            # "replace": half of a surrogate pair, which a model may write, has no form in UTF-8.
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
        if self.kept is not None:
            await self.kept.end(self.body, self._send_piece)
        if self.body is not None:
            return await self._send_whole(_JSON_FIELDS, self.body)
        if whole is not None:
            # The front's own headers take precedence.
            taken = self.exchange.headers
            fields = {name: value for name, value in whole.headers.items() if name not in taken}
            fields["Content-Type"] = whole.content_type
            return await self._send_whole(fields, whole.body)
        if self.stream is None or not (self.has_begun or self.stream.has_started):
            raise RuntimeError("the graph gave no answer")
        self.stream.end()
        return SentResponse()

    def _send_piece(self, packet: str | bytes) -> None:
        if self.stream is not None:
            self.stream.emit(packet)

    def fail(self, raised: Exception) -> None:
        """End a stream that has begun, because ``raised`` ended its request."""
        assert self.stream is not None
        if self.kept is not None:
            self.kept.release(self._send_piece)
        fail_stream(self.exchange, self.stream, raised)

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

    def _begin_events(self, packet: str | bytes) -> bool:
        """Begin a stream if the first packet is made of events, which no JSON begins like."""
        if self.has_begun:
            return False
        if not packet[:_EVENT_CHARS].startswith(_STREAMS.get(type(packet), ())):
            return False
        self.stream = self.exchange.begin_stream(self.form)
        return True

    def _drop_stream(self) -> None:
        self.stream = self.exchange.stream = None


def _as_events(packet: str | bytes, events_of: Callable[[str], str]) -> str | bytes:
    """Return the events of a packet that is JSON, and any other packet as it is."""
    if packet[:1] not in _OBJECT:
        return packet
    text = packet if isinstance(packet, str) else packet.decode("utf-8", "replace")
    try:
        return events_of(text)
    except ValueError:
        return packet


_TRUTHS = {"true": True, "false": False}


def front_members(form: MultipartForm) -> dict[str, Any]:
    """Return model, stream and timeout; an empty stream or timeout, or one of "null", is absent.

    A text that is not a boolean or number stays one, for the error.

    Raises:
        HttpError: 400, one occurs twice or is a file.
    """
    members: dict[str, Any] = {}
    for name in ("model", "stream", TIMEOUT):
        texts = form.fields.get(name, [])
        if name in form.files:
            raise HttpError(400, f"{name} must be a text of the form, not a file", param=name)
        if len(texts) > 1:
            raise HttpError(400, f"the form has {name} {len(texts)} times", param=name)
        if texts:
            members[name] = texts[0]
    stream = members.get("stream")
    if stream is not None:
        text = stream.strip().lower()
        members["stream"] = None if text in NOTHING else _TRUTHS.get(text, stream)
    timeout = members.get(TIMEOUT)
    if timeout is not None:
        members[TIMEOUT] = _number(timeout)
    return members


def _number(text: str) -> float | str | None:
    try:
        return float(text)
    except ValueError:
        return None if text.strip().lower() in NOTHING else text


# Nothing is served under a longer name, so similar names are not searched for.
MAX_MODEL_CHARS = 1024
#: Members of a request that the events of an answer depend on.
_OF_EVENTS = ("model", "stream_options", "alt")


@dataclass(frozen=True, slots=True)
class ClientDocuments:
    """A `calculators.kit.requests.http_payload.Documents` of one client.

    Attributes:
        store: returns the store that has the files.
        owner: the client to whom its files belong, or the number of the batch whose client it is.
        settings: the settings of each family of calculators.
    """

    store: Callable[[], BatchStore]
    owner: str | int
    settings: FamilySettings

    async def uploaded(self, file_id: str, most_bytes: int) -> FormFile:
        # Late: a server without files imports none of these modules.
        from servers.batches.objects import NotStoredError, unix_seconds

        store, owner = self.store(), self.owner
        try:
            if isinstance(owner, int):
                owner = (await asyncio.to_thread(store.numbered, owner)).owner
            file = await asyncio.to_thread(store.file, file_id, owner, unix_seconds())
            if file.size > most_bytes:
                raise ValueError(f"the document is larger than {most_bytes} bytes")
            content = await asyncio.to_thread(store.content, file)
        except NotStoredError:
            raise ValueError("the client has uploaded no such file") from None
        return FormFile(file.filename, "", content)


class GraphRequests:
    """Runs the graphs that requests name, and answers with their packets."""

    def __init__(
        self,
        data_plane: DataPlane,
        settings: HttpSettings,
        guard: BrowserGuard,
        store: Callable[[], BatchStore] | None = None,
        kept: Callable[[], Awaitable[KeptRequests]] | None = None,
    ) -> None:
        """
        Args:
            store: returns the store of the files that requests name; None: there are none.
            kept: returns what keeps answers; None: none are kept.
        """
        self._store = store
        self._kept = kept
        self._data_plane = data_plane
        self._settings = settings
        self._guard = guard
        self._sockets = 0

    async def answer(self, exchange: Exchange, path: str) -> web.StreamResponse:
        """Answer one request.

        Raises:
            Exception: nothing has been sent; the answer is `http_error` of it.
        """
        endpoint = exchange.endpoint
        if endpoint is not None and endpoint.is_socket:
            # It lasts as long as it is used; only the client's own limit counts.
            limit_time(exchange, 0)
            members = _query_members(exchange.request)
            model = self._model_of(members, path, endpoint, exchange.request.method)
            return await self._answer_socket(exchange, model)
        limit_time(exchange, self._settings.request_seconds)
        request = exchange.request
        body, value, form, asked = b"", None, None, False
        keeping: AnswerKeeper | None = None
        if request.method != "POST":
            members = _query_members(request)
        elif (endpoint is None or endpoint.takes_form) and has_form(request):
            # A page of any site may send a form without asking first.
            self._guard.check_page(request.headers)
            form = await read_form(request, self._settings, exchange.hold)
            members = front_members(form)
        else:
            body, value = await self._read_json(exchange, path, endpoint)
            if endpoint is not None and endpoint.names_model:
                value = _with_path(value, path, endpoint, query_of(request))
            always = endpoint is not None and endpoint.always_streams
            if always and isinstance(value.get("stream"), bool | None):
                value["stream"] = True
            members = value
            if self._kept is not None and _concerns_store(endpoint, value):
                asked = _wants_stream(value, by_default=False)
                keeping = await (await self._kept()).begin(exchange, value, body)
                if keeping is not None:
                    members = value = keeping.body
                    body = body if keeping.raw is None else keeping.raw
        if members.get("model") is None and endpoint is None:
            # The request names no graph, so there is none to answer at this path.
            raise HttpError(404, f"{nothing_at(path)}; to call a graph, name it as model")
        model = self._model_of(members, path, endpoint, request.method)
        if TIMEOUT in members:
            limit_time_by(exchange, members[TIMEOUT])
        released = ""
        if exchange.error_form is ErrorForm.OLLAMA and endpoint is not None:
            loaded = endpoint.only_loads(members)
            is_over = loaded is not None
            released = released_model(members, self._data_plane, self._settings, is_all=is_over)
            if loaded is not None:
                if released:
                    self._data_plane.release(released)
                else:
                    await self._tagged(exchange, model, Method.UNARY, members)
                return await send_whole(exchange, _JSON_FIELDS, (loaded.encode(),))
        streams = may_stream(path) if endpoint is None else endpoint.streams
        by_default = endpoint is not None and endpoint.streams_by_default
        is_stream = streams and _wants_stream(members, by_default=by_default)
        payload = self._payload(exchange, body, value, form)
        if keeping is not None:
            payload = replace(payload, continued=keeping.continued)
        if keeping is not None and keeping.is_background:
            return await self._run_in_background(exchange, model, payload, keeping, is_stream=asked)
        events_of = None
        if is_stream and endpoint is not None and endpoint.events_of is not None:
            kept = {name: members[name] for name in _OF_EVENTS if name in members}
            events_of = partial(endpoint.events_of, kept)
        stream = None
        if is_stream:
            stream_form = StreamForm.EVENTS
            if endpoint is not None and endpoint.stream_form is not None:
                stream_form = endpoint.stream_form(members)
            # Events may be long in coming: comments can go before them.
            stream = exchange.begin_stream(exchange.error_form, stream_form=stream_form)
        finds_events = endpoint is None and not streams
        answer = GraphAnswer(
            exchange, exchange.error_form, stream, events_of, finds_events, kept=keeping
        )
        method = Method.STREAM if is_stream else Method.UNARY
        # A parsed body is several times as large as the body: only the graph should hold it.
        left = [payload]
        del body, value, form, members, payload, stream
        response = await self._run(exchange, model, method, left, answer)
        if released:
            self._data_plane.release(released)
        return response

    async def answer_at_own_path(self, exchange: Exchange) -> web.StreamResponse:
        """Answer one request to an endpoint of an author, which one of ``exchange.served`` has.

        Raises:
            Exception: nothing has been sent; the answer is `http_error` of it.
        """
        request = exchange.request
        method = "GET" if request.method == "HEAD" else request.method
        served = next(each for each in exchange.served if method in each.endpoint.methods)
        endpoint = served.endpoint
        if endpoint.is_socket:
            limit_time(exchange, 0)
            return await self._answer_socket(exchange, served.model)
        limit_time(exchange, self._settings.request_seconds)
        body, value, form = b"", None, None
        has_body = method not in ("GET", "DELETE") and (
            request.body_exists or (endpoint.needs_body and not endpoint.takes_any)
        )
        is_json = has_body and has_json(request)
        if method != "GET" and not is_json:
            # A page of any site may send a form, or a request without a body, without asking first.
            self._guard.check_page(request.headers)
        if has_body and has_form(request) and (endpoint.takes_form or endpoint.takes_any):
            form = await read_form(request, self._settings, exchange.hold)
        elif has_body and endpoint.takes_any and not is_json:
            check_encoding(request)
            most = self._settings.max_upload_bytes
            body = await read_bytes(request, self._settings, most, exchange.hold)
        elif has_body and (endpoint.takes_json or endpoint.takes_any):
            types = f"application/json or {FORM}" if endpoint.takes_form else JSON
            body, value = await read_json(request, self._settings, exchange.hold, types=types)
        elif has_body and endpoint.takes_form:
            raise HttpError(415, f"the body must have the Content-Type {FORM}")
        answer = GraphAnswer(exchange, exchange.error_form, None)
        left = [self._payload(exchange, body, value, form)]
        del body, value, form
        return await self._run(exchange, served.model, Method.UNARY, left, answer)

    async def _run(
        self,
        exchange: Exchange,
        model: str,
        method: Method,
        left: list[HttpPayload],
        answer: GraphAnswer,
    ) -> web.StreamResponse:
        """Run the graph of a model. ``left``: the payload, which is taken out of the list."""
        exchange.record.model = model
        try:
            try:
                if exchange.error_form is ErrorForm.OLLAMA:
                    servable = await self._tagged(exchange, model, method, left[0].parsed_json)
                else:
                    servable = await self._data_plane.resolve(model, method)
                await servable.answer(left.pop(), answer.emit)
            except asyncio.CancelledError as cancellation:
                raise exchange.reason_of(cancellation) from None
        except Exception as raised:
            if answer.stream is None or not answer.stream.has_started:
                raise
            answer.fail(raised)
            return SentResponse()
        return await answer.end()

    async def _tagged(
        self, exchange: Exchange, model: str, method: Method, members: Any
    ) -> LoadedServable:
        """Return the servable that a client of Ollama's names, with a tag or without.

        ``members``, of its body, get the name that is served.

        Raises:
            NotFoundError: there is no such model.
        """
        for name in names_of(model):
            try:
                servable = await self._data_plane.resolve(name, method)
            except NotFoundError:
                continue
            exchange.record.model = members["model"] = name
            return servable
        raise no_model(model)

    async def _run_in_background(
        self,
        exchange: Exchange,
        model: str,
        payload: HttpPayload,
        kept: AnswerKeeper,
        *,
        is_stream: bool,
    ) -> web.StreamResponse:
        """Answer a request whose graph goes on without its client."""
        assert self._kept is not None
        exchange.record.model = model
        endpoint = exchange.endpoint
        left = [payload]
        del payload

        async def run(
            client: ClientConnection,
            record: RequestRecord,
            emit: Callable[[ResponsePacket], None],
        ) -> None:
            servable = await self._data_plane.resolve(model, Method.STREAM)
            assert endpoint is not None
            events_of, has_begun = endpoint.events_of, False

            def take(packet: ResponsePacket) -> None:
                nonlocal has_begun
                if not (has_begun or events_of is None or isinstance(packet, HttpAnswer)):
                    packet = _as_events(packet, partial(events_of, {"model": model}))
                has_begun = True
                emit(packet)

            await servable.answer(replace(left.pop(), client=client, record=record), take)

        return await (await self._kept()).run(exchange, kept, run, is_stream=is_stream)

    async def _answer_socket(self, exchange: Exchange, model: str) -> web.StreamResponse:
        request = exchange.request
        exchange.record.model = model
        if request.method != "GET" or not wants_socket(request):
            headers = {"Upgrade": "websocket", "Connection": "Upgrade"}
            raise HttpError(426, "this path is a WebSocket's", headers=headers)
        # Browsers let a page of any site open one.
        self._guard.check_page(request.headers)
        if self._sockets >= self._settings.max_sockets:
            raise HttpError(503, "too many WebSockets are open", headers={"Retry-After": "1"})
        self._sockets += 1
        try:
            stream = MessageStream(exchange, self._settings)
            left = [self._payload(exchange, b"", None, None, stream)]

            async def run(emit: Callable[[ResponsePacket], None]) -> None:
                servable = await self._data_plane.resolve(model, Method.STREAM)
                await servable.answer(left.pop(), emit)

            return await stream.answer(run)
        finally:
            self._sockets -= 1

    async def _read_json(
        self, exchange: Exchange, path: str, endpoint: TaskEndpoint | None
    ) -> tuple[bytes, dict[str, Any]]:
        request = exchange.request
        takes_form = endpoint is None or endpoint.takes_form
        types: str | None = f"application/json or {FORM}" if takes_form else "application/json"
        if exchange.error_form is ErrorForm.OLLAMA:
            check_sender(request, self._guard)
            types = None
        try:
            body, value = await read_json(request, self._settings, exchange.hold, types=types)
        except HttpError as error:
            is_for_a_graph = request.body_exists and error.status != 415
            if endpoint is None and not is_for_a_graph:
                raise HttpError(404, nothing_at(path)) from None
            raise
        if not isinstance(value, dict):
            raise HttpError(400, "the body must be a JSON object")
        return body, value

    def _model_of(
        self, members: dict[str, Any], path: str, endpoint: TaskEndpoint | None, method: str
    ) -> str:
        model = members.get("model")
        if model is None:
            if endpoint is None or (method == "POST" and endpoint.needs_model):
                text = "the body has no model: name one that is served"
                raise HttpError(400, text, param="model")
            model = self._only_model(path, method)
        if not isinstance(model, str) or not model:
            text = "model must be the name of a model, as a string"
            raise HttpError(400, text, param="model")
        if len(model) > MAX_MODEL_CHARS:
            raise HttpError(404, "no such model", param="model", code="model_not_found")
        return model

    def _only_model(self, path: str, method: str) -> str:
        """Return the only model of the tasks that answer a path.

        Raises:
            HttpError: 404, there is none; 400, there are several.
        """
        tasks = tasks_at(path)
        models = self._data_plane.models()
        # Adapters are models of the list too, but the base model is what a request without a name
        # means.
        names = [each.name for each in models if each.task in tasks and not each.parent]
        if len(names) == 1:
            return names[0]
        if not names:
            text = "no model that answers this path is served"
            raise HttpError(404, text, param="model", code="model_not_found")
        place = "model" if method == "POST" else "?model="
        text = f"{len(names)} models answer this path: name one of them as {place}"
        raise HttpError(400, text, param="model")

    def _payload(
        self,
        exchange: Exchange,
        body: bytes,
        value: Any,
        form: MultipartForm | None,
        messages: Messages | None = None,
    ) -> HttpPayload:
        request = exchange.request
        uri = request.raw_path
        if exchange.error_form is ErrorForm.GOOGLE:
            uri = _without_key(uri)
        headers = dict(zip(map(str.lower, request.headers), request.headers.values(), strict=True))
        headers["x-request-id"] = exchange.request_id
        if self._settings.access.keys is not None:
            for name in (*KEY_HEADERS, KEY_PROTOCOL):  # keys are for this server, not for the graph
                headers.pop(name, None)
        documents: ClientDocuments | WebDocuments = WebDocuments(self._settings.families)
        if (store := self._settings.batch_store) is not None:
            number = int(headers.pop(BATCH_HEADER))
            documents = ClientDocuments(lambda: store, number, self._settings.families)
        elif self._store is not None:
            owner = owner_of(exchange.record, self._settings)
            documents = ClientDocuments(self._store, owner, self._settings.families)
        payload = HttpPayload(
            uri,
            headers,
            body,
            value,
            exchange.client,
            exchange.record,
            form=form,
            method="GET" if request.method == "HEAD" else request.method,
            messages=messages,
            documents=documents,
        )
        if exchange.hold.counted:
            # The room is free when the graph lets go of the body, which may be long before the
            # answer ends. Small bodies do not count, so most requests make no finalizer (decision
            # 0048).
            weakref.finalize(payload, exchange.hold.release)
        return payload


def _with_path(
    value: dict[str, Any], path: str, endpoint: TaskEndpoint, query: Mapping[str, str]
) -> dict[str, Any]:
    """Return a body with the members that the path and the query of its request have."""
    found = {**value, "model": unquote_to_bytes(declared_path(path)[1]).decode("utf-8", "replace")}
    return found | {name: query[name] for name in endpoint.query if name in query}


def _without_key(uri: str) -> str:
    """Return a path with its query without the key that Google's clients put there."""
    path, _, query = uri.partition("?")
    beginning = f"{GOOGLE_KEY}="
    kept = "&".join(each for each in query.split("&") if not each.startswith(beginning))
    return f"{path}?{kept}" if kept else path


def _query_members(request: web.BaseRequest) -> dict[str, Any]:
    """Return the members that a request without a body has in its query."""
    models = request.query.getall("model", [])
    if len(models) > 1:
        raise HttpError(400, "the query has model more than once", param="model")
    return {"model": models[0]} if models else {}


def _concerns_store(endpoint: TaskEndpoint | None, body: Mapping[str, Any]) -> bool:
    """Return True if the answer of a request may be kept, or the request may continue one."""
    if endpoint is None:
        return False
    return endpoint.path in _CONTINUING or (
        endpoint.path == "/chat/completions" and body.get("store") is True
    )


def _wants_stream(members: dict[str, Any], *, by_default: bool) -> bool:
    stream = members.get("stream")
    if stream is None:
        return by_default
    if not isinstance(stream, bool):
        raise HttpError(400, "stream must be true or false", param="stream")
    return stream
