"""Requests that exceed their time limit: their generations are cancelled."""

from __future__ import annotations

import pytest

from tests.process.http_client import CHAT, HELLO
from tests.process.long_streams import ENDLESS
from tests.process.server_process import ENGINE, ServerProcess
from tests.process.test_clients_that_go import Idle
from tests.support.conditions import wait_until
from tests.support.processes import cpu_seconds

TEXT = "the request was not answered within 1 s, its time-out"


@pytest.mark.parametrize("stream", [True, False])
def test_the_generation_is_cancelled(demo: ServerProcess, stream: bool) -> None:
    engine = demo.child(ENGINE)
    asked = {"model": "demo", "messages": HELLO, "ignore_eos": True, "max_tokens": ENDLESS}
    with demo.client.open("POST", CHAT, {**asked, "stream": stream, "timeout": 1}) as response:
        body = response.read().decode()
        assert response.status == (200 if stream else 504)
    assert body.count(TEXT) == 1
    assert body.endswith("data: [DONE]\n\n") is stream
    left = cpu_seconds(engine)
    assert demo.client.post(CHAT, messages=HELLO, max_tokens=1).status == 200
    wait_until(Idle(engine), "the engine is idle")
    assert cpu_seconds(engine) - left < 0.5
