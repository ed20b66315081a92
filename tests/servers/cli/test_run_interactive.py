"""`graphrt run` with somebody at the other end: line by line, Ctrl-C, a reader that leaves."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from tests.servers.cli.process import COMMAND, environment
from tests.support.patience import PATIENCE

RUN = [*COMMAND, "run", "graph.pbtxt", "--calculators", "calcs.py", "--feed", "-"]
WAIT = b'{"wait_until_idle": true}\n'


@pytest.fixture
def running(place: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(
        RUN,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=place,
        env=environment(),
    ) as process:
        yield process
        process.kill()


def pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    return process.stdin, process.stdout, process.stderr


def number(ts: int, value: int) -> bytes:
    return json.dumps({"stream": "number", "ts": ts, "value": value}).encode() + b"\n"


def test_each_line_is_answered_before_the_next_one_comes(
    running: subprocess.Popen[bytes],
) -> None:
    stdin, stdout, _ = pipes(running)
    for ts in range(3):
        stdin.write(number(ts, ts) + WAIT)
        stdin.flush()
        assert json.loads(stdout.readline())["value"] == 2 * ts
    stdin.close()
    assert running.wait(PATIENCE) == 0


def test_ctrl_c_while_waiting_for_a_line(running: subprocess.Popen[bytes]) -> None:
    stdin, stdout, stderr = pipes(running)
    stdin.write(number(0, 1) + WAIT)
    stdin.flush()
    stdout.readline()
    running.send_signal(signal.SIGINT)
    assert running.wait(PATIENCE) == 130
    assert b"Traceback" not in stderr.read()


def test_ctrl_c_while_the_graph_runs_closes_the_nodes(place: Path) -> None:
    (place / "endless.py").write_text(
        """from graph_runtime import Calculator, In, Out, SideOut, calculator

@calculator
class Endless(Calculator):
    number = Out[int]()
    closed = SideOut[str]("CLOSED")
    def open(self, cc): self.n = 0
    def process(self, cc):
        cc.emit(self.number, self.n, at=self.n)
        self.n += 1
    def close(self, cc): print("closed", flush=True)
"""
    )
    (place / "graph.pbtxt").write_text(
        """output_stream: "n"
        node { calculator: "Endless" output_stream: "n" output_side_packet: "CLOSED:c" }"""
    )
    command = [*COMMAND, "run", "graph.pbtxt", "--calculators", "endless.py", "--trace", "t.json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=place, env=environment()
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert b"interrupted" in errors
    assert b"closed" in errors
    assert b"Traceback" not in errors
    assert json.loads((place / "t.json").read_text())["traceEvents"]


def test_a_second_ctrl_c_ends_a_calculator_that_does_not_return(place: Path) -> None:
    (place / "stuck.py").write_text(
        """import time
from graph_runtime import calculator

@calculator
def Stuck(number: int) -> int:
    print("started", flush=True)
    while True:
        time.sleep(0.05)
"""
    )
    graph = (place / "graph.pbtxt").read_text()
    (place / "graph.pbtxt").write_text(graph.replace("Double", "Stuck"))
    command = [*COMMAND, "run", "graph.pbtxt", "--calculators", "stuck.py", "--feed", "feed"]
    (place / "feed").write_bytes(number(0, 1))
    with subprocess.Popen(command, stderr=subprocess.PIPE, cwd=place, env=environment()) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"started\n"
        process.send_signal(signal.SIGINT)
        assert b"Ctrl-C again stops at once" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 130


def test_a_reader_that_leaves_ends_the_run_without_noise(place: Path) -> None:
    feed = b"".join(number(ts, ts) for ts in range(5000))
    (place / "feed").write_bytes(feed)
    with subprocess.Popen(
        [*RUN[:-1], "feed"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=place,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(PATIENCE) == 1
    assert errors == b""


def test_on_a_terminal_each_line_is_run_at_once(place: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        RUN, stdin=theirs, stdout=subprocess.PIPE, cwd=place, env=environment()
    ) as process:
        assert process.stdout is not None
        os.close(theirs)
        os.write(ours, number(0, 4))
        assert json.loads(process.stdout.readline())["value"] == 8
        os.write(ours, number(1, 5))
        assert json.loads(process.stdout.readline())["value"] == 10
        os.write(ours, b"\x04")  # Ctrl-D: the end
        assert process.wait(PATIENCE) == 0
    os.close(ours)
