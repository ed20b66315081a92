"""Reaper: ends the processes that a test process has started once it has ended, however it did.

A test that fails ends its servers itself. A test process that is killed, with ``kill -9`` or as a
worker that crashes, cannot. So each test process marks its environment, which all its children
inherit, and starts one more process without the mark. That process waits until the test process has
ended, and kills every process with the mark.

The first test process of a run also makes the folder for temporary files of the whole run. Its
reaper removes it, with what servers that were killed have left there.

    python -m tests.reaper MARK [FOLDER] < a pipe that closes when the test process ends
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.support.checkout import ROOT

#: The variable of the environment that marks a process.
MARK: Final = "GRAPHRT_TESTS_STARTED_BY"
_PROC: Final = Path("/proc")
#: Seconds after which a process that was asked to end has ended.
_SECONDS: Final = 10.0


class Reaper:
    """The reaper of this process. Does nothing where there is no ``/proc``."""

    def __init__(self) -> None:
        self._mark = f"{os.getpid()}.{time.time_ns()}"
        self._process: subprocess.Popen[bytes] | None = None
        if not _PROC.is_dir():
            return
        folders = [] if MARK in os.environ else [_use_own_temporary_folder()]
        # A session of its own, because Ctrl-C is for the tests.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.reaper", self._mark, *folders],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if name != MARK},
            start_new_session=True,
        )
        os.environ[MARK] = self._mark

    def end_all(self) -> list[str]:
        """End the remaining processes now; return their command lines."""
        return end_marked(self._mark)

    def close(self) -> None:
        """End the reaper, which first ends the remaining processes."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None


def _use_own_temporary_folder() -> str:
    """Make a folder for temporary files of this process and its children; return its path."""
    # Where pytest keeps the files of the last runs, for whoever looks for the cause of a failure.
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    tempfile.tempdir = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="graphrt-tests-")
    return tempfile.tempdir


def end_marked(mark: str) -> list[str]:
    """Kill every process with the mark, and their children; return the command lines."""
    ended: dict[int, str] = {}
    deadline = time.monotonic() + _SECONDS
    while (found := _marked(mark)) and time.monotonic() < deadline:
        for pid, command in found.items():
            ended[pid] = command
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)
    return list(ended.values())


def _marked(mark: str) -> dict[int, str]:
    """Return ids and command lines of processes with the mark. Zombies have neither."""
    entry = f"{MARK}={mark}".encode()
    found: dict[int, str] = {}
    for folder in _PROC.iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            if entry in (folder / "environ").read_bytes().split(b"\0"):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                found[int(folder.name)] = b" ".join(words).decode(errors="replace").strip()
        except OSError:
            continue
    return found


def main() -> None:
    sys.stdin.buffer.read()
    mark, *folders = sys.argv[1:]
    end_marked(mark)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
