"""The end of a child process: it outlives neither close nor its parent."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys

import pytest

from calculators.kit.child_process.supervisor import ChildState
from tests.calculators.kit.child_process.supervised import Supervised
from tests.support.conditions import signal_process, soon, until, wait_until
from tests.support.processes import is_running


@pytest.mark.parametrize("script", ["", "sleep", "SIGSTOP"])
def test_close_ends_the_process(script: str) -> None:
    """Close also ends a process that does not read."""

    async def run() -> None:
        child = Supervised()
        await soon(child.start())
        pid = child.pid
        assert pid is not None
        if script == "SIGSTOP":
            signal_process(pid, signal.SIGSTOP)
        elif script:
            child.say(script)
        await soon(asyncio.gather(child.close(), child.close()))
        assert not is_running(pid)
        assert child.pid is None
        assert child.state is ChildState.CLOSED
        assert child.downs == []
        await child.close()

    asyncio.run(run())


def test_a_second_close_waits_for_the_first() -> None:
    async def run() -> None:
        child = Supervised()
        await soon(child.start())
        first = asyncio.create_task(child.close())
        await until(lambda: child.state is ChildState.CLOSED)
        await soon(child.close())
        assert child.pid is None
        await soon(first)

    asyncio.run(run())


@pytest.mark.parametrize("turns", [0, 1, 50])
def test_close_during_a_restart_ends_the_process(turns: int) -> None:
    async def run() -> None:
        child = Supervised()
        await soon(child.start())
        signal_process(child.pid, signal.SIGKILL)
        await until(lambda: child.state is ChildState.LOADING)
        for _ in range(turns):
            await asyncio.sleep(0)
        pid = child.pid
        await soon(child.close())
        assert child.pid is None
        assert pid is None or not is_running(pid)

    asyncio.run(run())


def test_close_during_the_delay_before_a_restart_starts_nothing() -> None:
    async def run() -> None:
        child = Supervised()
        await soon(child.start())
        signal_process(child.pid, signal.SIGKILL)
        await until(lambda: child.state is ChildState.BACKING_OFF)
        await soon(child.close())
        assert (child.pid, child.restarts) == (None, 0)

    asyncio.run(run())


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a child ends with its next message")
@pytest.mark.parametrize("script", ["hello", "spin"], ids=["idle", "busy"])
def test_the_child_ends_when_the_parent_is_killed(script: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-m", "tests.calculators.kit.child_process.orphaning_parent", script],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    with parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
    wait_until(lambda: not is_running(pid), "the child has ended")


def test_a_child_starts_while_a_thread_imports_opencv(monkeypatch: pytest.MonkeyPatch) -> None:
    """Meanwhile OpenCV's folder, which has a module ``typing``, is the first of the path."""
    folder = importlib.util.find_spec("cv2")
    assert folder is not None
    assert folder.submodule_search_locations is not None
    monkeypatch.syspath_prepend(next(iter(folder.submodule_search_locations)))

    async def run() -> None:
        child = Supervised()
        await soon(child.start())
        await soon(child.close())

    asyncio.run(run())
