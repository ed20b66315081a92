"""Client for streamed chat completions that uses little CPU time while it measures.

It stores the bytes with their arrival times, and parses them when the measurement is over.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final, cast
from urllib.parse import urlsplit

from servers.load.client import RequestOutcome

#: With the end of the line before it: the head of an answer may end like it (``max=100``).
_LAST_CHUNK: Final = b"\r\n0\r\n\r\n"
_HEAD_END: Final = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of an endpoint; ``path`` is its whole path."""

    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> Address:
        """Parse a URL; one without a path gets the path of chat completions."""
        parts = urlsplit(url)
        path = parts.path if parts.path.strip("/") else "/v3/chat/completions"
        return cls(parts.hostname or "127.0.0.1", parts.port or 80, path)


class Connection(asyncio.Protocol):
    """A connection that sends one request at a time."""

    def __init__(self, address: Address) -> None:
        self._head = (
            f"POST {address.path} HTTP/1.1\r\nHost: {address.host}:{address.port}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        ).encode()
        self._transport: asyncio.Transport | None = None
        self._pieces: list[tuple[float, bytes]] = []
        self._tail = b""
        self._done: asyncio.Future[None] | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    @property
    def pieces(self) -> int:
        """Number of times that data has arrived for the current request."""
        return len(self._pieces)

    async def ask(self, body: bytes) -> tuple[float, list[tuple[float, bytes]]]:
        """Send a request; return the time of that, and the answer's bytes with arrival times."""
        assert self._transport is not None
        self._pieces, self._tail = [], b""
        self._done = asyncio.get_running_loop().create_future()
        data = b"%b%d%b%b" % (self._head, len(body), _HEAD_END, body)
        sent = perf_counter()
        self._transport.write(data)
        await self._done
        return sent, self._pieces

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    # asyncio.Protocol -----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have no base class in asyncio.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._pieces.append((perf_counter(), data))
        self._tail = data if len(data) >= len(_LAST_CHUNK) else self._tail + data
        if self._tail.endswith(_LAST_CHUNK) or self._is_whole_answer():
            self._end()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._end()

    def _is_whole_answer(self) -> bool:
        """Return True for an answer that is not streamed, which is an error."""
        if len(self._pieces) > 2 or self._pieces[0][1].startswith(b"HTTP/1.1 200"):
            return False
        data = b"".join(piece for _, piece in self._pieces)
        head, end, body = data.partition(_HEAD_END)
        length = _header(head, b"content-length")
        return bool(end) and length is not None and len(body) >= int(length)

    def _end(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)


async def connect(address: Address) -> Connection:
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(
        lambda: Connection(address), address.host, address.port
    )
    return connection


def chat_body(model: str, text: str, output_tokens: int) -> bytes:
    """Return a greedy request that generates exactly ``output_tokens``."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": text}],
        "max_tokens": output_tokens,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    return json.dumps(body).encode()


def read_answer(sent: float, pieces: list[tuple[float, bytes]]) -> RequestOutcome:
    """Return the outcome of a request, from the bytes of its answer and their times."""
    outcome = RequestOutcome(sent)
    if not pieces:
        outcome.error = "the connection was closed"
        return outcome
    head, _, _ = b"".join(data for _, data in pieces).partition(_HEAD_END)
    if not head.startswith(b"HTTP/1.1 200"):
        outcome.error = b"".join(data for _, data in pieces)[:300].decode(errors="replace")
        return outcome
    ended = False
    for time, data in _events(len(head) + len(_HEAD_END), pieces):
        if data == b"[DONE]":
            ended = True
            continue
        event = json.loads(data)
        _read_event(event, time, outcome)
    if not ended and not outcome.error:
        outcome.error = "the stream broke off"
    return outcome


def _read_event(event: dict[str, Any], time: float, outcome: RequestOutcome) -> None:
    if "error" in event:
        outcome.error = json.dumps(event["error"])
    usage = event.get("usage")
    if usage:
        outcome.input_tokens = usage["prompt_tokens"]
        outcome.output_tokens = usage["completion_tokens"]
    for choice in event.get("choices", ()):
        delta = choice.get("delta", {})
        text = delta.get("content") or delta.get("reasoning_content")
        # The last event has no text if the last token is half a character.
        has_tokens = text or (choice.get("finish_reason") and outcome.arrivals)
        if has_tokens and time not in outcome.arrivals[-1:]:
            outcome.arrivals.append(time)


def _events(skip: int, pieces: list[tuple[float, bytes]]) -> Iterator[tuple[float, bytes]]:
    """Yield the data of each event, with the arrival time of its last byte."""
    rest = b""
    body = bytearray()
    for time, data in pieces:
        if skip >= len(data):
            skip -= len(data)
            continue
        rest = _unchunk(rest + data[skip:], body)
        skip = 0
        while (end := body.find(b"\n\n")) >= 0:
            event = bytes(body[:end])
            del body[: end + 2]
            if event.startswith(b"data:"):
                yield time, event[5:].strip()


def _unchunk(data: bytes, body: bytearray) -> bytes:
    """Add the complete chunks in ``data`` to ``body``; return the rest."""
    while (end := data.find(b"\r\n")) >= 0:
        length = int(data[:end].partition(b";")[0], 16)
        if len(data) < end + 2 + length + 2:
            break
        body += data[end + 2 : end + 2 + length]
        data = data[end + 4 + length :]
    return data


def _header(head: bytes, name: bytes) -> bytes | None:
    for line in head.split(b"\r\n")[1:]:
        key, _, value = line.partition(b":")
        if key.strip().lower() == name:
            return value.strip()
    return None
