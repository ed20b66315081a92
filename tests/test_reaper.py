"""Processes that a test process has started end with it, even when it is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.checkout import ROOT
from tests.patience import PATIENCE
from tests.process.processes import is_running
from tests.servers.cli.process import environment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

_SLEEP = "import time; time.sleep(1000)"
#: Starts a process that starts another one, prints their ids, and waits or ends.
_STARTING = f"""
import subprocess, sys, time
from tests.reaper import Reaper

reaper = Reaper()
inner = "import subprocess, sys; print(subprocess.Popen([sys.executable, '-c', sys.argv[1]]).pid, flush=True); exec(sys.argv[1])"
child = subprocess.Popen(
    [sys.executable, "-c", inner, {_SLEEP!r}], stdout=subprocess.PIPE, text=True,
    start_new_session=True,
)
print(child.pid, child.stdout.readline().strip(), flush=True)
if sys.argv[1] == "waits":
    time.sleep(1000)
if sys.argv[1] == "looks":
    print(len(reaper.end_all()), flush=True)
"""  # noqa: E501


def start(way: str) -> tuple[subprocess.Popen[str], list[int]]:
    """Start a process that has a reaper; return it and the ids of its children."""
    process = subprocess.Popen(
        [sys.executable, "-c", _STARTING, way],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, [int(word) for word in process.stdout.readline().split()]


def assert_gone(pids: list[int]) -> None:
    ends_at = time.monotonic() + PATIENCE
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def test_children_end_with_a_test_process_that_is_killed() -> None:
    process, started = start("waits")
    with process:
        assert len(started) == 2
        assert all(is_running(pid) for pid in started)
        process.kill()
    assert_gone(started)


def test_children_end_with_a_test_process_that_ends() -> None:
    process, started = start("ends")
    with process:
        assert process.wait(PATIENCE) == 0
    assert_gone(started)


def test_remaining_processes_are_reported(tmp_path: Path) -> None:
    process, started = start("looks")
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == "2\n"
    assert_gone(started)
