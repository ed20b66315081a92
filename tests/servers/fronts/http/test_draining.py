"""Stopping: no new connections, requests in flight are answered, late ones are cut off once."""

from __future__ import annotations

import asyncio

import pytest

from calculators.kit.requests.http_payload import HttpPayload
from servers.fronts.http import HttpSettings, start_front
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import (
    END,
    Emit,
    FakeDataPlane,
    hang,
    hang_after_one,
)
from tests.servers.fronts.http.http_client import (
    HttpClient,
    ask,
    chat_bytes,
    connected,
    request_bytes,
    serving,
)

pytestmark = pytest.mark.both_loops


def test_requests_in_flight_finish_and_idle_connections_are_closed(run: Run) -> None:
    go_on = asyncio.Event()

    async def slow(payload: HttpPayload, emit: Emit) -> None:
        emit("data: 1\n\n") if payload.parsed_json.get("stream") else None
        await go_on.wait()
        emit(END if payload.parsed_json.get("stream") else "{}")

    async def scenario() -> None:
        plane = FakeDataPlane(slow=slow)
        async with (
            serving(plane) as front,
            connected(front) as idle,
            connected(front) as stream,
            connected(front) as unary,
        ):
            assert (await idle.ask(chat_bytes())).status == 200
            stream.send(chat_bytes("slow", stream=True))
            await stream.head()
            plane.begun.clear()
            unary.send(chat_bytes("slow"))
            await plane.begun.wait()

            await front.stop_accepting()
            assert await idle.wait_closed_by_server() == b""
            with pytest.raises(ConnectionError):
                await HttpClient.connect(front)

            drained = asyncio.create_task(front.drain(10))
            go_on.set()
            assert await drained == 0
            assert [await stream.chunk() for _ in range(3)] == [b"data: 1\n\n", END.encode(), b""]
            reply = await unary.reply()
            assert (reply.status, reply.headers["connection"]) == (200, "close")

    run(scenario())


def test_a_request_that_exceeds_the_drain_time_gets_one_terminal_answer(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(hang=hang, some=hang_after_one)
        async with (
            serving(plane) as front,
            connected(front) as unary,
            connected(front) as stream,
        ):
            unary.send(chat_bytes("hang"))
            stream.send(chat_bytes("some", stream=True))
            await stream.head()
            await plane.begun_twice.wait()

            assert await front.drain(0.05) == 2
            assert (plane.cancelled, plane.running) == (2, 0)
            reply = await unary.reply()
            assert reply.status == 503
            assert reply.error["message"] == "the server is shutting down"
            body = await stream.wait_closed_by_server()
            assert body.count(b'data: {"error"') == 1
            assert body.count(END.encode()) == 1
            assert body.endswith(b"\r\n0\r\n\r\n")

    run(scenario())


def test_a_request_whose_body_is_still_arriving_is_answered(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front, connected(front) as client:
            data = chat_bytes(headers={"Expect": "100-continue"})
            client.send(data[:-4])
            assert (await client.head())[0] == 100
            drained = asyncio.create_task(front.drain(10))
            await asyncio.sleep(0)
            client.send(data[-4:])
            reply = await client.reply()
            assert (reply.status, reply.headers["connection"]) == (200, "close")
            assert await drained == 0

    run(scenario())


def test_closing_cancels_running_requests(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(hang=hang)
        async with serving(plane) as front, connected(front) as client:
            client.send(chat_bytes("hang"))
            await plane.begun.wait()
            await front.close()
            assert (plane.cancelled, plane.running) == (1, 0)
            assert await client.wait_closed_by_server() == b""

    run(scenario())


def test_a_port_in_use_is_an_os_error_and_leaves_nothing_open(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            port = front.addresses[0][1]
            with pytest.raises(OSError, match="in use"):
                await start_front(
                    FakeDataPlane(), HttpSettings(hosts=("127.0.0.2", "127.0.0.1"), port=port)
                )
            async with serving(FakeDataPlane(), hosts=("127.0.0.2",), port=port) as second:
                assert (await ask(second, request_bytes("GET", "/v2"))).status == 200

    run(scenario())


def test_several_hosts_share_a_port(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(), hosts=("127.0.0.1", "127.0.0.2")) as front:
            (first, port), (second, same) = front.addresses
            assert (first, second, port) == ("127.0.0.1", "127.0.0.2", same)

    run(scenario())
