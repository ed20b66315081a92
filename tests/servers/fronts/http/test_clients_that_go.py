"""Clients that leave: their graphs are cancelled at once, and nothing is left or logged."""

from __future__ import annotations

import asyncio
import json

import pytest

from calculators.kit.requests.http_payload import HttpPayload
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import Emit, FakeDataPlane, hang, hang_after_one
from tests.servers.fronts.http.http_client import chat_bytes, connected, serving

pytestmark = pytest.mark.both_loops


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("way", ["close", "abort", "half-close"])
def test_a_waiting_graph_is_cancelled(
    run: Run, stream: bool, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    told = []

    async def watch(payload: HttpPayload, emit: Emit) -> None:
        payload.client.on_disconnect(lambda: told.append(payload.client.is_disconnected))
        await (hang_after_one if stream else hang)(payload, emit)

    async def scenario() -> None:
        plane = FakeDataPlane(watch=watch)
        async with serving(plane) as front, connected(front) as client:
            client.send(chat_bytes("watch", stream=stream))
            await plane.begun.wait()
            if stream:
                await client.head()
            if way == "close":
                client.writer.close()
            elif way == "abort":
                client.abort()
            else:
                client.writer.write_eof()
            await plane.ended.wait()
        assert (plane.cancelled, plane.running, told) == (1, 0, [True])

    run(scenario())
    assert [record for record in caplog.records if record.levelno >= 30] == []
    assert "499" in caplog.text


def test_callbacks_are_called_once_and_at_once_when_added_late(run: Run) -> None:
    told = []

    async def watch(payload: HttpPayload, emit: Emit) -> None:
        payload.client.on_disconnect(lambda: told.append("early"))
        try:
            await asyncio.Event().wait()
        finally:
            payload.client.on_disconnect(lambda: told.append("late"))
            await payload.client.writable()
            emit("data: nobody reads this\n\n")

    async def scenario() -> None:
        plane = FakeDataPlane(watch=watch)
        async with serving(plane) as front, connected(front) as client:
            client.send(chat_bytes("watch", stream=True))
            await plane.begun.wait()
            client.abort()
            await plane.ended.wait()

    run(scenario())
    assert told == ["early", "late"]


def test_a_failing_callback_does_not_stop_the_others(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[str] = []

    def fail() -> None:
        raise KeyError("a bug")

    async def watch(payload: HttpPayload, emit: Emit) -> None:
        payload.client.on_disconnect(fail)
        payload.client.on_disconnect(lambda: told.append("second"))
        await hang(payload, emit)

    async def scenario() -> None:
        plane = FakeDataPlane(watch=watch)
        async with serving(plane) as front, connected(front) as client:
            client.send(chat_bytes("watch"))
            await plane.begun.wait()
            client.abort()
            await plane.ended.wait()

    run(scenario())
    assert told == ["second"]
    assert "a disconnect callback failed" in caplog.text


def test_an_answered_request_is_not_called_when_its_connection_ends(run: Run) -> None:
    told = []

    async def answer(payload: HttpPayload, emit: Emit) -> None:
        payload.client.on_disconnect(lambda: told.append("gone"))
        emit(json.dumps({}))

    async def scenario() -> None:
        async with serving(FakeDataPlane(answer=answer)) as front, connected(front) as client:
            assert (await client.ask(chat_bytes("answer"))).status == 200

    run(scenario())
    assert told == []


def test_a_client_may_leave_in_the_middle_of_its_body(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane()
        async with serving(plane) as front:
            async with connected(front) as client:
                client.send(chat_bytes(headers={"Expect": "100-continue"})[:-5])
                assert (await client.head())[0] == 100
            async with connected(front) as client:
                assert (await client.ask(chat_bytes())).status == 200
        assert len(plane.payloads) == 1

    run(scenario())
    assert caplog.records == []
