"""A client that reads one stream after the other while other clients send hostile requests."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any, Final

from tests.process.http_client import CHAT, HELLO, HttpClient
from tests.process.stream_law import read_stream
from tests.support.patience import PATIENCE

_TOKENS: Final = 1000
_ASKED: Final[dict[str, Any]] = {"ignore_eos": True, "max_tokens": _TOKENS}


class Neighbour:
    """Reads until the context is left, which checks all of its streams."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client
        self._pool = ThreadPoolExecutor(max_workers=1)
        self._began = Event()
        self._leaves = Event()
        self._bodies: Future[list[bytes]] | None = None

    def __enter__(self) -> Neighbour:
        self._bodies = self._pool.submit(self._read_all)
        assert self._began.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._leaves.set()
        self._pool.shutdown()
        assert self._bodies is not None
        for body in self._bodies.result():
            streamed = read_stream(body, usage=True)
            assert streamed.finish_reason == "length"
            assert streamed.usage is not None
            assert streamed.usage["completion_tokens"] == _TOKENS

    @property
    def is_reading(self) -> bool:
        """Return True if nothing has gone wrong so far."""
        assert self._bodies is not None
        return not self._bodies.done()

    def _read_all(self) -> list[bytes]:
        bodies: list[bytes] = []
        try:
            while not self._leaves.is_set():
                bodies.append(self._read())
        finally:
            self._began.set()
        return bodies

    def _read(self) -> bytes:
        options = {"include_usage": True}
        lines: list[bytes] = []
        with self._client.stream(CHAT, messages=HELLO, stream_options=options, **_ASKED) as reply:
            while line := reply.readline():
                lines.append(line)
                if len(lines) == 4:
                    self._began.set()
        return b"".join(lines)
