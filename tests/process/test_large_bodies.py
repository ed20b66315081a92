"""Large requests use memory until the engine has them, not until they are answered."""

from __future__ import annotations

from contextlib import ExitStack

from tests.process.http_client import CHAT, HELLO
from tests.process.server_process import DEMO, ServerProcess
from tests.support.memory import needs_proc, resident_bytes

STREAMS = 20
BODY = 8 * 1024 * 1024


@needs_proc
def test_streams_in_flight_do_not_keep_their_bodies() -> None:
    with ServerProcess(DEMO) as server, ExitStack() as stack:
        client = server.client
        assert client.post(CHAT, messages=HELLO, max_tokens=1).status == 200
        before = resident_bytes(server.pid)
        asked = {
            "messages": HELLO,
            "max_tokens": 1900,
            "ignore_eos": True,
            "metadata": {"x": "x" * (BODY - 1000)},
        }
        for _ in range(STREAMS):
            stack.enter_context(client.stream(CHAT, **asked)).read(1)
        assert resident_bytes(server.pid) - before < STREAMS * BODY
