"""Child processes that are started before they are wanted."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from calculators.kit.child_process import early_start
from calculators.kit.child_process.child_process import ChildProcess
from calculators.kit.child_process.early_start import (
    end_untaken,
    start_early,
    take_early,
    tell_early,
)
from tests.support.patience import PATIENCE

#: A child that sends a frame with its environment's value, and waits for the parent's end.
CHILD = """\
import os
import socket
import sys

connection = socket.socket(fileno=int(sys.argv[1]))
text = f"{os.getpid()} {os.environ.get('COLOR')}".encode()
connection.sendall(len(text).to_bytes(4, "little") + text)
connection.recv(1)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, child_program: None) -> Iterator[str]:
    (tmp_path / "early_child.py").write_text(CHILD)
    monkeypatch.syspath_prepend(tmp_path)
    yield "early_child"
    end_untaken()


#: A child that sends the text of its first message back.
TOLD_CHILD = """\
import os
import socket
import sys

connection = socket.socket(fileno=int(sys.argv[1]))
size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "little")
text = f"{os.getpid()} ".encode() + connection.recv(size, socket.MSG_WAITALL)
connection.sendall(len(text).to_bytes(4, "little") + text)
connection.recv(1)
"""


def frame_and_pid(module: str, color: str, first: bytes = b"") -> tuple[list[str], int]:
    """Start a child; return the words of its frame, and its process id."""

    async def run() -> tuple[list[str], int]:
        frames: asyncio.Queue[list[str]] = asyncio.Queue()
        child = ChildProcess(
            lambda frame: frames.put_nowait(bytes(frame).decode().split()), lambda reason: None
        )
        await child.start(module, {"COLOR": color}, first=first)
        async with asyncio.timeout(PATIENCE):
            words = await frames.get()
        child.kill("the test ends")
        await child.wait()
        return words, child.pid

    return asyncio.run(run())


def test_a_child_that_was_started_early_is_taken_once(module: str) -> None:
    start_early(module, {"COLOR": "red"})
    start_early(module, {"COLOR": "red"})  # there is one already
    words, pid = frame_and_pid(module, "red")
    assert words == [str(pid), "red"]
    assert take_early(module, {"COLOR": "red"}) is None


def test_a_child_with_another_environment_is_ended_and_another_one_started(module: str) -> None:
    start_early(module, {"COLOR": "red"})
    assert frame_and_pid(module, "green")[0][1] == "green"
    assert take_early(module, {"COLOR": "red"}) is None


def test_a_child_has_its_first_message_once(module: str, tmp_path: Path) -> None:
    (tmp_path / "early_child.py").write_text(TOLD_CHILD)
    start_early(module, {"COLOR": "red"})
    waiting = early_start._waiting[module].process.pid
    tell_early(module, b"load")
    assert frame_and_pid(module, "red", b"load") == ([str(waiting), "load"], waiting)


def test_a_child_that_was_told_something_else_is_not_taken(module: str, tmp_path: Path) -> None:
    (tmp_path / "early_child.py").write_text(TOLD_CHILD)
    start_early(module, {"COLOR": "red"})
    waiting = early_start._waiting[module].process.pid
    tell_early(module, b"load")
    words, pid = frame_and_pid(module, "red", b"else")
    assert words == [str(pid), "else"]
    assert pid != waiting


def test_a_path_for_imports_that_was_added_since_needs_another_child(
    module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    start_early(module)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "more")])
    assert take_early(module, {}) is None


def test_a_child_that_nobody_takes_leaves_nothing(module: str) -> None:
    before = len(os.listdir("/proc/self/fd"))
    start_early(module)
    end_untaken()
    assert len(os.listdir("/proc/self/fd")) == before
    assert take_early(module, {}) is None
