"""An engine that dies or hangs: its streams end with an error, and it is restarted."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.http_client import CHAT, HELLO
from tests.process.long_streams import in_flight
from tests.process.server_process import DEMO, ENGINE, PROMPTS, ServerProcess
from tests.process.stream_law import read_stream
from tests.servers.cli.process import environment
from tests.support.checkout import ROOT
from tests.support.conditions import wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess(DEMO) as server:
        yield server


def assert_answers(server: ServerProcess) -> None:
    reply = server.client.post(CHAT, messages=HELLO, max_tokens=5)
    assert reply.status == 200, reply.body
    assert reply.json["choices"][0]["message"]["content"]


def wait_until_back(server: ServerProcess) -> None:
    """Wait until the server is ready again; it is live all the time."""

    def is_ready() -> bool:
        assert server.is_live()
        return server.is_ready()

    wait_until(is_ready, "ready again")


def test_a_killed_engine_ends_every_stream_once_and_is_restarted(server: ServerProcess) -> None:
    engine = server.child(ENGINE)
    with in_flight(server.client, 8) as streams:
        os.kill(engine, signal.SIGKILL)
        wait_until(lambda: not server.is_ready(), "unready")
        assert server.is_live()
        for stream in streams:
            told = read_stream(stream.body())
            assert told.error is not None
            assert told.error["type"] == "server_error"
            assert told.error["code"] == "service_unavailable"
            assert "engine" in told.error["message"]
    refused = server.client.post(CHAT, messages=HELLO)
    if refused.status != 200:  # it may be ready again
        assert refused.status == 503
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.error["code"] == "service_unavailable"
    wait_until_back(server)
    assert server.child(ENGINE) != engine
    assert_answers(server)


@pytest.mark.usefixtures("client_libraries")
def test_clients_raise_the_error_of_the_last_event(server: ServerProcess) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.process.clients.interrupted", server.url],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    ) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "began\n"
        os.kill(server.child(ENGINE), signal.SIGKILL)
        told = json.loads(client.stdout.read().splitlines()[-1])
    chat, response, message = told["chat"], told["response"], told["message"]
    assert chat["kind"] == "APIError"
    assert chat["body"]["code"] == "service_unavailable"
    assert "engine" in chat["body"]["message"]
    # Here the client raises nothing: the last event is a failed response.
    assert response["last"]["type"] == "response.failed"
    assert response["last"]["response"]["status"] == "failed"
    assert "engine" in response["last"]["response"]["error"]["message"]
    assert message["kind"] == "APIStatusError"
    assert message["body"]["error"]["type"] == "overloaded_error"
    assert "engine" in message["body"]["error"]["message"]
    wait_until_back(server)


def test_an_engine_out_of_memory_ends_its_requests_and_is_restarted(server: ServerProcess) -> None:
    engine = server.child(ENGINE)
    with in_flight(server.client, 4) as streams:
        # No further page: the cache of these streams cannot be allocated.
        pages = int(Path(f"/proc/{engine}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize()
        resource.prlimit(engine, resource.RLIMIT_AS, (limit, limit))
        long = [{"role": "user", "content": "word " * 1500}]
        refused = server.client.post(CHAT, messages=long, max_tokens=100, ignore_eos=True)
        assert refused.status == 503
        assert refused.error["code"] == "service_unavailable"
        for stream in streams:
            told = read_stream(stream.body())
            assert told.error is not None
            assert told.error["code"] == "service_unavailable"
    assert server.is_live()
    wait_until_back(server)
    assert server.child(ENGINE) != engine
    assert_answers(server)


def test_a_killed_prompt_process_is_restarted(server: ServerProcess) -> None:
    prompts = server.child(PROMPTS)
    since = len(server.log)
    os.kill(prompts, signal.SIGKILL)
    server.wait_for_log("is gone: it was ended by SIGKILL", since=since)
    wait_until_back(server)
    assert server.child(PROMPTS) != prompts
    assert_answers(server)


def test_a_stopped_engine_makes_the_server_unready_until_it_continues(
    server: ServerProcess,
) -> None:
    engine = server.child(ENGINE)
    with in_flight(server.client, 1, max_tokens=600) as (stream,):
        os.kill(engine, signal.SIGSTOP)
        try:
            taken = wait_until(lambda: not server.is_ready(), "unready")
            assert taken > 3.0, "a long step is not a reason to be unready"
            assert server.is_live()
        finally:
            os.kill(engine, signal.SIGCONT)
        wait_until(server.is_ready, "ready again")
        told = read_stream(stream.body())
    assert told.error is None
    assert told.finish_reason == "length"
    assert server.child(ENGINE) == engine
