"""What nobody will read is neither kept nor searched for requests, however much of it arrives."""

from __future__ import annotations

import asyncio
import socket
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from calculators.kit.requests.http_payload import HttpPayload
from servers.fronts.body_room import SMALL
from servers.fronts.http import HttpFront
from tests.servers.fronts.http.conftest import Run
from tests.servers.fronts.http.fake_data_plane import Emit, FakeDataPlane, echo
from tests.servers.fronts.http.http_client import HttpClient, ask, chat_bytes, connected, serving
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.both_loops

MIB = 2**20
#: Bytes that a client sends at most, and that the server may take for it meanwhile: a reading of
#: the socket has 256 KiB.
SENT = 8 * MIB
KEPT = 2 * MIB

LIVE = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n"
UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
NOTHING = b"POST /v9/nothing HTTP/1.1\r\nHost: localhost\r\n"
#: What a client sends first, and what then goes on and on.
KINDS: dict[str, tuple[bytes, bytes, set[int]]] = {
    "behind an upgrade of no socket": (LIVE + UPGRADE, b"\0", {200}),
    "behind an upgrade of nothing": (NOTHING + UPGRADE, b"\0", {404}),
    "behind an upgrade of no graph": (
        b"GET /v3/realtime?model=none HTTP/1.1\r\nHost: localhost\r\n" + UPGRADE, b"\x82\x7e",
        {404}),
    "behind an upgrade with a body": (
        NOTHING + b"Content-Length: 2\r\n" + UPGRADE + b"{}", b"\0", {404}),
    "behind CONNECT": (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\0", {400}),
    "behind an upgrade to HTTP/2": (
        LIVE + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n", b"\0", {200}),
    "behind a request": (LIVE + b"\r\n", b"\0", {200, 400}),
    "instead of a request": (b"\x16\x03\x01", b"\0", {400}),
    "in a line without end": (LIVE + b"a: ", b"x", {400}),
    "in lines": (LIVE, b"a: b\r\n", {400}),
    "instead of chunks": (NOTHING + b"Transfer-Encoding: chunked\r\n\r\n", b"x", {400, 404}),
    "in a body of nothing": (NOTHING + b"Content-Length: 99999999\r\n\r\n", b"x", {404}),
    "in a body that is not wanted": (
        NOTHING + b"Expect: 100-continue\r\nContent-Length: 99999999\r\n\r\n", b"x", {404}),
    "in a body that is too large": (
        b"POST /v3/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n"
        b"Content-Type: application/json\r\n\r\n", b"x", {413}),
}  # fmt: skip


def _flood(front: HttpFront, first: bytes, more: bytes) -> int:
    """Send until the server has closed the connection, or `SENT`; return the answer's status.

    In a thread, and with nothing allocated meanwhile.
    """
    data = memoryview(more * (SENT // len(more)))
    with socket.create_connection(front.addresses[0], timeout=PATIENCE) as peer:
        answer = b""
        with suppress(OSError):  # the server has closed the connection
            peer.sendall(first)
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError):  # the close has overtaken the answer
            answer = peer.recv(64)
    return int(answer[9:12] or b"0")


@contextmanager
def _most_kept() -> Iterator[Callable[[], int]]:
    """Yield what returns the most bytes allocated since the beginning."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    try:
        yield lambda: tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", KINDS)
def test_what_arrives_unread_is_not_kept(run: Run, kind: str) -> None:
    first, more, expected = KINDS[kind]

    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front:
            assert (await ask(front, chat_bytes())).status == 200
            with _most_kept() as most:
                status = await asyncio.to_thread(_flood, front, first, more)
                kept = most() - SENT
            assert status in {*expected, 0}
            assert kept < KEPT

    run(scenario())


def test_requests_ahead_wait_in_the_socket_and_are_answered_in_order(run: Run) -> None:
    """Of those whose bodies are large; the client need not wait for its answers."""
    asked = 40

    async def scenario() -> None:
        goes_on = asyncio.Event()

        async def waits(payload: HttpPayload, emit: Emit) -> None:
            await goes_on.wait()
            await echo(payload, emit)

        size = 2 * SMALL - 1000
        requests = [chat_bytes("waits", user="x" * size, place=place) for place in range(asked)]
        sent = b"".join(requests)
        plane = FakeDataPlane(waits=waits)
        async with serving(plane) as front:
            with _most_kept() as most, socket.create_connection(front.addresses[0]) as peer:
                sending = asyncio.create_task(asyncio.to_thread(peer.sendall, sent))
                await plane.begun.wait()
                for _ in range(20):  # what the server takes of the others, it takes meanwhile
                    assert (await ask(front, chat_bytes())).status == 200
                assert most() < KEPT
                goes_on.set()
                reader, writer = await asyncio.open_connection(sock=peer.dup())
                client = HttpClient(reader, writer)
                for place in range(asked):
                    reply = await client.reply()
                    assert (reply.status, reply.json["echo"]["place"]) == (200, place)
                await sending
                await client.close()

    run(scenario())


def test_messages_before_the_handshake_wait_in_the_socket(run: Run) -> None:
    frame = b"\x82\xff" + (SMALL).to_bytes(8) + bytes(4 + SMALL)
    frames = SENT // len(frame)

    async def scenario() -> None:
        goes_on, sizes = asyncio.Event(), list[int]()
        has_all = asyncio.Event()

        async def waits(payload: HttpPayload, emit: Emit) -> None:
            assert payload.messages is not None
            await goes_on.wait()
            emit("hello")
            while len(sizes) < frames and (message := await payload.messages.receive()) is not None:
                sizes.append(len(message))
            has_all.set()

        path = b"GET /v3/realtime?model=waits HTTP/1.1\r\nHost: localhost\r\n"
        sent = path + UPGRADE + frame * frames
        plane = FakeDataPlane(waits=waits)
        async with serving(plane) as front:
            with _most_kept() as most, socket.create_connection(front.addresses[0]) as peer:
                sending = asyncio.create_task(asyncio.to_thread(peer.sendall, sent))
                await plane.begun.wait()
                for _ in range(20):  # what the server takes of them, it takes meanwhile
                    assert (await ask(front, chat_bytes())).status == 200
                assert most() < KEPT
                goes_on.set()
                await sending
                await has_all.wait()
        assert sizes == [SMALL] * frames

    run(scenario())


def test_a_stop_beside_a_body_that_nobody_reads_is_no_error(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with serving(FakeDataPlane()) as front, connected(front) as client:
            client.send(NOTHING + b"Content-Length: 99999999\r\n\r\n" + bytes(SENT))
            assert (await client.head())[0] == 404

    run(scenario())
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
