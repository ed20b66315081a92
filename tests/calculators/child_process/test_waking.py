"""A child that waits for its parent can be woken by another thread, and looks up after a time."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from calculators.child_process.framing import Frame, framed
from calculators.child_process.parent_connection import ParentConnection
from tests.patience import PATIENCE


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, ParentConnection]]:
    parent, child = socket.socketpair()
    with parent:
        connection = ParentConnection(child.detach())
        yield parent, connection
        connection.close()


def received(connection: ParentConnection, seconds: float | None = None) -> list[Frame]:
    return list(connection.receive(wait=True, seconds=seconds))


def test_it_is_woken_while_it_waits(ends: tuple[socket.socket, ParentConnection]) -> None:
    _, connection = ends
    woken = Event()

    def wait() -> None:
        received(connection)
        woken.set()

    waiting = Thread(target=wait, daemon=True)
    waiting.start()
    connection.wake()
    assert woken.wait(PATIENCE)
    waiting.join()


def test_many_signs_wake_once_and_lose_no_message(
    ends: tuple[socket.socket, ParentConnection],
) -> None:
    parent, connection = ends
    for _ in range(100_000):
        connection.wake()
    for piece in framed(b"hello"):
        parent.sendall(piece)
    frames: list[Frame] = []
    while not frames:
        frames += received(connection)
    assert frames == [b"hello"]


def test_it_looks_up_after_a_time(ends: tuple[socket.socket, ParentConnection]) -> None:
    _, connection = ends
    assert received(connection, 0.001) == []
