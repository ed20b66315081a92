"""A disk that is full stops neither the server nor a request."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from pathlib import Path

from tests.checkout import ROOT
from tests.conditions import wait_until
from tests.process.http_client import CHAT, HELLO
from tests.process.server_process import DEMO, ENGINE, ServerProcess


def assert_answers(server: ServerProcess) -> None:
    reply = server.client.post(CHAT, messages=HELLO, max_tokens=3)
    assert reply.status == 200, reply.body


def test_a_log_that_cannot_grow_is_reported_once(tmp_path: Path) -> None:
    log = tmp_path / "server.log"

    def logged() -> int:
        return log.read_text().count("POST /v3/chat/completions")

    with ServerProcess(DEMO, "--log_path", log) as server:
        assert_answers(server)
        # A request's line is written after its response.
        wait_until(lambda: logged() == 1, "the first request's line")
        size = log.stat().st_size
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        for _ in range(3):
            assert_answers(server)
        said = "the log file cannot be written"
        wait_until(lambda: said in "".join(server.log), "the failure is reported")
        assert log.stat().st_size == size
        # There is room again.
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, unlimited)
        assert_answers(server)
        wait_until(lambda: logged() > 1, "further lines")
        assert "".join(server.log).count(said) == 1
        assert "Traceback" not in "".join(server.log)
        assert server.is_ready()


def test_a_cache_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    # A model whose compiled form can be read back: one request at a time.
    graph = ROOT / "examples" / "graphs" / "stateful"
    words = ("--model_name", "demo", "--model_path", graph, "--cache_dir", tmp_path / "cache")
    with ServerProcess(*words) as server:
        assert list((tmp_path / "cache").rglob("*.blob"))
        # The next engine inherits the limit, and has to compile its model again.
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        shutil.rmtree(tmp_path / "cache")
        engine = server.child(ENGINE)
        os.kill(engine, signal.SIGKILL)
        wait_until(lambda: not server.is_ready(), "unready")
        wait_until(server.is_ready, "ready again")
        assert_answers(server)
        assert server.child(ENGINE) != engine
