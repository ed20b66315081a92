"""Bodies in chunks of one byte, which cost the parser much: others have their turn meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aiohttp import web

from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane
from tests.servers.fronts.http.http_client import chat_bytes, connected, serving

pytestmark = pytest.mark.both_loops

HEAD = (
    b"POST /v3/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n"
)


def test_a_reading_of_tiny_chunks_is_parsed_in_slices(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    parse = web.RequestHandler.data_received

    def data_received(self: Any, data: bytes) -> None:
        sizes.append(len(data))
        parse(self, data)

    monkeypatch.setattr(web.RequestHandler, "data_received", data_received)
    messages = [{"role": "user", "content": "a" * 30_000}]
    body = json.dumps({"model": "echo", "messages": messages}).encode()
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)

    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front, connected(front) as client:
            plain = await client.ask(chat_bytes())
            for _ in range(2):
                sizes.clear()
                reply = await client.ask(HEAD + chunks + b"0\r\n\r\n")
                assert reply.status == plain.status
                assert sum(sizes) == len(HEAD + chunks) + 5
                # Some readings of the socket are smaller than one that is divided.
                assert max(sizes) < 16_384

    run(scenario())
