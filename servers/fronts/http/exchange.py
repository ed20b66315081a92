"""One request, from its headers to the end of its answer.

A whole answer with status 200 is written without `aiohttp.web.Response`, which costs as much as all
other work of the front for an inference.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qs

from aiohttp import web

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import RequestRecord, note_error, note_reason
from calculators.kit.tasks import ErrorForm, StreamForm, TaskEndpoint, declared_path
from calculators.kit.tasks.operation import MAX_TIMEOUT
from graph_runtime import Code, UnavailableError
from servers.contract.data_plane import Disconnection, ServedEndpoint
from servers.contract.failure import forget_frames
from servers.fronts.body_room import BodyHold
from servers.fronts.http.answer_streams import (
    STREAMS,
    AnswerStream,
    ByteStream,
    EventStream,
    SentResponse,
    response_head,
    with_warnings,
)
from servers.fronts.http.connection import HttpConnection
from servers.fronts.http.errors import HttpError, http_error
from servers.fronts.http.routes import VIEWS, Endpoint, Route
from servers.fronts.http.settings import HttpSettings
from servers.operations.request_log import RequestEnd, reason_for_log


def owner_of(record: RequestRecord, settings: HttpSettings) -> str:
    """Return the client to whom files and batches belong: its key, where keys are needed."""
    return record.client.name if settings.access.keys is not None else ""


class Client(Disconnection):
    """A `calculators.kit.requests.http_payload.ClientConnection` over an HTTP connection."""

    def __init__(self, connection: HttpConnection) -> None:
        self._connection = connection

    @property
    def is_writable(self) -> bool:
        return not self._connection.is_full or self.is_disconnected

    async def writable(self) -> None:
        # A calculator that sends without end must yield to the loop: otherwise a client that leaves
        # is not noticed, and no other client is answered.
        await asyncio.sleep(0)
        while not self.is_writable:
            await self._connection.room.wait()


class Exchange:
    """The state of a request that the handler, the connection and draining share.

    Attributes:
        headers: headers of every answer to this request.
        endpoint: the task's endpoint at its path; None if no task has one there.
        served: the endpoints of authors at its path.
        error_form: the form of errors that its client expects.
        record: its record; calculators add warnings for the client to it.
        hold: its body's share of the memory for bodies.
        route: the route of its path; None before it is known, and if there is none.
        stream: the answer, if it is sent in pieces.
        keeps_alive: the connection may serve another request afterwards.
    """

    __slots__ = (
        "_began",
        "_deadline",
        "_ending",
        "_ends_at",
        "client",
        "connection",
        "endpoint",
        "error_form",
        "headers",
        "hold",
        "keeps_alive",
        "record",
        "request",
        "request_id",
        "route",
        "served",
        "stream",
        "task",
    )

    def __init__(
        self,
        request: web.BaseRequest,
        connection: HttpConnection,
        record: RequestRecord,
        task: asyncio.Task[Any],
        hold: BodyHold,
        endpoint: TaskEndpoint | None,
        error_form: ErrorForm,
        served: Sequence[ServedEndpoint] = (),
    ) -> None:
        self.request = request
        self.served = served
        self.record = record
        self.request_id = request_id = record.request_id
        self.connection = connection
        self.task = task
        self.hold = hold
        self.endpoint = endpoint
        self.error_form = error_form
        self.client = Client(connection)
        self.headers = {"Server": "graphrt", "X-Request-Id": request_id}
        self.route: Route | None = None
        self.stream: AnswerStream | None = None
        self.keeps_alive = request.keep_alive and not connection.is_last
        self._began = connection.loop.time()
        self._deadline: asyncio.TimerHandle | None = None
        self._ends_at = 0.0
        self._ending: Exception | None = None

    def begin_stream(
        self,
        form: ErrorForm,
        headers: Mapping[str, str] | None = None,
        stream_form: StreamForm = StreamForm.EVENTS,
    ) -> EventStream:
        """Make the stream of events that answers this request; nothing is sent yet.

        ``headers``: further ones of this answer.
        """
        stream = STREAMS[stream_form](
            self.connection,
            self.record,
            {**self.headers, **headers} if headers else self.headers,
            is_chunked=self._may_chunk(),
            keeps_alive=self.keeps_alive,
            form=form,
        )
        self.stream = stream
        return stream

    def begin_bytes(self, fields: Mapping[str, str]) -> ByteStream:
        """Make the stream of bytes that answers this request; nothing is sent yet.

        ``fields``: headers of this answer.
        """
        stream = ByteStream(
            self.connection,
            self.record,
            fields,
            self.headers,
            is_chunked=self._may_chunk(),
            keeps_alive=self.keeps_alive,
        )
        self.stream = stream
        return stream

    def _may_chunk(self) -> bool:
        """Return whether the client understands chunks."""
        if self.request.version >= (1, 1):
            return True
        self.keeps_alive = False  # the connection's end is the stream's
        return False

    def ping_if_silent(self, now: float, seconds: float) -> None:
        """Send a comment when the answer is a stream that has sent nothing for ``seconds``."""
        if self.stream is not None:
            self.stream.ping_if_silent(now, seconds)

    def disconnect(self) -> None:
        """Note that the client is gone. aiohttp cancels the handler's task."""
        if self.stream is not None:
            self.stream.drop()
        self.client.disconnect()

    def cut_off(self) -> None:
        """End the request now, with an error for the client."""
        self.keeps_alive = False
        self.end(UnavailableError("the server is shutting down"))

    def end_after(self, seconds: float) -> None:
        """End the request ``seconds`` after its headers arrived; the shortest limit counts."""
        at = self._began + seconds
        if self._deadline is None or at < self._ends_at:
            self.forget_deadline()
            # Kept, because uvloop's handle does not know its time once that has passed.
            self._ends_at = at
            self.record.deadline = at
            self._deadline = self.connection.loop.call_at(at, self._expire, seconds)

    def forget_deadline(self) -> None:
        """Forget the time limit: the request was answered in time."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def reason_of(self, cancellation: asyncio.CancelledError) -> Exception:
        """Return the error to answer with. Raise ``cancellation`` if the client is gone."""
        if not self.task.cancelling():
            return RuntimeError("the graph of a request was cancelled, the request was not")
        ending = self._ending
        if self.client.is_disconnected:
            try:
                raise cancellation
            finally:
                del cancellation  # this frame is in its traceback: a cycle would keep the body
        if ending is None:
            ending = RuntimeError("code of the request's graph cancelled the task of its request")
        self._ending = None
        # `asyncio.timeout` and task groups count cancellations: one that has become an error must
        # not count.
        self.task.uncancel()
        return ending

    def _expire(self, seconds: float) -> None:
        text = f"the request was not answered within {seconds:g} s, its time-out"
        text = self.record.unanswered(text)
        self.end(RequestError(text, code=Code.DEADLINE_EXCEEDED, detail=text))

    def end(self, error: Exception) -> None:
        """End the request now with this error, unless it is ending already."""
        if self._ending is None:
            self._ending = error
            self.task.cancel()


HEADER = "X-Request-Timeout"
TIMEOUT = "timeout"


def limit_time(exchange: Exchange, most: float) -> None:
    """End the request in ``most`` seconds (0: never), or sooner where its header says so.

    Raises:
        HttpError: 400, the header is not a number of seconds.
    """
    if most > 0:
        exchange.end_after(most)
    text = exchange.request.headers.get(HEADER)
    if text is None:
        return
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_TIMEOUT:
        raise HttpError(400, f"{HEADER} must be a number of seconds above 0")
    exchange.end_after(seconds)


def limit_time_by(exchange: Exchange, seconds: Any) -> None:
    """End the request sooner; ``seconds`` is the ``timeout`` of its body, if not None.

    Raises:
        HttpError: 400, it is not a number of seconds.
    """
    if seconds is None:
        return
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or not 0 < seconds <= MAX_TIMEOUT:
        raise HttpError(400, f"{TIMEOUT} must be a number of seconds above 0", param=TIMEOUT)
    exchange.end_after(float(seconds))


_MOST_FIELDS = 16
#: The name of a key in the queries of Google's clients.
GOOGLE_KEY = "key"


def query_of(request: web.BaseRequest) -> dict[str, str]:
    """Return the last value of each name in the query.

    Raises:
        HttpError: 400, it has too many fields.
    """
    text = request.raw_path.partition("?")[2]
    try:
        # Without a bound parse_qs makes a list of as many fields as a query of 8 KiB holds.
        found = parse_qs(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError:
        raise HttpError(400, f"the query has more than {_MOST_FIELDS} fields") from None
    return {name: values[-1] for name, values in found.items()}


def json_answer(exchange: Exchange, body: bytes, status: int = 200) -> web.Response:
    """Return an answer of encoded JSON that no cache keeps."""
    return web.Response(
        status=status,
        body=body,
        content_type="application/json",
        headers={**exchange.headers, "Cache-Control": "no-store"},
    )


def object_answer(exchange: Exchange, value: object) -> web.Response:
    """Return a `json_answer` of an object or array."""
    return json_answer(exchange, json.dumps(value).encode())


_Object = TypeVar("_Object", bound=Mapping[str, Any])
#: Objects of a page of a list, at most.
MOST_LISTED: Final = 100


class ListPage(NamedTuple):
    """A page of a list. ``after``: the id before its first item; "": it is the first page."""

    after: str
    limit: int
    ascending: bool

    @classmethod
    def of(
        cls,
        query: Mapping[str, str],
        order: str = "desc",
        *,
        usual: int = 20,
        most: int = MOST_LISTED,
    ) -> ListPage:
        """Read a query; ``order`` and ``usual``: if it names no order and no limit.

        Raises:
            HttpError: 400.
        """
        limit, order = cls.limit_of(query, usual, most), query.get("order", order)
        if order not in ("asc", "desc"):
            raise HttpError(400, "order must be asc or desc", param="order")
        return cls(query.get("after", ""), limit, order == "asc")

    @staticmethod
    def limit_of(query: Mapping[str, str], usual: int = 20, most: int = MOST_LISTED) -> int:
        """Read how many objects a page may have, for lists of one order.

        Raises:
            HttpError: 400.
        """
        limit = query.get("limit", str(usual))
        is_number = limit.isascii() and limit.isdigit() and len(limit) <= len(str(most))
        if not (is_number and 1 <= int(limit) <= most):
            raise HttpError(400, f"limit must be a number from 1 to {most}", param="limit")
        return int(limit)

    def cut(self, items: list[_Object]) -> tuple[list[_Object], bool]:
        """Return the items of the page, and True if there are more.

        Raises:
            HttpError: 404, there is no item ``after``.
        """
        if not self.ascending:
            items = items[::-1]
        begin = 0
        if self.after:
            begin = next((i + 1 for i, each in enumerate(items) if each["id"] == self.after), 0)
            if not begin:
                raise HttpError(404, "there is no item with the id of `after`", param="after")
        return items[begin : begin + self.limit], len(items) > begin + self.limit

    @staticmethod
    def members(data: Sequence[Mapping[str, Any]], *, has_more: bool) -> Mapping[str, Any]:
        """Return a page as OpenAI's clients and Anthropic's read it."""
        return {
            "data": data,
            "first_id": data[0]["id"] if data else None,
            "last_id": data[-1]["id"] if data else None,
            "has_more": has_more,
        }


_MODEL = "/v2/models/{model}"
_NAMES = {
    Endpoint.MODEL: "/v3/models/{model}",
    Endpoint.PAGE: "/page/{file}",
    Endpoint.METADATA: _MODEL,
    Endpoint.MODEL_READY: f"{_MODEL}/ready",
    Endpoint.INFER: f"{_MODEL}/infer",
    Endpoint.GENERATE: f"{_MODEL}/generate",
    Endpoint.GENERATE_STREAM: f"{_MODEL}/generate_stream",
    Endpoint.LOAD: "/v2/repository/models/{model}/load",
    Endpoint.UNLOAD: "/v2/repository/models/{model}/unload",
    Endpoint.GRAPH_VIEW: "/v1/graphs/{model}",
    Endpoint.NODE_VIEW: "/v1/graphs/{model}/nodes/{node}",
    Endpoint.REQUEST_VIEW: "/v1/requests/{id}",
    Endpoint.FOLLOW: "/v1/graphs/{model}/follow",
    Endpoint.FILE: "/v1/files/{id}",
    Endpoint.FILE_CONTENT: "/v1/files/{id}/content",
    Endpoint.BATCH: "/v1/batches/{id}",
    Endpoint.BATCH_CANCEL: "/v1/batches/{id}/cancel",
    Endpoint.MESSAGE_BATCH: "/v1/messages/batches/{id}",
    Endpoint.MESSAGE_BATCH_CANCEL: "/v1/messages/batches/{id}/cancel",
    Endpoint.MESSAGE_BATCH_RESULTS: "/v1/messages/batches/{id}/results",
    Endpoint.RESPONSE: "/v1/responses/{id}",
    Endpoint.RESPONSE_ITEMS: "/v1/responses/{id}/input_items",
    Endpoint.RESPONSE_CANCEL: "/v1/responses/{id}/cancel",
    Endpoint.CONVERSATION: "/v1/conversations/{id}",
    Endpoint.CONVERSATION_ITEMS: "/v1/conversations/{id}/items",
    Endpoint.CONVERSATION_ITEM: "/v1/conversations/{id}/items/{part}",
    Endpoint.CHAT: "/v1/chat/completions/{id}",
    Endpoint.CHAT_MESSAGES: "/v1/chat/completions/{id}/messages",
}
_PROBED = frozenset({"/metrics", "/livez", "/readyz", "/health", "/ping"})
_LIVE = "/v1/live"
#: Statuses of views that are not worth a line: 499 is a client that has looked enough.
_FINE = (200, 202, 499)
# A line in the log would cost as much as a small inference.
_QUIET = "/v2/models/"


def request_end(
    exchange: Exchange, path: str, status: int, response_bytes: int, *, is_traced: bool
) -> RequestEnd:
    """Return how a request ended. ``path`` has no query, where people put keys.

    The fields for traces only are left out without a trace: they cost more than the rest.
    """
    request = exchange.request
    route = exchange.route
    is_view = route is not None and route.endpoint in VIEWS and status in _FINE
    return RequestEnd(
        protocol="http",
        method=request.method,
        path=path,
        route=route_name(path, route, exchange.endpoint),
        status=status,
        is_failure=status >= 500,
        is_quiet=is_view or is_probe(path) or (status == 200 and path.startswith(_QUIET)),
        is_watching=path == _LIVE,
        scheme=request.scheme if is_traced else "",
        request_bytes=request.content.total_bytes,
        response_bytes=response_bytes,
    )


def is_probe(path: str) -> bool:
    """Return whether monitoring polls this path."""
    return path.startswith("/v2/health/") or path in _PROBED


def route_name(path: str, route: Route | None, endpoint: TaskEndpoint | None) -> str:
    """Return the path with placeholders for names that clients choose; "" if nothing is served."""
    if route is None:
        return ""
    if route.endpoint is Endpoint.GRAPH:
        return declared_path(path)[0] if endpoint is not None else f"{path[:3]}/{{path}}"
    return _NAMES.get(route.endpoint, path)


def body_length(response: web.StreamResponse) -> int:
    """Return the bytes of a body that aiohttp writes; others count in their connection."""
    body = response.body if isinstance(response, web.Response) else None
    return len(body) if isinstance(body, bytes) else 0


# Up to this size one write of a copy costs less than several writes.
_IN_ONE_PIECE = 64 * 1024


async def send_whole(
    exchange: Exchange, fields: Mapping[str, str], pieces: Sequence[bytes | memoryview]
) -> web.StreamResponse:
    """Send a body in pieces, each when the client has read most of the data before it.

    Large pieces must not change any more: neither this function nor uvloop copies them. asyncio's
    own loop copies what the socket does not accept at once.

    Args:
        fields: headers besides the usual ones and the length.
    """
    client, connection = exchange.client, exchange.connection
    if not client.is_writable:  # it has not read the answer to its last request
        await client.writable()
    size = sum(map(len, pieces))
    fields = {**fields, "Content-Length": str(size)}
    headers = exchange.headers
    if exchange.record.warnings:
        headers = with_warnings(headers, exchange.record.warnings)
    head = response_head(fields, headers, keeps_alive=exchange.keeps_alive)
    connection.head_bytes += len(head)
    # uvloop 0.23 makes a call of the system of each write (decision 0048).
    if size <= _IN_ONE_PIECE:
        connection.send(b"".join((head, *pieces)))
        return SentResponse()
    connection.send(head)
    try:
        for piece in pieces:
            if not client.is_writable:
                await client.writable()
            connection.send(piece)
    except asyncio.CancelledError:
        connection.abort()  # nothing else may follow a part of the body
        raise
    return SentResponse()


_log = logging.getLogger(__name__)


async def answer_in_events(
    exchange: Exchange,
    form: ErrorForm,
    run: Callable[[EventStream], Awaitable[None]],
    stream_form: StreamForm = StreamForm.EVENTS,
) -> web.StreamResponse:
    """Let ``run`` emit the pieces of an answer. If it fails, the last one is the error.

    Raises:
        Exception: nothing has been sent; the answer is `http_error` of it.
    """
    stream = exchange.begin_stream(form, stream_form=stream_form)
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
    forget_frames(raised)


def reason_of(error: HttpError) -> str:
    """Return the reason of an error for the log, without anything that the client sent."""
    return reason_for_log(str(error.code or error.type), error.param, error.detail)


def log_cause(error: HttpError, request_id: str) -> None:
    """Log the exception whose text the client does not get, if there is one."""
    if error.cause is not None:
        _log.error("request %s failed", request_id, exc_info=error.cause)
