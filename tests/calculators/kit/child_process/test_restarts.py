"""Restarts of a child that was ready and ended, with growing delays."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
from pathlib import Path

import pytest

from calculators.kit.child_process.supervisor import ChildState
from tests.calculators.kit.child_process.conftest import FIRST_DELAY
from tests.calculators.kit.child_process.supervised import Supervised
from tests.support.conditions import signal_process, soon, until
from tests.support.processes import is_running


def is_ready(child: Supervised, restarts: int) -> bool:
    supervisor = child
    return supervisor.state is ChildState.READY and supervisor.restarts == restarts


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit", "it exited with status 3"),
        ("abort", "it was ended by SIGKILL"),
        ("no message", "it sent what is not a message"),
        ("no frame", "the limit is"),
    ],
)
def test_a_child_that_ends_is_restarted(script: str, reason: str) -> None:
    async def run() -> None:
        child = Supervised()
        await soon(child.start())
        old = child.pid
        child.say(script)
        await until(lambda: bool(child.downs))
        assert reason in child.downs[0]
        assert child.pid is None
        why = child.unavailable_reason
        assert why.startswith('the child of "test" is starting (')
        assert reason in why
        await until(lambda: is_ready(child, restarts=1))
        assert (len(child.downs), child.backs) == (1, 1)
        assert child.pid != old
        assert await soon(child.ask("hello")) == "hello"
        await child.close()

    asyncio.run(run())


def test_messages_sent_while_there_is_no_child_are_dropped() -> None:
    async def run() -> None:
        child = Supervised()
        child.send(b"nobody")
        await soon(child.start())
        signal_process(child.pid, signal.SIGKILL)
        await until(lambda: bool(child.downs))
        child.send(b"nobody")
        await until(lambda: is_ready(child, restarts=1))
        await child.close()

    asyncio.run(run())


def test_the_delay_doubles_with_each_restart(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        child = Supervised()
        await soon(child.start())
        for number in range(3):
            signal_process(child.pid, signal.SIGKILL)
            await until(lambda number=number: is_ready(child, restarts=number + 1))  # type: ignore[misc]
        await child.close()

    with caplog.at_level(logging.ERROR, logger="graphrt.child"):
        asyncio.run(run())
    delays = [float(record.getMessage().split()[-2]) for record in caplog.records]
    assert delays == [FIRST_DELAY * each for each in (1, 2, 4)]


def test_a_child_that_can_no_longer_load_is_retried(tmp_path: Path) -> None:
    script = tmp_path / "script"

    async def run() -> None:
        child = Supervised(file=str(script))
        await soon(child.start())
        script.write_text("fail the weights are gone")
        signal_process(child.pid, signal.SIGKILL)
        await until(lambda: bool(child.failed_restarts))
        assert child.failed_restarts == ["the weights are gone"]
        assert len(child.downs) == 1
        assert "the weights are gone" in child.unavailable_reason
        script.unlink()
        await until(lambda: child.state is ChildState.READY)
        assert child.backs == 1
        await child.close()

    asyncio.run(run())


def test_a_failure_to_start_a_process_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    async def run() -> None:
        child = Supervised()
        await soon(child.start())
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", refuse)
            signal_process(child.pid, signal.SIGKILL)
            await until(lambda: bool(child.failed_restarts))
        await until(lambda: child.state is ChildState.READY)
        await child.close()

    asyncio.run(run())


# Hanging ------------------------------------------------------------------------------------------


def test_a_busy_child_that_is_silent_is_killed_and_replaced() -> None:
    async def run() -> None:
        child = Supervised(hang_seconds=0.4)
        await soon(child.start())
        pid = child.pid
        assert pid is not None
        signal_process(pid, signal.SIGSTOP)
        child.say("are you there")
        await until(lambda: bool(child.downs))
        assert "it has not answered" in child.downs[0]
        assert child.was_hung
        assert not is_running(pid)
        child.owed = 0
        await until(lambda: is_ready(child, restarts=1))
        assert not child.was_hung
        await child.close()

    asyncio.run(run())


def test_an_idle_child_may_be_silent() -> None:
    async def run() -> None:
        child = Supervised(hang_seconds=0.1)
        await soon(child.start())
        loop = asyncio.get_running_loop()
        watched = loop.time() + 0.5
        await until(lambda: loop.time() > watched)
        assert child.downs == []
        assert await soon(child.ask("hello")) == "hello"
        await child.close()

    asyncio.run(run())


def test_a_busy_child_that_is_silent_is_reported_before_it_is_killed() -> None:
    async def run() -> None:
        child = Supervised()
        await soon(child.start())
        child.owed = 1
        child._heard_at -= 7
        assert child.unavailable_reason == ('the child of "test" has not answered for 7 s')
        assert await soon(child.ask("hello")) == "hello"
        assert child.unavailable_reason == ""
        await child.close()

    asyncio.run(run())
