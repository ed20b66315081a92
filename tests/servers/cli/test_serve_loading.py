"""`graphrt serve` while a model loads: `/v1/config`, and the bar on a terminal."""

from __future__ import annotations

import http.client
import json
import os
import pty
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.calculators.tensors.python.test_http_payloads import GRAPH
from tests.servers.cli.process import COMMAND, environment
from tests.servers.cli.serving import Serving
from tests.support.patience import PATIENCE

#: Opens a named pipe, and then waits at another one.
HANDLER = """
class OvmsPythonModel:
    def initialize(self, kwargs):
        with open(kwargs["base_path"] + "/began", "w"):
            pass
        with open(kwargs["base_path"] + "/gate") as gate:
            gate.read()

    def execute(self, inputs):
        return [b"{}"]
"""


def make_site(folder: Path) -> tuple[Path, Path]:
    """Make the graph "slow", whose handler waits; return the pipes where it begins and waits."""
    (folder / "slow").mkdir()
    (folder / "slow" / "graph.pbtxt").write_text(GRAPH)
    (folder / "slow" / "model.py").write_text(HANDLER)
    pipes = folder / "slow" / "began", folder / "slow" / "gate"
    for pipe in pipes:
        os.mkfifo(pipe)
    return pipes


def version_of(port: int) -> dict[str, Any]:
    with closing(http.client.HTTPConnection("127.0.0.1", port)) as connection:
        connection.request("GET", "/v1/config")
        every = json.loads(connection.getresponse().read())
    (version,) = every["slow"]["model_version_status"]
    return dict(version)


def test_the_phase_is_seen_while_a_model_loads(tmp_path: Path) -> None:
    began, gate = make_site(tmp_path)
    with Serving(tmp_path, "slow", calculators=()) as server:
        line = server.wait_for("listening on")
        (port,) = re.findall(r"127\.0\.0\.1:(\d+)", line)
        began.read_text()
        begin = time.monotonic()
        while (loading := version_of(int(port)).get("loading", {})).get("phase") != (
            "initializing a handler"
        ):
            assert time.monotonic() - begin < PATIENCE, loading
            time.sleep(0.1)  # each request has a line in the log, which nobody reads meanwhile
        assert version_of(int(port))["state"] == "LOADING"
        assert 0 < loading["percent"] < 100
        gate.write_text("go")
        server.wait_until_serving()
        version = version_of(server.port)
        assert version["state"] == "AVAILABLE"
        assert "loading" not in version


@contextmanager
def serving_on_a_terminal(folder: Path) -> Iterator[int]:
    """Start a server whose standard error is a terminal; yield the terminal's other end."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*COMMAND, "serve", "slow", "--rest_port", "auto"],
        cwd=folder,
        env={**environment(), "TERM": "xterm", "COLUMNS": "120"},
        stderr=theirs,
    )
    os.close(theirs)
    try:
        yield ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(terminal: int, text: str) -> str:
    shown = ""
    while text not in shown:
        shown += os.read(terminal, 65536).decode()
    return shown


def test_a_terminal_has_a_bar_while_a_model_loads(tmp_path: Path) -> None:
    began, gate = make_site(tmp_path)
    with serving_on_a_terminal(tmp_path) as terminal:
        began.read_text()
        shown = read_until(terminal, "% slow: initializing a handler, ")
        assert "\r\x1b[K[" in shown
        gate.write_text("go")
        after = read_until(terminal, "  curl ")
        # Nothing of the bar is left when the report is printed.
        report = after[: after.index("graphrt serves")]
        assert report.rstrip().endswith("\x1b[K")
