"""Clients that leave: their generations are cancelled."""

from __future__ import annotations

import pytest

from tests.process.http_client import CHAT, HELLO
from tests.process.long_streams import ENDLESS
from tests.process.server_process import ENGINE, ServerProcess
from tests.support.conditions import wait_until
from tests.support.processes import cpu_seconds

#: CPU time that the engine may still use for requests of departed clients; a whole one takes
#: seconds.
_REST = 0.5


@pytest.mark.parametrize("stream", [True, False])
def test_the_generation_is_cancelled(demo: ServerProcess, stream: bool) -> None:
    engine = demo.child(ENGINE)
    since = len(demo.log)
    used = cpu_seconds(engine)
    asked = {"model": "demo", "messages": HELLO, "ignore_eos": True, "max_tokens": ENDLESS}
    if stream:
        with demo.client.open("POST", CHAT, {**asked, "stream": True}) as response:
            response.readline()
    else:
        demo.client.send_and_leave(CHAT, asked, when=lambda: cpu_seconds(engine) > used + 0.1)
    left = cpu_seconds(engine)
    demo.wait_for_log(f"POST {CHAT} 499 ", since=since)
    # Another request shares the engine's steps with running ones: only this one is left.
    assert demo.client.post(CHAT, messages=HELLO, max_tokens=1).status == 200
    wait_until(Idle(engine), "the engine is idle")
    assert cpu_seconds(engine) - left < _REST


class Idle:
    """True if a process has used no CPU time between the last two checks."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._used = [-1.0] * 20

    def __call__(self) -> bool:
        self._used = [*self._used[1:], cpu_seconds(self._pid)]
        return self._used[0] == self._used[-1]
