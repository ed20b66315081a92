"""The transport of an MCP server that is reached by HTTP: its answers are bounded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import httpx2
from mcp.client import Transport
from mcp.client.streamable_http import streamable_http_client

from calculators.language.server_tools.call_limits import MAX_MESSAGE

_CONNECT_SECONDS: Final = 10.0


class TooLong(httpx2.StreamError):
    """The answer is longer than `MAX_MESSAGE`, or packed so that its length is unknown."""


class _BoundedStream(httpx2.AsyncByteStream):
    """The body of an answer, up to `MAX_MESSAGE` bytes."""

    def __init__(self, stream: httpx2.AsyncByteStream, *, is_packed: bool) -> None:
        self._stream = stream
        self._is_packed = is_packed

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._is_packed:
            raise TooLong("the server packed its answer, though it was asked not to")
        length = 0
        async for part in self._stream:
            length += len(part)
            if length > MAX_MESSAGE:
                raise TooLong("the tool gave more than 1 MiB")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    """Limit the body of an answer; events are limited one by one, by ``mcp`` itself."""
    packed = response.headers.get("content-encoding", "identity").lower() != "identity"
    is_stream = response.headers.get("content-type", "").startswith("text/event-stream")
    if packed or not is_stream:
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _BoundedStream(response.stream, is_packed=packed)


@asynccontextmanager
async def connect_http(url: str, bearer_token: str, seconds: float) -> AsyncIterator[Transport]:
    """Make the transport to a url; ``seconds``: limit of a silence within an answer."""
    headers = {"accept-encoding": "identity"}
    if bearer_token:
        headers["authorization"] = f"Bearer {bearer_token}"
    async with httpx2.AsyncClient(
        headers=headers,
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=seconds),
        event_hooks={"response": [_bound]},
    ) as client:
        yield streamable_http_client(url, http_client=client, max_sse_event_size=MAX_MESSAGE)
