"""Requests of batches that find a model away are tried again; others wait no longer than needed."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from servers.batch_work import inner_server
from servers.batch_work.inner_server import LineClient
from servers.batches.batch_lines import BatchRequest
from servers.batches.objects import BatchAnswer

REQUEST = BatchRequest("one", "/v1/work", b"{}", "work")


class Front:
    """Answers with these statuses, one after the other; the last one stays."""

    def __init__(self, *statuses: int, is_momentary: bool = True) -> None:
        self.asked = 0
        self._serving: list[asyncio.Task[None]] = []
        self._retry = "Retry-After: 1\r\n" if is_momentary else ""
        self._statuses = statuses

    async def take(self, connected: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=connected)
        self._serving.append(asyncio.create_task(self._serve(reader, writer)))

    async def close(self) -> None:
        """Wait for the end of connections that the client has closed."""
        await asyncio.gather(*self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            while (await reader.readline()).strip():
                pass
            await reader.readexactly(2)
            status = self._statuses[min(self.asked, len(self._statuses) - 1)]
            self.asked += 1
            head = f"HTTP/1.1 {status} X\r\n{self._retry}Content-Type: application/json\r\n"
            writer.write(head.encode() + b"Content-Length: 2\r\n\r\n{}")
        writer.close()
        await writer.wait_closed()


def asked(front: Front, use: Callable[[LineClient], Awaitable[list[BatchAnswer]]]) -> list[Any]:
    """Return the statuses of the answers that a client gets."""

    async def run() -> list[BatchAnswer]:
        client = LineClient(front.take, 4)
        try:
            return await use(client)
        finally:
            await client.close()
            await front.close()

    return [json.loads(each.text)["response"]["status_code"] for each in asyncio.run(run())]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inner_server, "_FIRST_DELAY", 0.0)


def test_a_model_that_loads_for_long_loses_no_request() -> None:
    front = Front(*[503] * 50, 200)

    async def ask(client: LineClient) -> list[BatchAnswer]:
        return [await client.ask(1, 1, REQUEST)]

    assert asked(front, ask) == [200]
    assert front.asked == 51


@pytest.mark.parametrize("is_momentary", [True, False])
def test_a_model_that_stays_away_is_given_up(
    monkeypatch: pytest.MonkeyPatch, is_momentary: bool
) -> None:
    front = Front(503, is_momentary=is_momentary)
    if is_momentary:
        monkeypatch.setattr(inner_server, "OUTAGE_SECONDS", 0.0)

    async def ask(client: LineClient) -> list[BatchAnswer]:
        return [await client.ask(1, line, REQUEST) for line in (1, 2)]

    assert asked(front, ask) == [503, 503]
    assert front.asked == 2 * inner_server._TRIES


@pytest.mark.parametrize("url", ["/v1/a\x00b", "/v1/a?\x00"])
def test_a_url_that_cannot_be_sent_is_a_bad_request(url: str) -> None:
    front = Front(200)

    async def ask(client: LineClient) -> list[BatchAnswer]:
        return [await client.ask(1, 1, BatchRequest("one", url, b"{}", ""))]

    assert asked(front, ask) == [400]
    assert front.asked == 0
