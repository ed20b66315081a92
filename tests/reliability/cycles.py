"""Start and stop, again and again: nothing of a server outlives it.

    python -m tests.reliability.cycles [--cycles 100]

Each cycle serves a language model, a Python handler and batches, answers, and ends in one of three
ways: SIGTERM, SIGINT with a stream in flight, SIGKILL. Then the processes that it had must be gone.
Between two cycles a server is killed while it starts, a little later each time.
At the end the directory of temporary files, shared memory, the working directory and the ports must
be as they were: what a killed server leaves there, the next one removes. The exit code is 1 if
something is left.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.calculators.tensors.python.running import HTTP_HANDLER
from tests.process.http_client import CHAT, HELLO
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.conditions import wait_until
from tests.support.processes import children_of, is_running

DEMO: Final = ROOT / "examples" / "models" / "demo"
ENDS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
WORDS: Final = ("config.json", "--batch_dir", "store", "--port", "auto")
#: Tenths of seconds after which a starting server is killed, at most.
_STARTS: Final = 40
_HANDLER: Final = """\
class OvmsPythonModel:
    def execute(self, inputs):
        return "good"
"""
#: Of batches, and of the server's log: they are meant to stay.
_KEPT: Final = frozenset({"store"})


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reliability.cycles")
    parser.add_argument("--cycles", type=int, default=100)
    cycles = parser.parse_args().cycles
    with tempfile.TemporaryDirectory() as directory:
        folder, temporary = Path(directory, "site"), Path(directory, "tmp")
        _make_site(folder)
        temporary.mkdir()
        os.environ["TMPDIR"] = str(temporary)
        before = _traces(folder, temporary)
        began = time.monotonic()
        for number in range(cycles):
            killed_start(folder, after=0.1 * (number % _STARTS))
            one_cycle(folder, ENDS[number % len(ENDS)])
        one_cycle(folder, signal.SIGTERM)  # removes what the last one left, if it was killed
        after = _traces(folder, temporary)
    print(f"{cycles} cycles in {time.monotonic() - began:.0f} s")
    left = {place: sorted(after[place] - before[place]) for place in after}
    for place, names in left.items():
        print(f"{place}: {'nothing is left' if not names else names[:20]}")
    return int(any(left.values()))


def killed_start(folder: Path, after: float) -> None:
    """Start a server and kill it ``after`` seconds.

    Raises:
        AssertionError: a process of it is left.
    """
    with Serving(folder, *WORDS, calculators=(), is_forked=False) as server:
        time.sleep(after)
        processes = _descendants(server.pid)
        server.send_signal(signal.SIGKILL)
        assert server.end()[0] == -signal.SIGKILL
    wait_until(lambda: not any(map(is_running, processes)), "the processes of its start are gone")


def one_cycle(folder: Path, end: signal.Signals) -> None:
    """Start a server, use it, end it.

    Raises:
        AssertionError: it does not answer, or a process of it is left.
    """
    with Serving(folder, *WORDS, calculators=(), is_forked=False) as server:
        server.wait_until_serving()
        with server.request("POST", CHAT, {"model": "handler"}) as response:
            assert response.status == 200
        body = {"model": "demo", "messages": HELLO, "max_tokens": 400, "stream": True}
        with server.request("POST", CHAT, body) as response:
            response.readline()
            processes = _descendants(server.pid)
            server.send_signal(end)
            if end is signal.SIGINT:
                response.read()  # the stream ends whole
        port = server.port
        code, _, _ = server.end()
        assert code == (-signal.SIGKILL if end is signal.SIGKILL else 0), f"{end.name}: {code}"
    wait_until(lambda: not any(map(is_running, processes)), "its processes are gone")
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        free.bind(("127.0.0.1", port))  # nobody listens there


def _make_site(folder: Path) -> None:
    (folder / "handler").mkdir(parents=True)
    (folder / "handler" / "graph.pbtxt").write_text(HTTP_HANDLER)
    (folder / "handler" / "model.py").write_text(_HANDLER)
    graphs = [{"name": "demo", "base_path": str(DEMO)}, {"name": "handler"}]
    (folder / "config.json").write_text(json.dumps({"mediapipe_config_list": graphs}))


def _descendants(pid: int) -> list[int]:
    children = children_of(pid)
    return [each for child in children for each in (child, *_descendants(child))]


def _traces(folder: Path, temporary: Path) -> Mapping[str, set[str]]:
    """Return the files of each place where a process may leave something."""
    shared = Path("/dev/shm")
    return {
        "temporary files": {str(path.relative_to(temporary)) for path in temporary.rglob("*")},
        "shared memory": {path.name for path in shared.iterdir()} if shared.is_dir() else set(),
        "the working directory": {
            str(path.relative_to(folder))
            for path in folder.rglob("*")
            if not _KEPT & set(path.relative_to(folder).parts)
        },
    }


if __name__ == "__main__":
    sys.exit(main())
