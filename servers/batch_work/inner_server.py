"""A server that listens nowhere, for the requests of batches in its own process.

`LineClient`: sends the requests of lines to an HTTP front of this process.

The requests are like any other, with the same checks, limits and errors. They need no port and no
key: each connection is a pair of sockets.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

import aiohttp
import msgspec
import yarl
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest
from aiohttp.tracing import Trace
from msgspec import Struct

from servers.batches.batch_lines import BatchRequest, answer_line, error_body, one_line
from servers.batches.objects import BatchAnswer, TokenUsage, new_id
from servers.batches.store import BatchStore
from servers.fronts.http.settings import BATCH_HEADER
from servers.server.lifecycle import Server, ServerSettings

#: Gives a connected socket to the front.
Connect = Callable[[socket.socket], Awaitable[None]]

_ORIGIN: Final = "http://localhost"
_JSON: Final = "application/json"
#: Answers of a server that is overloaded, loads a model, or starts an engine again.
_PASSING: Final = frozenset({429, 503})
#: Tries of a request, and seconds between two tries, at first and at most: half a minute in all.
_TRIES: Final = 8
_FIRST_DELAY: Final = 0.25
_LAST_DELAY: Final = 30.0
#: Seconds for which requests are tried further when a model is away: a large one may take minutes
#: to load again after its process has ended. Later ones find out within their tries.
OUTAGE_SECONDS: Final = 600.0


class _Reply(Struct, frozen=True):
    """An answer of the front. ``is_momentary``: it says that a retry makes sense."""

    status: int
    media_type: str
    body: bytes
    is_momentary: bool = False


class LineClient:
    """Sends requests to the front that ``connect`` gives sockets to."""

    def __init__(self, connect: Connect, most_at_a_time: int) -> None:
        # Without time limits: a batch has its window.
        self._session = aiohttp.ClientSession(
            connector=_PairConnector(connect, most_at_a_time),
            timeout=aiohttp.ClientTimeout(total=None),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )
        #: When each model began to be away, by the loop's clock.
        self._outages: dict[str, float] = {}

    async def close(self) -> None:
        await self._session.close()

    async def ask(self, batch: int, line: int, request: BatchRequest) -> BatchAnswer:
        """Return the answer to one request.

        What may pass is tried again for half a minute; where the answer says that a retry makes
        sense, for `OUTAGE_SECONDS` from the moment since which the model has answered nothing
        else.
        """
        request_id = new_id("")
        loop = asyncio.get_running_loop()
        began, delay, tries = loop.time(), _FIRST_DELAY, 0
        model = request.model or request.url
        headers = {
            "Content-Type": _JSON,
            "X-Request-Id": request_id,
            BATCH_HEADER: str(batch),
        }
        while True:
            reply = await self._send(request, headers)
            tries += 1
            if reply.status not in _PASSING:
                self._outages.pop(model, None)
                break
            since = min(self._outages.setdefault(model, began), began)
            is_over = not reply.is_momentary or loop.time() - since >= OUTAGE_SECONDS
            if tries >= _TRIES and is_over:
                break
            await asyncio.sleep(delay)
            delay = min(delay * 2, _LAST_DELAY)
        return _answer(batch, line, request, request_id, reply)

    async def _send(self, request: BatchRequest, headers: dict[str, str]) -> _Reply:
        try:
            url = yarl.URL(_ORIGIN + request.url, encoded=True)
            async with self._session.post(
                url, data=request.body, headers=headers, allow_redirects=False
            ) as response:
                body = await response.read()
                is_momentary = "Retry-After" in response.headers
                return _Reply(response.status, response.content_type, body, is_momentary)
        except ValueError:  # yarl's, and aiohttp's for characters that no request line may have
            return _Reply(400, _JSON, _error("`url` is not a path", "url"))
        except aiohttp.ClientError:
            return _Reply(503, _JSON, _error("the request was cut off", None))


def _answer(
    batch: int,
    line: int,
    request: BatchRequest,
    request_id: str,
    reply: _Reply,
) -> BatchAnswer:
    status, media_type = reply.status, reply.media_type
    found = one_line(reply.body) if media_type == _JSON else None
    if found is None:
        error = (
            "unsupported_answer",
            f"The answer is {media_type or 'empty'}, and only JSON can be in a batch.",
        )
        text = answer_line(request_id, request.custom_id, error=error)
        return BatchAnswer(batch=batch, line=line, is_error=True, text=text)
    text = answer_line(request_id, request.custom_id, status=status, body=found)
    is_error = status >= 400
    usage = TokenUsage() if is_error else _usage_of(found)
    return BatchAnswer(batch=batch, line=line, is_error=is_error, text=text, usage=usage)


def _error(message: str, param: str | None) -> bytes:
    return msgspec.json.encode(error_body(message, param, None))


class _Details(Struct):
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


class _Usage(Struct):
    """The ``usage`` of an answer, by the names of all of OpenAI's endpoints."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None
    input_tokens_details: _Details | None = None
    output_tokens_details: _Details | None = None


class _Answered(Struct):
    usage: _Usage | None = None


_answered_decoder: Final = msgspec.json.Decoder(_Answered)


def _usage_of(body: bytes) -> TokenUsage:
    """Return the tokens that an answer reports; none if it reports nothing."""
    try:
        usage = _answered_decoder.decode(body).usage
    except (msgspec.DecodeError, ValueError, RecursionError):
        return TokenUsage()
    if usage is None:
        return TokenUsage()
    into = usage.prompt_tokens_details or usage.input_tokens_details or _Details()
    out = usage.completion_tokens_details or usage.output_tokens_details or _Details()
    return TokenUsage(
        usage.prompt_tokens or usage.input_tokens,
        usage.completion_tokens or usage.output_tokens,
        into.cached_tokens or 0,
        out.reasoning_tokens or 0,
    )


class _PairConnector(aiohttp.BaseConnector):
    """Makes connections to a front of this process, as aiohttp's own connector for Unix sockets
    does for a path."""

    def __init__(self, connect: Connect, limit: int) -> None:
        super().__init__(limit=limit, keepalive_timeout=60)
        self._connect_front = connect

    async def _create_connection(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - as the method that it overrides
    ) -> ResponseHandler:
        ours, theirs = socket.socketpair()
        for end in (ours, theirs):
            end.setblocking(False)
        await self._connect_front(theirs)
        _, protocol = await self._loop.create_connection(self._factory, sock=ours)
        return protocol


@asynccontextmanager
async def inner_client(
    settings: ServerSettings, width: int, store: BatchStore
) -> AsyncIterator[LineClient]:
    """Start a server, and yield a client of it. The server ends with the context.

    Args:
        settings: with HTTP, without addresses.
        width: connections at a time.
        store: has the batches, and the files that their requests name.
    """
    assert settings.http is not None
    server = Server(replace(settings, http=replace(settings.http, batch_store=store)))
    await server.start()
    try:
        await server.load()
        client = LineClient(server.take, width)
        try:
            yield client
        finally:
            await client.close()
    finally:
        await server.stop()
