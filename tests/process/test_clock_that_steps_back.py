"""The wall clock may step back at any time: no wait and no limit depends on it."""

from __future__ import annotations

import http.client
import json
import os
import signal
from contextlib import closing
from pathlib import Path

from tests.conditions import wait_until
from tests.patience import PATIENCE
from tests.process.http_client import CHAT, HELLO
from tests.process.long_streams import in_flight
from tests.process.server_process import DEMO, ENGINE, ServerProcess
from tests.process.stream_law import read_stream

#: Steps an hour back each time it is read.
_CLOCK = """\
import itertools
import time

_now, _asked = time.time, itertools.count()
time.time = lambda: _now() - 3600 * next(_asked)
"""


def test_requests_restarts_and_the_stop_work(tmp_path: Path) -> None:
    clock = tmp_path / "clock.py"
    clock.write_text(_CLOCK)
    with ServerProcess("--calculators", clock, "--request_timeout", "60", DEMO) as server:
        with closing(
            http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        ) as kept:
            created = []
            for _ in range(3):  # on one connection
                body = json.dumps({"model": "demo", "messages": HELLO, "max_tokens": 3})
                kept.request("POST", CHAT, body, {"Content-Type": "application/json"})
                with kept.getresponse() as response:
                    assert response.status == 200
                    created.append(json.loads(response.read())["created"])
        assert created[0] > created[1] > created[2], "the clock does step back"
        with in_flight(server.client, 1) as (stream,):
            os.kill(server.child(ENGINE), signal.SIGKILL)
            assert read_stream(stream.body()).error is not None
        wait_until(server.is_ready, "ready again")
        with in_flight(server.client, 2, max_tokens=300) as streams:
            server.send_signal()
            for stream in streams:
                assert read_stream(stream.body()).finish_reason == "length"
        assert server.wait() == 0
