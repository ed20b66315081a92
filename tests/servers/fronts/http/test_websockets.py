"""WebSockets of the front itself: their number, their silence, their end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from itertools import pairwise

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calculators.kit.requests.http_payload import HttpPayload
from calculators.kit.tasks import TaskEndpoint
from servers.fronts.body_room import SMALL, BodyRoom
from servers.fronts.http import HttpFront, handler, message_stream, routes
from servers.fronts.http.message_stream import Frames
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import Emit, FakeDataPlane
from tests.servers.fronts.http.http_client import (
    HttpClient,
    ask,
    chat_bytes,
    connected,
    request_bytes,
    serving,
)
from tests.support.patience import PATIENCE
from tests.support.turns import longest_turn

pytestmark = pytest.mark.both_loops

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


#: Seconds of processor time of one turn of the loop: a reading of the socket has 43,000 of such
#: messages, which took 250 ms of each connection.
MOST = 0.16
EMPTY = b"\x81\x80" + bytes(4)
PING = b"\x89\x80" + bytes(4)


def flood(front: HttpFront, frame: bytes, *, is_early: bool) -> None:
    with socket.create_connection(front.addresses[0], timeout=PATIENCE) as peer:
        peer.sendall(opening() + (frame * (2**18 // len(frame)) if is_early else b""))
        peer.recv(2**16)
        peer.sendall(frame * (2**18 // len(frame)) + b"\x88\x82" + bytes(4) + b"\x03\xe8")
        while peer.recv(2**16):
            pass


@pytest.mark.parametrize("is_early", [False, True], ids=["", "before the handshake"])
@pytest.mark.parametrize("frame", [EMPTY, PING], ids=["empty", "pings"])
def test_a_flood_of_tiny_messages_leaves_turns_to_others(
    run: Run, frame: bytes, is_early: bool
) -> None:
    async def scenario() -> None:
        heard = 0

        async def hear(payload: HttpPayload, emit: Emit) -> None:
            nonlocal heard
            assert payload.messages is not None
            emit("hello")
            while await payload.messages.receive() is not None:
                heard += 1

        async with serving(FakeDataPlane(talk=hear)) as front:
            floods = [asyncio.to_thread(flood, front, frame, is_early=is_early) for _ in range(4)]
            longest = await longest_turn(*floods)
        assert longest < MOST
        messages = 0 if frame is PING else (2**18 // len(frame)) * (2 if is_early else 1)
        assert heard == 4 * messages

    run(scenario())


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


def test_a_message_may_be_larger_than_what_may_wait(run: Run) -> None:
    async def large(payload: HttpPayload, emit: Emit) -> None:
        for letter in "xy":
            await payload.client.writable()
            emit(letter * 5_000_000)

    async def scenario() -> None:
        async with (
            serving(FakeDataPlane(talk=large)) as front,
            aiohttp.ClientSession() as session,
            session.ws_connect(address(front), max_msg_size=0) as socket,
        ):
            for letter in "xy":
                assert await socket.receive_str() == letter * 5_000_000

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
CLOSED_WITH_1013 = (1013).to_bytes(2) + b"messages arrive or are taken too slowly"


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


class Talks:
    """Graphs that wait with their first message until they may go on."""

    def __init__(self) -> None:
        self.has_taken = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def __call__(self, payload: HttpPayload, emit: Emit) -> None:
        assert payload.messages is not None
        emit("hello")
        while (message := await payload.messages.receive()) is not None:
            self.has_taken.set()
            await self.goes_on.wait()
            emit(str(len(message)))


CAPACITY = 8 * SMALL
LARGE = b"x" * 6 * SMALL


async def until_used(room: BodyRoom, least: int, most: int = 4 * CAPACITY) -> None:
    while not least <= room.used <= most:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


def test_messages_count_in_the_room_for_bodies_until_the_next_is_asked_for(run: Run) -> None:
    async def scenario() -> None:
        talks, room = Talks(), BodyRoom(CAPACITY)
        async with (
            serving(FakeDataPlane(talk=talks), room=room) as front,
            aiohttp.ClientSession() as session,
            session.ws_connect(address(front)) as first,
            session.ws_connect(address(front)) as second,
        ):
            assert await first.receive_str() == await second.receive_str() == "hello"
            await first.send_bytes(LARGE)
            await talks.has_taken.wait()
            assert len(LARGE) <= room.used <= CAPACITY
            sending = asyncio.create_task(second.send_bytes(LARGE))
            body = chat_bytes(user="x" * 3 * SMALL)
            asking = asyncio.create_task(ask(front, body))
            await asyncio.sleep(0)
            talks.goes_on.set()
            assert await first.receive_str() == await second.receive_str() == str(len(LARGE))
            await sending
            assert (await asking).status == 200
            await until_used(room, 0, 0)
            await first.send_str("ä" * 10)  # small ones do not count
            assert await first.receive_str() == "10"
            assert room.used == 0

    run(scenario())


@pytest.mark.parametrize("sent", [LARGE[:-1], LARGE], ids=["half a message", "one not taken"])
def test_a_socket_whose_messages_stand_still_gives_way(
    run: Run, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(message_stream, "SLOW_SECONDS", 0.2)
    monkeypatch.setattr(message_stream, "_LOOK_SECONDS", 0.1)

    async def scenario() -> None:
        talks, room = Talks(), BodyRoom(CAPACITY)
        plane = FakeDataPlane(talk=talks)
        async with serving(plane, room=room) as front, connected(front) as client:
            client.send(opening())
            await client.head()
            frame = b"\x82\xff" + len(LARGE).to_bytes(8) + bytes(4)
            client.send(b"\x81\x81" + bytes(4) + b"a" + frame + sent)
            await talks.has_taken.wait()
            await until_used(room, 5 * SMALL)
            assert (await ask(front, chat_bytes(user="x" * 5 * SMALL))).status == 200
            assert CLOSED_WITH_1013 in await client.wait_closed_by_server()
            await plane.ended.wait()
            assert room.used == 0

    run(scenario())


def test_the_room_of_a_socket_that_is_gone_is_free(run: Run) -> None:
    async def scenario() -> None:
        room = BodyRoom(CAPACITY)
        plane = FakeDataPlane(talk=talk)
        async with serving(plane, room=room) as front, connected(front) as client:
            client.send(opening())
            await client.head()
            client.send(b"\x82\xff" + len(LARGE).to_bytes(8) + bytes(4) + LARGE[:-1])
            await until_used(room, len(LARGE) - 1)
            client.abort()
            await until_used(room, 0, 0)

    run(scenario())


@given(data=st.data())
def test_messages_are_found_however_their_frames_come(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 70_000), max_size=4))
    sent = b""
    for size in sizes:
        cuts = sorted(data.draw(st.lists(st.integers(0, size), max_size=2)))
        for place, (begin, end) in enumerate(pairwise([0, *cuts, size])):
            sent += b"\x89\x83" + bytes(4) + b"abc"  # a ping
            first = (0 if place else 2) | (0x80 if end == size and place == len(cuts) else 0)
            length = end - begin
            if length < 126:
                head = bytes([0x80 | length])
            elif length < 65536:
                head = b"\xfe" + length.to_bytes(2)
            else:
                head = b"\xff" + length.to_bytes(8)
            sent += bytes([first]) + head + bytes(4) + bytes(length)
    frames = Frames()
    at = found = 0
    while at < len(sent):
        step = data.draw(st.integers(1, max(1, len(sent) // 3)))
        found += frames.take(sent[at : at + step])
        at += step
    assert (list(frames.arrived), found) == (sizes, sum(sizes))


def test_a_connection_that_becomes_no_socket_is_closed(run: Run) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front, connected(front) as client:
            client.send(request_bytes("GET", "/v2/health/live", b"", UPGRADE) + bytes(SMALL))
            assert (await client.head())[0] == 200
            await client.wait_closed_by_server()

    run(scenario())
