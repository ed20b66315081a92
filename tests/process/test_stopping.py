"""SIGTERM lets requests in flight finish; the server leaves no process behind, however it ends."""

from __future__ import annotations

import signal

from tests.process.http_client import CHAT, HELLO
from tests.process.long_streams import in_flight
from tests.process.server_process import DEMO, ENGINE, PROMPTS, ServerProcess
from tests.process.stream_law import read_stream
from tests.support.conditions import wait_until
from tests.support.processes import is_running


def test_requests_beyond_the_limit_get_429_and_running_ones_may_finish() -> None:
    with ServerProcess("--request_queue_limit", "8", DEMO) as server:
        children = server.children()
        with in_flight(server.client, 8, max_tokens=400) as streams:
            refused = server.client.post(CHAT, messages=HELLO)
            assert refused.status == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert refused.error["type"] == "rate_limit_error"
            assert refused.error["code"] == "rate_limit_exceeded"
            server.send_signal(signal.SIGTERM)
            server.wait_for_log("stopping: ")
            for stream in streams:
                told = read_stream(stream.body())
                assert told.error is None
                assert told.finish_reason == "length"
        assert server.wait() == 0
        assert "cut off" not in "".join(server.log)
        assert not any(is_running(pid) for pid in children)


def test_the_processes_of_a_killed_server_end_with_it() -> None:
    with ServerProcess(DEMO) as server:
        children = server.children()
        assert sorted(children.values()) == [ENGINE, PROMPTS]
        with in_flight(server.client, 2):
            server.send_signal(signal.SIGKILL)
            server.wait()
            wait_until(lambda: not any(is_running(pid) for pid in children), "no child")
