"""The last event of a stream: one write with the end, but never held back by a run that goes on."""

from __future__ import annotations

import asyncio

import pytest

from calculators.kit.requests.http_payload import HttpPayload
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import END, Emit, FakeDataPlane
from tests.servers.fronts.http.http_client import chat_bytes, connected, serving

pytestmark = pytest.mark.both_loops


def test_the_last_event_arrives_while_the_run_goes_on(run: Run) -> None:
    async def scenario() -> None:
        arrived = asyncio.Event()

        async def lingering(payload: HttpPayload, emit: Emit) -> None:
            emit("data: 1\n\n")
            emit(END)
            await arrived.wait()

        async with serving(FakeDataPlane(echo=lingering)) as front, connected(front) as client:
            client.send(chat_bytes("echo", stream=True))
            assert (await client.head())[0] == 200
            assert await client.chunk() == b"data: 1\n\n"
            assert await client.chunk() == END.encode()
            arrived.set()
            assert await client.chunk() == b""

    run(scenario())


def test_what_a_graph_sends_after_its_last_event_comes_after_it(run: Run) -> None:
    async def scenario() -> None:
        async def talkative(payload: HttpPayload, emit: Emit) -> None:
            for event in ("data: 1\n\n", END, "data: 2\n\n"):
                emit(event)

        async with serving(FakeDataPlane(echo=talkative)) as front, connected(front) as client:
            reply = await client.ask(chat_bytes("echo", stream=True))
        assert reply.body.decode() == f"data: 1\n\n{END}data: 2\n\n"

    run(scenario())
