"""WebSockets of the front itself: their number, their silence, their end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import aiohttp
import pytest

from calculators.requests.http_payload import HttpPayload
from calculators.tasks import TaskEndpoint
from servers.fronts.http import HttpFront, handler, routes
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import Emit, FakeDataPlane
from tests.servers.fronts.http.http_client import HttpClient, ask, connected, request_bytes, serving

PATH = "/v3/talks"
UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.fixture(autouse=True)
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A path that no installed task has."""
    found = TaskEndpoint("/talks", methods=("GET",), is_socket=True)
    for module in (handler, routes):
        monkeypatch.setattr(module, "endpoint_at", {PATH: found}.get)
    monkeypatch.setattr(routes, "task_endpoints", lambda: (found,))
    routes._whole_paths.cache_clear()
    yield
    monkeypatch.undo()
    routes._whole_paths.cache_clear()


async def talk(payload: HttpPayload, emit: Emit) -> None:
    """Say hello, and repeat what is said until the client closes."""
    assert payload.messages is not None
    emit("hello")
    while (message := await payload.messages.receive()) is not None:
        await payload.client.writable()
        emit(message)


def address(front: HttpFront) -> str:
    host, port = front.addresses[0]
    return f"http://{host}:{port}{PATH}?model=talk"


def opening(**headers: str) -> bytes:
    return request_bytes("GET", f"{PATH}?model=talk", b"", {**UPGRADE, **headers})


def test_the_number_of_sockets_is_limited(run: Run) -> None:
    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(talk=talk), max_sockets=1) as front,
            aiohttp.ClientSession() as session,
        ):
            async with session.ws_connect(address(front)) as socket:
                assert await socket.receive_str() == "hello"
                refused = await ask(front, opening())
                assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            async with session.ws_connect(address(front)) as socket:
                assert await socket.receive_str() == "hello"

    run(scenario())


def test_a_silent_client_is_closed(run: Run) -> None:
    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(talk=talk), socket_idle_seconds=0.1) as front,
            aiohttp.ClientSession() as session,
            session.ws_connect(address(front)) as socket,
        ):
            assert await socket.receive_str() == "hello"
            closed = await socket.receive()
            assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, 1008)

    run(scenario())


def test_a_client_that_answers_no_ping_is_gone(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(talk=talk)
        async with serving(plane, ping_seconds=0.1) as front, connected(front) as client:
            client.send(opening())
            status, headers = await client.head()
            assert (status, headers["upgrade"]) == (101, "websocket")
            # hello, and then a ping
            assert (await client.wait_closed_by_server())[:9] == b"\x81\x05hello\x89\x00"
            await plane.ended.wait()
        assert plane.cancelled == 1

    run(scenario())


def test_a_client_that_closes_ends_the_graph_and_not_by_force(run: Run) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(talk=talk)
        async with serving(plane) as front, aiohttp.ClientSession() as session:
            async with session.ws_connect(address(front)) as socket:
                await socket.send_str("a")
                assert [await socket.receive_str() for _ in range(2)] == ["hello", "a"]
            await plane.ended.wait()
        assert (plane.cancelled, plane.running) == (0, 0)

    run(scenario())


#: The beginning of a frame: text of a terabyte, masked with zeros.
TERABYTE = b"\x81\xff" + (2**40).to_bytes(8) + bytes(4)
CLOSED_WITH_1009 = b"\x88\x02" + (1009).to_bytes(2)


async def send_on(client: HttpClient) -> None:
    while True:
        client.send(bytes(2**16))
        await client.writer.drain()


@pytest.mark.parametrize("is_endless", [False, True])
def test_a_client_with_too_long_a_message_gets_the_code_whether_it_stops_or_not(
    run: Run, is_endless: bool
) -> None:
    async def scenario() -> None:
        plane = FakeDataPlane(talk=talk)
        async with serving(plane, linger_seconds=0.5) as front, connected(front) as client:
            client.send(opening())
            await client.head()
            assert await client.reader.readexactly(7) == b"\x81\x05hello"
            client.send(TERABYTE + bytes(2**20))
            assert await client.reader.readexactly(4) == CLOSED_WITH_1009
            if is_endless:
                with pytest.raises(ConnectionError):
                    await send_on(client)
            else:
                await client.wait_closed_by_server()
            await plane.ended.wait()

    run(scenario())


def test_draining_lets_sockets_end_and_then_closes_them(run: Run) -> None:
    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(talk=talk)) as front,
            aiohttp.ClientSession() as session,
            session.ws_connect(address(front)) as socket,
        ):
            assert await socket.receive_str() == "hello"
            await front.stop_accepting()
            await socket.send_str("still here")
            assert await socket.receive_str() == "still here"
            draining = asyncio.create_task(front.drain(0))
            closed = await socket.receive()
            assert (closed.type, closed.data) == (aiohttp.WSMsgType.CLOSE, 1001)
            assert await draining == 1

    run(scenario())


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-WebSocket-Key": "short"},
        {"Sec-WebSocket-Version": "1"},
        {"Connection": "keep-alive"},
    ],
)
def test_a_bad_handshake_is_refused(run: Run, headers: dict[str, str]) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane(talk=talk)) as front:
            assert (await ask(front, opening(**headers))).status == 400

    run(scenario())
