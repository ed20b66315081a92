"""Output of a child goes to the parent's log."""

from __future__ import annotations

import asyncio
import os
import subprocess

import pytest

from calculators.kit.child_process import child_process
from calculators.kit.child_process.child_process import ChildOutput
from calculators.kit.child_process.supervisor import LoadError
from tests.calculators.kit.child_process.supervised import Supervised
from tests.support.conditions import soon


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    own = (record for record in caplog.records if record.name == "graphrt.child.output")
    return [record.getMessage() for record in own]


def test_a_childs_last_words_are_in_the_log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("INFO")

    async def run() -> None:
        child = Supervised(module="calculators.llm.no_such_module")
        with pytest.raises(LoadError, match="it exited with status 1"):
            await soon(child.start())

    asyncio.run(run())
    (line,) = told(caplog)
    assert line.startswith('the child of "test": ')
    assert line.endswith("No module named calculators.llm.no_such_module")
    assert capfd.readouterr().err == ""


def test_lines_are_cut_and_decoded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    long = b"x" * (child_process.MAX_LINE + 3)

    async def run() -> None:
        reader, writer = os.pipe()
        output = ChildOutput("c", reader)
        os.write(writer, b"one\n\ntw")
        os.write(writer, b"o\r\n\xff\n" + long + b"\nend")
        output.finish()
        os.close(writer)

    asyncio.run(run())
    assert told(caplog) == [
        "c: one",
        "c: two",
        "c: \\xff",
        "c: " + "x" * child_process.MAX_LINE,
        "c: xxx",
        "c: end",
    ]


def test_output_that_is_not_logged_goes_on_to_standard_error(
    caplog: pytest.LogCaptureFixture, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    async def run() -> None:
        reader, writer = os.pipe()
        output = ChildOutput("c", reader, is_logged=False)
        os.write(writer, b"half a li")
        os.close(writer)
        output.finish()

    asyncio.run(run())
    assert told(caplog) == []
    assert capfdbinary.readouterr().err == b"half a li"


def test_a_process_that_inherits_the_pipe_does_not_delay_the_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")

    async def run() -> None:
        before = len(os.listdir("/proc/self/fd"))
        reader, writer = os.pipe()
        output = ChildOutput("c", reader)
        os.write(writer, b"still here")
        output.finish()
        output.finish()
        with pytest.raises(BrokenPipeError):
            os.write(writer, b"and now?")
        os.close(writer)
        assert len(os.listdir("/proc/self/fd")) == before

    asyncio.run(run())
    assert told(caplog) == ["c: still here"]


def test_no_descriptor_stays_open_without_a_child(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level("INFO")

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", refuse)

    async def run() -> None:
        child = Supervised()
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(LoadError, match="it could not be started"):
            await soon(child.start())
        assert len(os.listdir("/proc/self/fd")) == before

    asyncio.run(run())
