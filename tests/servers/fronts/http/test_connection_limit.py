"""Connections beyond the limit: refused in plain words, without effect on others."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import FakeDataPlane
from tests.servers.fronts.http.http_client import ask, chat_bytes, connected, request_bytes, serving

pytestmark = pytest.mark.both_loops


def test_a_connection_beyond_the_limit_is_refused_with_retry_after(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(), max_connections=2) as front, AsyncExitStack() as stack:
            first = await stack.enter_async_context(connected(front))
            second = await stack.enter_async_context(connected(front))
            for client in (first, second):
                assert (await client.ask(chat_bytes())).status == 200
            for _ in range(3):
                reply = await ask(front, chat_bytes())
                assert (reply.status, reply.headers["retry-after"]) == (503, "1")
                assert reply.headers["connection"] == "close"
                assert reply.error["message"].startswith("the server has as many connections as")
            assert (await first.ask(chat_bytes())).status == 200

    run(scenario())


def test_a_connection_that_closes_makes_room(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(), max_connections=1) as front:
            async with connected(front) as client:
                assert (await client.ask(chat_bytes())).status == 200
            while (await ask(front, request_bytes("GET", "/v2"))).status != 200:
                pass

    run(scenario())


def test_a_refused_connection_that_stays_is_closed(run: Run) -> None:
    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(), max_connections=1) as front,
            connected(front) as inside,
        ):
            assert (await inside.ask(chat_bytes())).status == 200
            async with connected(front) as silent:
                assert b" 503 " in await silent.wait_closed_by_server()

    run(scenario())


def test_closing_the_front_closes_refused_connections(run: Run) -> None:
    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(), max_connections=1) as front,
            connected(front) as inside,
            connected(front) as refused,
        ):
            assert (await inside.ask(chat_bytes())).status == 200
            assert (await refused.head())[0] == 503
            await front.close()
            await refused.wait_closed_by_server()

    run(scenario())
