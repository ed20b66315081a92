"""Processes and temporary files of a test process end with it, even when it is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.reaper import MARK
from tests.servers.cli.process import environment
from tests.support.checkout import ROOT
from tests.support.conditions import wait_until
from tests.support.patience import PATIENCE
from tests.support.processes import is_running

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

_SLEEP = "import time; time.sleep(1000)"
#: Starts a process that starts another one, prints their ids, and waits or ends.
_STARTING = f"""
import subprocess, sys, tempfile, time
from tests.reaper import Reaper

reaper = Reaper()
print(tempfile.mkdtemp(), flush=True)
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


class Started:
    """A process with a reaper.

    Attributes:
        children: the ids of its children.
        folder: a temporary folder of its own.
    """

    def __init__(self, way: str, **variables: str) -> None:
        named = {name: text for name, text in environment().items() if name != MARK}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _STARTING, way],
            cwd=ROOT,
            env={**named, **variables},
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.folder = Path(self.process.stdout.readline().strip())
        self.children = [int(word) for word in self.process.stdout.readline().split()]


def assert_gone(pids: list[int]) -> None:
    wait_until(lambda: not any(is_running(pid) for pid in pids), "all processes are gone")


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    """The folder for temporary files, empty again in the end."""
    yield tmp_path
    wait_until(lambda: list(tmp_path.iterdir()) == [], "no file is left")


def test_children_and_files_end_with_a_test_process_that_is_killed(temporary: Path) -> None:
    started = Started("waits", TMPDIR=str(temporary))
    with started.process as process:
        assert len(started.children) == 2
        assert all(is_running(pid) for pid in started.children)
        assert temporary in started.folder.parents
        process.kill()
    assert_gone(started.children)


def test_children_and_files_end_with_a_test_process_that_ends(temporary: Path) -> None:
    started = Started("ends", TMPDIR=str(temporary))
    with started.process as process:
        assert process.wait(PATIENCE) == 0
    assert_gone(started.children)


def test_a_worker_has_its_files_where_those_of_its_run_are(tmp_path: Path) -> None:
    started = Started("ends", TMPDIR=str(tmp_path), **{MARK: "that of the run"})
    with started.process as process:
        assert process.wait(PATIENCE) == 0
    assert_gone(started.children)
    assert started.folder.parent == tmp_path
    assert started.folder.is_dir()


def test_remaining_processes_are_reported(temporary: Path) -> None:
    started = Started("looks", TMPDIR=str(temporary))
    with started.process as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "2\n"
    assert_gone(started.children)
