"""`graphrt serve` with the real engine, as a process that is observed from outside."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.process.http_client import HttpClient
from tests.servers.cli.process import start_graphrt
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE
from tests.support.processes import children_of, is_running, module_of

DEMO: Final = ROOT / "examples" / "models" / "demo"
ENGINE: Final = "calculators.llm.engine.process"
PROMPTS: Final = "calculators.llm.prompt.process"


class ServerProcess:
    """A running server; it is killed at the end if it still runs.

    Its log is read all the time, but within `unread_log`.
    """

    def __init__(self, *words: str | Path, cwd: Path = ROOT) -> None:
        with open(os.devnull, "wb") as nothing:
            self._process, self._stderr = start_graphrt(
                "serve", "--rest_port", "auto", *words, cwd=cwd, stdout=nothing.fileno()
            )
        self.log: list[str] = []
        self._more_log = threading.Condition()
        self._reads_log = threading.Event()
        self._reads_log.set()
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()
        self.port = 0

    def __enter__(self) -> ServerProcess:
        try:
            line = self.wait_for_log(r"  curl .*http://[^ ]*:(\d+)/")
        except BaseException:
            self._end()
            raise
        self.port = int(line[1])
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def client(self) -> HttpClient:
        """Return a client of the server."""
        return HttpClient(self.port)

    # Log ------------------------------------------------------------------------------------------

    def wait_for_log(self, pattern: str, *, since: int = 0) -> re.Match[str]:
        """Wait for the first line, from the given one on, in which the pattern is found."""
        place = since
        deadline = time.monotonic() + PATIENCE
        with self._more_log:
            while True:
                for line in self.log[place:]:
                    match = re.search(pattern, line)
                    if match is not None:
                        return match
                place = len(self.log)
                left = deadline - time.monotonic()
                is_over = not self._reader.is_alive() or left <= 0
                if is_over and place == len(self.log):
                    raise AssertionError(f"no line with {pattern!r} in:\n{''.join(self.log)}")
                self._more_log.wait(min(left, 0.5))

    @contextmanager
    def unread_log(self) -> Iterator[None]:
        """Let nobody read the log until the context is left."""
        self._reads_log.clear()
        try:
            yield
        finally:
            self._reads_log.set()

    def _read_log(self) -> None:
        for line in self._stderr:
            self._reads_log.wait()
            with self._more_log:
                self.log.append(line)
                self._more_log.notify_all()

    # State ----------------------------------------------------------------------------------------

    def is_live(self) -> bool:
        return self.client.get("/v2/health/live").status == 200

    def is_ready(self) -> bool:
        return self.client.get("/v2/health/ready").status == 200

    def children(self) -> dict[int, str]:
        """Return its running child processes, and the module of each."""
        return {pid: module_of(pid) for pid in children_of(self.pid) if is_running(pid)}

    def lasting_children(self) -> dict[int, str]:
        """Return the children that every model has; the grammar process comes and goes."""
        return {
            pid: module for pid, module in self.children().items() if module in (ENGINE, PROMPTS)
        }

    def child(self, module: str) -> int:
        """Return the process id of the only child that runs a module."""
        (pid,) = [pid for pid, name in self.children().items() if name == module]
        return pid

    # End ------------------------------------------------------------------------------------------

    def send_signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for its end; return its exit code."""
        code = self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def _end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self.wait()
        self._stderr.close()
