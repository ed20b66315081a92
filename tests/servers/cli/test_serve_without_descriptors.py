"""A server whose process may open no more files says so, blames nothing else, and recovers."""

from __future__ import annotations

import json
import resource
import socket
import threading
from contextlib import ExitStack
from pathlib import Path

from tests.servers.cli.serving import ECHO, Serving, make_site

LIMIT = 96
SAYS = f"too many open files (limit {LIMIT}): raise it with `ulimit -n`"


def connect(port: int, connections: ExitStack, enough: threading.Event) -> None:
    """Connect again and again: a file that the server closes meanwhile makes room for one more."""
    count = 0
    while not enough.is_set():
        connections.enter_context(socket.create_connection(("127.0.0.1", port)))
        count += 1
        if count > LIMIT:
            enough.wait(0.1)


def test_it_is_said_and_no_file_is_blamed(tmp_path: Path) -> None:
    make_site(tmp_path)
    words = ["config.json", "--file_system_poll_wait_seconds", "0.05"]
    with Serving(tmp_path, *words).wait_until_serving() as server, ExitStack() as connections:
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
        enough = threading.Event()
        crowd = threading.Thread(target=connect, args=(server.port, connections, enough))
        crowd.start()
        try:
            server.wait_for(SAYS)
        finally:
            enough.set()
            crowd.join()
        # What changes meanwhile is seen afterwards; nothing is said to have failed.
        (tmp_path / "echo" / "graph.pbtxt").write_text(ECHO + "# changed")
        connections.close()
        server.wait_for("reloaded: echo")
        text = "".join(server.log)
        for wrong in ("could not be loaded", "not in use", "failed"):
            assert wrong not in text
        with server.request("POST", "/v3/chat/completions", {"model": "echo"}) as response:
            assert (response.status, json.load(response)) == (200, {"model": "echo"})
