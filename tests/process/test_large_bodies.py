"""Large requests cost memory until the engine has them, not until they are answered."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.process.http_client import CHAT, HELLO
from tests.process.server_process import DEMO, ServerProcess

STREAMS = 20
BODY = 8 * 1024 * 1024


def resident(pid: int) -> int:
    """Bytes of a process in memory."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux tells it so")
def test_streams_in_flight_do_not_hold_their_bodies() -> None:
    with ServerProcess(DEMO) as server, ExitStack() as stack:
        client = server.client
        assert client.post(CHAT, messages=HELLO, max_tokens=1).status == 200
        before = resident(server.pid)
        asked = {
            "messages": HELLO,
            "max_tokens": 1900,
            "ignore_eos": True,
            "metadata": {"x": "x" * (BODY - 1000)},
        }
        for _ in range(STREAMS):
            stack.enter_context(client.stream(CHAT, **asked)).read(1)
        assert resident(server.pid) - before < STREAMS * BODY
