"""Frames and messages of some bytes each, by thousands, do not hold the event loop."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest

from tests.servers.fronts.kserve_grpc.conftest import Run
from tests.servers.fronts.kserve_grpc.fake_data_plane import FakeDataPlane
from tests.servers.fronts.kserve_grpc.grpc_client import serving_front
from tests.servers.fronts.kserve_grpc.raw_connection import raw_connection
from tests.support.patience import PATIENCE
from tests.support.turns import longest_turn

pytestmark = pytest.mark.both_loops

CONNECTIONS = 10
SENT = 2**18
#: Seconds of processor time of one turn of the loop: a reading of such frames took 25 ms, one of
#: each connection.
MOST = 0.05

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_UPDATE = bytes((0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1))
#: Frames that the server need not answer, or that end the connection.
KINDS = {
    "no HTTP/2": (bytes(24), bytes(9)),
    "settings": (_PREFACE, bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))),
    "updates of the window": (_PREFACE, _UPDATE),
    "data without content": (_PREFACE, bytes((0, 0, 0, 0, 0, 0, 0, 0, 1))),
    "empty messages": (_PREFACE, (16380).to_bytes(3) + bytes((0, 0, 0, 0, 0, 1)) + bytes(16380)),
    "resets of nothing": (_PREFACE, bytes((0, 0, 4, 3, 0, 0, 0, 0, 1, 0, 0, 0, 8))),
}


def flood(address: tuple[str, int], first: bytes, frame: bytes) -> None:
    # The server closes connections that break the protocol.
    with socket.create_connection(address, timeout=PATIENCE) as peer, suppress(OSError):
        peer.sendall(first + frame * (SENT // len(frame)))
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(2**16):
            pass


@pytest.mark.parametrize("kind", KINDS)
def test_a_flood_of_tiny_frames_leaves_turns_to_others(run: Run, kind: str) -> None:
    async def scenario() -> None:
        async with serving_front(FakeDataPlane()) as front:
            floods = [
                asyncio.to_thread(flood, front.addresses[0], *KINDS[kind])
                for _ in range(CONNECTIONS)
            ]
            assert await longest_turn(*floods) < MOST

    run(scenario())


def test_what_is_read_in_several_turns_arrives_in_its_order(run: Run) -> None:
    async def scenario() -> None:
        async with serving_front(FakeDataPlane()) as front, raw_connection(front) as connection:
            connection.send_raw(_UPDATE * 3000)
            first = connection.start_call()
            connection.send_raw(_UPDATE * 3000)
            connection.reset(first)
            connection.send_raw(_UPDATE * 3000)
            connection.start_call()
            connection.send_data(bytes(5))
            await connection.flush()
            assert await connection.status() == "5"

    run(scenario())
