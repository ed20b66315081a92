"""The real command line, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.checkout import ROOT
from tests.servers.cli.fork_server import ForkedCommands

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


def lines(text: str) -> list[Any]:
    """JSON lines, parsed."""
    return [json.loads(line) for line in text.splitlines()]


def packets(text: str, stream: str) -> list[tuple[Any, Any]]:
    """The packets of one stream: (timestamp, value)."""
    return [(line["ts"], line["value"]) for line in lines(text) if line.get("stream") == stream]
