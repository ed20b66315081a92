"""Waking a child that waits for its parent: by another thread, and by a time-out."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from calculators.kit.child_process.framing import Frame, framed
from calculators.kit.child_process.parent_connection import ParentConnection
from tests.support.patience import PATIENCE


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, ParentConnection]]:
    parent, child = socket.socketpair()
    with parent:
        connection = ParentConnection(child.detach())
        yield parent, connection
        connection.close()


def received(connection: ParentConnection, seconds: float | None = None) -> list[Frame]:
    return list(connection.receive(wait=True, seconds=seconds))


def test_a_waiting_child_is_woken(ends: tuple[socket.socket, ParentConnection]) -> None:
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


def test_several_wake_ups_count_once_and_lose_no_message(
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


def test_the_wait_ends_after_its_time_out(ends: tuple[socket.socket, ParentConnection]) -> None:
    _, connection = ends
    assert received(connection, 0.001) == []
