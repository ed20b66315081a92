"""Streams in flight, read by threads, so that a test can act on the server meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

from tests.process.http_client import CHAT, HELLO, HttpClient
from tests.support.patience import PATIENCE

#: More than is generated during a test.
ENDLESS = 1900


class LongStream:
    """A stream; `began` is set once there was text in it."""

    def __init__(self, client: HttpClient, pool: ThreadPoolExecutor, max_tokens: int) -> None:
        self.began = Event()
        self._client = client
        self._max_tokens = max_tokens
        self._body: Future[bytes] = pool.submit(self._read)

    def body(self) -> bytes:
        """Return the whole body after the end."""
        return self._body.result()

    def _read(self) -> bytes:
        body = b""
        try:
            asked: dict[str, Any] = {"ignore_eos": True, "max_tokens": self._max_tokens}
            with self._client.stream(CHAT, messages=HELLO, **asked) as response:
                while line := response.readline():
                    body += line
                    if body.count(b"\n\n") == 2:
                        self.began.set()
        finally:
            self.began.set()
        return body


@contextmanager
def in_flight(
    client: HttpClient, count: int, *, max_tokens: int = ENDLESS
) -> Iterator[list[LongStream]]:
    """Yield streams that have all begun. They have to end before this context is left."""
    with ThreadPoolExecutor(max_workers=count) as pool:
        streams = [LongStream(client, pool, max_tokens) for _ in range(count)]
        for stream in streams:
            assert stream.began.wait(PATIENCE)
        yield streams
