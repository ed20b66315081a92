"""Ends what a test process has started once that process has ended, however it did.

A test that fails ends its servers itself. One that is killed, with ``kill -9`` or as a worker that
crashes, cannot: so each test process marks its environment, which all that it starts inherits, and
starts one process more without the mark. That one waits until the test process is gone, and ends
what has the mark.

    python -m tests.reaper MARK < a pipe that closes when the test process ends
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tests.checkout import ROOT

_VARIABLE: Final = "GRAPHRT_TESTS_STARTED_BY"
_PROC: Final = Path("/proc")
#: What is told to end is gone by then.
_SECONDS: Final = 10.0


class Reaper:
    """Of this process, until it ends. Does nothing where there is no ``/proc``."""

    def __init__(self) -> None:
        self._mark = f"{os.getpid()}.{time.time_ns()}"
        self._process: subprocess.Popen[bytes] | None = None
        if not _PROC.is_dir():
            return
        # A session of its own: Ctrl-C is for the tests.
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.reaper", self._mark],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if name != _VARIABLE},
            start_new_session=True,
        )
        os.environ[_VARIABLE] = self._mark

    def end_all(self) -> list[str]:
        """End what is left now; the command lines."""
        return end_marked(self._mark)

    def close(self) -> None:
        """Let the process go, which ends what is left first."""
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()
            self._process = None


def end_marked(mark: str) -> list[str]:
    """Kill every process that was started with the mark, and what these start; command lines."""
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
    """The processes with the mark: ids and command lines. A zombie has neither."""
    entry = f"{_VARIABLE}={mark}".encode()
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
    end_marked(sys.argv[1])


if __name__ == "__main__":
    main()
