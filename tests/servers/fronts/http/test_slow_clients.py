"""Slow clients: each delays only its own answer, in bounded memory, for a bounded time."""

from __future__ import annotations

import asyncio

import pytest

from calculators.kit.requests.http_payload import HttpPayload
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import (
    END,
    Emit,
    FakeDataPlane,
    hang,
    hang_after_one,
)
from tests.servers.fronts.http.http_client import chat_bytes, connected, request_bytes, serving
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.both_loops

PACKET = b"data: " + b"x" * 8000 + b"\n\n"
SMALL = 8192


async def pour(payload: HttpPayload, emit: Emit) -> None:
    """A graph without end that waits for its client."""
    while True:
        await payload.client.writable()
        emit(PACKET)


def test_a_reader_that_stops_delays_its_own_graph_and_is_cut_off(run: Run) -> None:
    sent = 0

    async def count(payload: HttpPayload, emit: Emit) -> None:
        nonlocal sent
        while True:
            await payload.client.writable()
            emit(PACKET)
            sent += len(PACKET)

    async def scenario() -> None:
        plane = FakeDataPlane(count=count)
        async with (
            serving(plane, stall_seconds=0.4) as front,
            connected(front, receive_buffer=SMALL) as stalled,
            connected(front) as other,
        ):
            stalled.send(chat_bytes("count", stream=True))
            await plane.begun.wait()
            assert (await other.ask(chat_bytes())).status == 200
            plane.ended.clear()
            await plane.ended.wait()  # cut off: the graph is cancelled
            # 64 KiB here, 128 KiB in the kernel, the reader's own buffers, and a packet.
            assert sent < 1_000_000
            assert (await other.ask(chat_bytes())).status == 200

    run(scenario())


def test_a_slow_reader_is_not_cut_off(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(pour=pour)
        async with (
            serving(plane, stall_seconds=4.0) as front,
            connected(front, receive_buffer=SMALL) as client,
        ):
            client.send(chat_bytes("pour", stream=True))
            await client.head()
            loop = asyncio.get_running_loop()
            until = loop.time() + 5.0
            while loop.time() < until:
                assert await client.chunk() == PACKET
            assert plane.running == 1

    run(scenario())


def test_a_graph_that_sends_to_a_departed_client_delays_no_other(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(pour=pour)
        async with serving(plane) as front, connected(front) as other:
            async with connected(front) as leaving:
                leaving.send(chat_bytes("pour", stream=True))
                await leaving.head()
            await plane.ended.wait()
            assert (await other.ask(chat_bytes())).status == 200

    run(scenario())


def test_a_graph_that_does_not_wait_has_its_client_cut_off(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    sent = 0

    async def flood(payload: HttpPayload, emit: Emit) -> None:
        nonlocal sent
        while not payload.client.is_disconnected:
            emit(PACKET)
            sent += len(PACKET)

    async def scenario() -> None:
        plane = FakeDataPlane(flood=flood)
        async with (
            serving(plane, max_unsent_bytes=200_000) as front,
            connected(front, receive_buffer=SMALL) as client,
        ):
            client.send(chat_bytes("flood", stream=True))
            await plane.begun.wait()
            await plane.ended.wait()
        assert sent < 2_000_000

    run(scenario())
    assert "does not wait until it is writable" in caplog.text


def test_pieces_of_a_stream_may_be_larger_than_what_may_wait(run: Run) -> None:
    pieces = [b"data: " + letter * 5_000_000 + b"\n\n" for letter in (b"x", b"y")]

    async def large(payload: HttpPayload, emit: Emit) -> None:
        for piece in pieces:
            await payload.client.writable()
            emit(piece)

    async def scenario() -> None:
        plane = FakeDataPlane(large=large)
        async with serving(plane) as front, connected(front, receive_buffer=SMALL) as client:
            client.send(chat_bytes("large", stream=True))
            await client.head()
            got = [await client.chunk() for _ in pieces]
            assert got == pieces

    run(scenario())


def test_a_unary_answer_that_is_not_read_is_cut_off(run: Run) -> None:
    async def large(payload: HttpPayload, emit: Emit) -> None:
        emit(b"[" + b"1," * 2_000_000 + b"1]")

    async def scenario() -> None:
        plane = FakeDataPlane(large=large)
        async with (
            serving(plane, stall_seconds=0.2) as front,
            connected(front, receive_buffer=SMALL) as client,
        ):
            client.send(chat_bytes("large"))
            await plane.ended.wait()
            assert await front.drain(PATIENCE) == 0  # every connection is closed

    run(scenario())


def test_a_large_unary_answer_arrives_whole(run: Run) -> None:
    async def large(payload: HttpPayload, emit: Emit) -> None:
        emit(b"[" + b"1," * 2_000_000 + b"1]")

    async def scenario() -> None:
        async with serving(FakeDataPlane(large=large)) as front, connected(front) as client:
            assert len((await client.ask(chat_bytes("large"))).json) == 2_000_001

    run(scenario())


def test_a_silent_stream_has_pings_before_and_after_its_first_packet(run: Run) -> None:
    go_on = asyncio.Event()

    async def slow(payload: HttpPayload, emit: Emit) -> None:
        await go_on.wait()
        emit("data: 1\n\n")
        go_on.clear()
        await go_on.wait()
        emit(END)

    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(slow=slow), ping_seconds=0.05) as front,
            connected(front) as client,
        ):
            client.send(chat_bytes("slow", stream=True))
            assert (await client.head())[0] == 200
            assert [await client.chunk(), await client.chunk()] == [b": ping\n\n"] * 2
            go_on.set()
            while (chunk := await client.chunk()) == b": ping\n\n":
                pass
            assert chunk == b"data: 1\n\n"
            assert await client.chunk() == b": ping\n\n"
            go_on.set()
            while (chunk := await client.chunk()) == b": ping\n\n":
                pass
            assert [chunk, await client.chunk()] == [END.encode(), b""]

    run(scenario())


def test_an_error_after_a_ping_is_an_event(run: Run) -> None:
    go_on = asyncio.Event()

    async def slow(payload: HttpPayload, emit: Emit) -> None:
        await go_on.wait()
        raise KeyError

    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(slow=slow), ping_seconds=0.05) as front,
            connected(front) as client,
        ):
            client.send(chat_bytes("slow", stream=True))
            await client.head()
            go_on.set()
            body = b""
            while chunk := await client.chunk():
                body += chunk
            assert body.count(b'data: {"error"') == 1
            assert body.endswith(END.encode())

    run(scenario())


@pytest.mark.parametrize("start", [b"", b"GET /v2 HTT", b"GET /v2 HTTP/1.1\r\nHost: localhost\r\n"])
def test_headers_that_do_not_arrive_end_the_connection(run: Run, start: bytes) -> None:
    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(), header_seconds=0.1) as front,
            connected(front) as client,
        ):
            client.send(start)
            answer = await client.wait_closed_by_server()
        assert answer.startswith(b"HTTP/1.1 408 ") is bool(start)

    run(scenario())


def test_headers_that_trickle_do_not_extend_the_time(run: Run) -> None:
    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(), header_seconds=0.2) as front,
            connected(front) as client,
        ):
            client.send(b"GET /v2 HTTP/1.1\r\nX: ")
            closed = asyncio.ensure_future(client.wait_closed_by_server())
            while not closed.done():
                client.send(b"a")
                await asyncio.wait([closed], timeout=0.02)
            assert b" 408 " in closed.result() or closed.result() == b""

    run(scenario())


def test_the_header_time_does_not_run_during_a_request_or_between_two(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(hang=hang_after_one)
        async with (
            serving(plane, header_seconds=2.0) as front,
            connected(front) as idle,
            connected(front) as busy,
        ):
            assert (await idle.ask(chat_bytes())).status == 200
            busy.send(chat_bytes("hang", stream=True))
            await busy.head()
            # A connection that exceeds the limit shows that the time has passed.
            async with connected(front) as late:
                late.send(b"GET")
                assert b" 408 " in await late.wait_closed_by_server()
            assert (await idle.ask(chat_bytes())).status == 200
            assert plane.running == 1

    run(scenario())


def test_an_idle_connection_is_closed_in_the_end(run: Run) -> None:
    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(), keep_alive_seconds=0.1) as front,
            connected(front) as client,
        ):
            assert (await client.ask(request_bytes("GET", "/v2"))).status == 200
            assert await client.wait_closed_by_server() == b""

    run(scenario())


def test_a_body_that_trickles_is_a_408(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(hang=hang)
        async with (
            serving(plane, body_idle_seconds=0.3, min_body_rate=1_000_000) as front,
            connected(front) as client,
        ):
            head, body = chat_bytes(text="x" * 10_000).split(b"\r\n\r\n", 1)
            client.send(head + b"\r\n\r\n")
            answer = asyncio.ensure_future(client.head())
            for place in range(len(body)):
                client.send(body[place : place + 1])
                await asyncio.wait([answer], timeout=0.01)  # one byte now, another one later
                if answer.done():
                    break
            assert (await answer)[0] == 408
        assert plane.payloads == []

    run(scenario())


def test_a_body_that_stops_arriving_is_a_408(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(hang=hang)
        async with serving(plane, body_idle_seconds=0.05) as front, connected(front) as client:
            reply = await client.ask(chat_bytes()[:-3])
            assert (reply.status, reply.headers["connection"]) == (408, "close")
            assert reply.error["message"] == "the body did not arrive in time"
        assert plane.payloads == []

    run(scenario())
