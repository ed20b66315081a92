"""The real command line, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, TextIO

from tests.servers.cli.fork_server import ForkedCommands
from tests.servers.cli.forks import ForkedProcess
from tests.support.checkout import ROOT

commands = ForkedCommands()

COMMAND = [sys.executable, "-m", "servers.cli"]


def environment() -> dict[str, str]:
    """The project is found from any directory."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def graphrt(
    *words: str | Path, cwd: Path = ROOT, feed: str | bytes = b""
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; ``feed`` is its standard input."""
    data = feed.encode() if isinstance(feed, str) else feed
    done = commands.run([*map(str, words)], data, cwd, environment())
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def start_graphrt(
    *words: str | Path, cwd: Path, stdout: int, is_forked: bool = True
) -> tuple[ForkedProcess | subprocess.Popen[bytes], TextIO]:
    """Start a command; return it and its standard error.

    Its standard input is empty, and its standard output goes to the descriptor ``stdout``. If it is
    not forked, it has loaded no library that it does not use itself.
    """
    reading, stderr = os.pipe()
    command: ForkedProcess | subprocess.Popen[bytes]
    try:
        with open(os.devnull, "rb") as nothing:
            if is_forked:
                command = commands.start(
                    [*map(str, words)], cwd, environment(), nothing.fileno(), stdout, stderr
                )
            else:
                command = subprocess.Popen(
                    [*COMMAND, *words],
                    cwd=cwd,
                    env=environment(),
                    stdin=nothing,
                    stdout=stdout,
                    stderr=stderr,
                )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(stderr)
    return command, open(reading)


def lines(text: str) -> list[Any]:
    """JSON lines, parsed."""
    return [json.loads(line) for line in text.splitlines()]


def packets(text: str, stream: str) -> list[tuple[Any, Any]]:
    """The packets of one stream: (timestamp, value)."""
    return [(line["ts"], line["value"]) for line in lines(text) if line.get("stream") == stream]
