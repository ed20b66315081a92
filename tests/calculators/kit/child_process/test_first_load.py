"""The first load of a child: ready, or a `LoadError` and nothing left running."""

from __future__ import annotations

import asyncio
import subprocess

import pytest

from calculators.kit.child_process.child_process import ChildProcess
from calculators.kit.child_process.supervisor import ChildState, LoadError
from tests.calculators.kit.child_process.scripted_child import Ready
from tests.calculators.kit.child_process.supervised import Supervised
from tests.support.conditions import soon, until
from tests.support.processes import is_running


def test_a_loaded_child_is_ready_and_answers() -> None:
    async def run() -> None:
        child = Supervised()
        ready = await soon(child.start())
        assert isinstance(ready, Ready)
        assert ready.pid == child.pid
        assert child.unavailable_reason == ""
        assert await soon(child.ask("hello")) == "hello"
        await child.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("fail the model has no weights", "the model has no weights"),
        ("exit", "it exited with status 3"),
        ("abort", "it was ended by SIGKILL"),
        ("no message", "it sent what is not a message"),
        ("no frame", "the limit is"),
    ],
)
def test_a_child_that_cannot_load_says_why(script: str, reason: str) -> None:
    async def run() -> None:
        child = Supervised(script)
        with pytest.raises(LoadError, match=reason):
            await soon(child.start())
        assert child.state is ChildState.STOPPED
        assert child.pid is None
        assert child.downs == []

    asyncio.run(run())


def test_a_child_can_be_started_again_after_a_failure() -> None:
    async def run() -> None:
        child = Supervised("exit")
        for _ in range(2):
            with pytest.raises(LoadError):
                await soon(child.start())
        await child.close()
        assert child.state is ChildState.CLOSED

    asyncio.run(run())


def test_a_missing_module_is_a_load_error(capfd: pytest.CaptureFixture[str]) -> None:
    async def run() -> None:
        child = Supervised(module="calculators.llm.no_such_module")
        with pytest.raises(LoadError, match="it exited with status 1"):
            await soon(child.start())

    asyncio.run(run())
    assert "no_such_module" in capfd.readouterr().err


def test_a_system_without_processes_is_a_load_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)

    async def run() -> None:
        child = Supervised()
        with pytest.raises(LoadError, match="could not be started: Resource temporarily"):
            await soon(child.start())
        assert child.state is ChildState.STOPPED

    asyncio.run(run())


def test_a_start_that_is_cancelled_leaves_no_process() -> None:
    async def run() -> None:
        child = Supervised("sleep")
        starting = asyncio.create_task(child.start())
        await until(lambda: child.pid is not None)
        pid = child.pid
        assert pid is not None
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await soon(starting)
        assert child.state is ChildState.CLOSED
        assert not is_running(pid)

    asyncio.run(run())


@pytest.mark.parametrize("turns", [1, 2, 50])
def test_close_during_the_start_ends_the_start_and_the_process(turns: int) -> None:
    async def run() -> None:
        child = Supervised("sleep")
        starting = asyncio.create_task(child.start())
        for _ in range(turns):
            await asyncio.sleep(0)
        pid = child.pid
        await soon(child.close())
        with pytest.raises(LoadError, match="shut down before it was ready"):
            await soon(starting)
        assert child.pid is None
        assert pid is None or not is_running(pid)

    asyncio.run(run())


def test_an_end_right_after_ready_is_an_end_like_any_other() -> None:
    async def run() -> None:
        child = Supervised()
        start = ChildProcess.buffer_updated

        def receive_and_die(process: ChildProcess, nbytes: int) -> None:
            start(process, nbytes)
            process.kill("it died at once")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ChildProcess, "buffer_updated", receive_and_die)
            await soon(child.start())
            await until(lambda: bool(child.downs))
        await until(lambda: child.state is ChildState.READY)
        assert child.downs == ["it died at once"]
        await child.close()

    asyncio.run(run())
