"""A server of the chat's own, for a model that no server serves yet."""

from __future__ import annotations

import collections
import re
import signal
import subprocess
import sys
import threading
from types import TracebackType
from typing import Final

from servers.cli.messages import CommandFailed

_ADDRESS: Final = re.compile(r"graphrt serves (http://\S+)")
_FAILED: Final = re.compile(r"^  \S.*  failed: (.*)")
#: Seconds that a server gets to end.
_PATIENCE: Final = 10.0


class OwnServer:
    """`graphrt serve` as a child process, on a free port of this machine.

    A context manager: entering waits until the model is loaded, leaving ends the server.
    """

    def __init__(self, words: list[str], *, is_verbose: bool) -> None:
        """``words``: of the command line of `serve`, the model among them."""
        self._words = words
        self._is_verbose = is_verbose
        self._last_lines: collections.deque[str] = collections.deque(maxlen=20)
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> OwnServer:
        command = [sys.executable, "-m", "servers.cli", "serve", *self._words]
        self._process = subprocess.Popen(
            [*command, "--rest_port", "auto"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            # Ctrl-C ends an answer, not the server.
            start_new_session=True,
        )
        try:
            self._wait()
        except BaseException:
            self._end()
            raise
        # Later log lines must not fill the pipe.
        threading.Thread(target=self._drain, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end()

    def _wait(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._hear(line)
            failed = _FAILED.match(line)
            if failed is not None:
                raise CommandFailed(failed[1])
            address = _ADDRESS.search(line)
            if address is not None:
                self.url = f"{address[1]}/v1"
            if self.url and line.startswith("try:"):
                return
        self._process.wait()
        lines = list(self._last_lines)
        starts = [place for place, line in enumerate(lines) if line.startswith("error:")]
        # An error may have several lines, as an exporter's has.
        error = "".join(lines[starts[0] :]) if starts else ""
        raise CommandFailed(error.removeprefix("error: ").rstrip() or "no server starts")

    def _hear(self, line: str) -> None:
        self._last_lines.append(line)
        if self._is_verbose or line.lstrip("\r").startswith(("pulling ", "exporting ")):
            print(line, end="", file=sys.stderr, flush=True)

    def _drain(self) -> None:
        assert self._process is not None
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._hear(line)

    def _end(self) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
