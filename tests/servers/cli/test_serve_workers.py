"""`graphrt serve --workers 2`: two processes that clients cannot tell from one."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import grpc
import pytest

from protos.pool import message_class
from tests.servers.certificates import authority
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import CALCULATORS, ECHO, Serving, make_site
from tests.support.checkout import ROOT
from tests.support.conditions import wait_until
from tests.support.patience import PATIENCE
from tests.support.processes import children_of, is_running, module_of

DEMO = ROOT / "examples" / "models" / "demo"
CHAT = "/v3/chat/completions"
WORKER = "servers.cli.worker"
ENGINE = "calculators.llm.engine.process"
WHO = """

import os


@calculator
class Who(Calculator):
    \"\"\"Answers with the id of its process.\"\"\"

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    response = Out[bytes]("HTTP_RESPONSE_PAYLOAD")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.response, str(os.getpid()).encode())
"""
GRAPHS = ("echo", "who", "stream")
READY = "/v2/models/{}/ready"
COUNTED = 'ovms_requests_accepted{{name="{}",api="V3",method="Unary",interface="REST"}}'

Connection = http.client.HTTPConnection


class Site:
    """A server of two workers, and a connection to each."""

    def __init__(self, folder: Path, server: Serving, tls: ssl.SSLContext | None = None) -> None:
        self.folder = folder
        self.tls = tls
        self.server = server
        self.connections: dict[int, Connection] = {}

    def both(self) -> list[Connection]:
        """Return a connection to each of the two workers that run now."""
        deadline = time.monotonic() + PATIENCE
        for pid in set(self.connections) - set(self.workers()):
            self.connections.pop(pid).close()
        while len(self.connections) < 2:
            assert time.monotonic() < deadline, f"only {list(self.connections)} answer"
            made = self._connection()
            status, text = call(made, "POST", CHAT, {"model": "who"})
            assert status == 200, text
            if self.connections.setdefault(int(text), made) is not made:
                made.close()
        return list(self.connections.values())

    def _connection(self) -> Connection:
        if self.tls is None:
            return Connection("127.0.0.1", self.server.port)
        return http.client.HTTPSConnection("localhost", self.server.port, context=self.tls)

    def grpc_address(self) -> str:
        line = next(line for line in self.server.log if "graphrt serves grpc" in line)
        return line.strip().rpartition("/")[2]

    def workers(self) -> list[int]:
        return [pid for pid in children_of(self.server.pid) if module_of(pid) == WORKER]

    def serve(self, *names: str) -> None:
        """Change the configuration to these graphs."""
        graphs = [{"name": name} for name in names]
        (self.folder / "config.json").write_text(json.dumps({"mediapipe_config_list": graphs}))

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()


def call(connection: Connection, method: str, path: str, body: Any = None) -> tuple[int, str]:
    """Send a request over a connection, so to one worker; status and text."""
    connection.request(
        method,
        path,
        None if body is None else json.dumps(body),
        {"Content-Type": "application/json"},
    )
    with connection.getresponse() as response:
        return response.status, response.read().decode()


def is_ready(channel: grpc.Channel) -> bool:
    """Ask KServe's ServerReady."""
    ready = channel.unary_unary(
        "/inference.GRPCInferenceService/ServerReady",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=message_class("inference.ServerReadyResponse").FromString,
    )
    request = message_class("inference.ServerReadyRequest")()
    answer: Any = ready(request, timeout=PATIENCE)
    return bool(answer.ready)


def value_of(metrics: str, series: str) -> float:
    """Return the value of a series; 0 if there is none."""
    lines = (line for line in metrics.splitlines() if line.startswith(series))
    return float(next(lines, "0").rpartition(" ")[2])


def make_files(folder: Path) -> None:
    make_site(folder)
    (folder / "calcs.py").write_text(CALCULATORS + WHO)
    (folder / "who").mkdir()
    (folder / "who" / "graph.pbtxt").write_text(ECHO.replace("Echo", "Who"))
    graphs = [{"name": name} for name in GRAPHS]
    (folder / "config.json").write_text(json.dumps({"mediapipe_config_list": graphs}))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    make_files(folder)
    words = ["config.json", "--workers", "2", "--port", "auto"]
    with Serving(folder, *words, "--file_system_poll_wait_seconds", "0.1") as server:
        made = Site(folder, server.wait_until_serving())
        yield made
        made.close()


@pytest.fixture
def site(running: Site) -> Site:
    """The server with its first configuration."""
    running.serve(*GRAPHS)
    status, _ = call(running.both()[0], "POST", "/v1/config/reload")
    assert status in (200, 201)
    return running


def test_two_processes_answer_at_one_port_over_http_and_grpc(site: Site) -> None:
    assert len(site.both()) == len(site.workers()) == 2
    for number in (1, 2):
        assert any(f"INFO worker {number} servers.server." in line for line in site.server.log)
    for number in range(4):
        options = [("grpc.use_local_subchannel_pool", 1), ("test.number", number)]
        with grpc.insecure_channel(site.grpc_address(), options) as channel:
            assert is_ready(channel)


def test_metrics_of_any_worker_are_those_of_all(site: Site) -> None:
    one, other = site.both()
    series = COUNTED.format("echo")
    before = value_of(call(one, "GET", "/metrics")[1], series)
    for connection in (one, one, one, other, other):
        assert call(connection, "POST", CHAT, {"model": "echo"})[0] == 200
    for connection in (one, other):
        text = call(connection, "GET", "/metrics")[1]
        assert value_of(text, series) == before + 5
        assert value_of(text, 'graphrt_model_ready{name="echo"}') == 1
        assert value_of(text, "graphrt_build_info") == 1
        assert text.count(series) == 1
    one.request("GET", "/metrics", headers={"Accept": "application/openmetrics-text"})
    with one.getresponse() as response:
        assert response.headers["Content-Type"].startswith("application/openmetrics-text")
        assert response.read().endswith(b"# EOF\n")


def test_a_reload_that_one_worker_is_asked_for_is_done_by_all(site: Site) -> None:
    one, other = site.both()
    site.serve("who", "echo")
    status, text = call(one, "POST", "/v1/config/reload")
    assert status in (200, 201), text  # 200: the files were looked at just before
    for connection in (other, one):
        assert list(json.loads(call(connection, "GET", "/v1/config")[1])) == ["who", "echo"]
        assert call(connection, "GET", READY.format("stream"))[0] == 404
    (site.folder / "echo" / "graph.pbtxt").write_text(ECHO.replace("Echo", "Ecko"))
    status, text = call(other, "POST", "/v1/config/reload")
    (site.folder / "echo" / "graph.pbtxt").write_text(ECHO)
    assert status == 412
    assert "Reloading config file failed: echo: graph.pbtxt:3:1: " in text


def test_changed_files_are_seen_by_all(site: Site) -> None:
    one, other = site.both()
    site.serve("who")
    seen = READY.format("echo")
    wait_until(lambda: {call(each, "GET", seen)[0] for each in (one, other)} == {404}, "no echo")
    assert [call(each, "POST", CHAT, {"model": "echo"})[0] for each in (one, other)] == [404, 404]


def test_a_model_that_one_worker_unloads_is_unloaded_in_all(site: Site) -> None:
    one, other = site.both()
    assert call(one, "POST", "/v2/repository/models/echo/unload", {})[0] == 200
    for connection in (other, one):
        assert call(connection, "GET", READY.format("echo"))[0] == 503
        assert call(connection, "GET", "/v2/health/ready")[0] == 200
    assert call(other, "POST", "/v2/repository/models/echo/load", {})[0] == 200
    for connection in (one, other):
        assert call(connection, "GET", READY.format("echo"))[0] == 200
    status, text = call(one, "POST", "/v2/repository/models/ecko/load", {})
    assert status == 404
    assert 'The model \\"ecko\\" does not exist.' in text


def test_a_killed_worker_is_replaced_and_takes_only_its_own_connections(site: Site) -> None:
    one, other = site.both()
    assert call(one, "POST", CHAT, {"model": "echo"})[0] == 200
    assert call(other, "POST", "/v2/repository/models/stream/unload", {})[0] == 200
    series = COUNTED.format("echo")
    before = value_of(call(other, "GET", "/metrics")[1], series)
    pid = next(pid for pid, each in site.connections.items() if each is one)
    os.kill(pid, signal.SIGKILL)
    site.server.wait_for(f"(process {pid}) is gone: it was ended by SIGKILL; starting it again in")
    assert call(other, "POST", CHAT, {"model": "echo"})[0] == 200
    assert call(other, "GET", "/v2/health/ready")[0] == 200
    site.server.wait_for("is back (process ")
    for connection in site.both():
        assert call(connection, "POST", CHAT, {"model": "echo"})[0] == 200
        # As an operator left it.
        assert call(connection, "GET", READY.format("stream"))[0] == 503
    text = call(site.both()[0], "GET", "/metrics")[1]
    assert value_of(text, series) == before + 3
    assert call(other, "POST", "/v2/repository/models/stream/load", {})[0] == 200


def test_requests_over_tls_end_after_a_signal_to_stop(tmp_path: Path) -> None:
    make_files(tmp_path)
    issuer = authority(tmp_path)
    certificate, key = issuer.issue(tmp_path, "server")
    words = ["--tls_certificate", str(certificate), "--tls_key", str(key), "--port", "auto"]
    tls = ssl.create_default_context(cafile=issuer.file)
    pipes = [tmp_path / "one", tmp_path / "other"]
    with Serving(tmp_path, "config.json", "--workers", "2", *words) as server:
        site = Site(tmp_path, server.wait_until_serving(), tls)
        credentials = grpc.ssl_channel_credentials(issuer.file.read_bytes())
        with grpc.secure_channel(site.grpc_address(), credentials) as channel:
            assert is_ready(channel)
        responses = []
        for connection, pipe in zip(site.both(), pipes, strict=True):
            os.mkfifo(pipe)
            body = {"model": "stream", "stream": True, "pipe": str(pipe)}
            connection.request("POST", CHAT, json.dumps(body), {"Content-Type": "application/json"})
            responses.append(connection.getresponse())
            assert responses[-1].readline() == b"data: first\n"
        server.send_signal(signal.SIGINT)
        server.wait_for("stopping 2 workers")
        for _ in pipes:
            server.wait_for("stopping: requests in flight have 30 s")
        for pipe, response in zip(pipes, responses, strict=True):
            pipe.write_text("")
            assert response.read().endswith(b"data: [DONE]\n\n")
        assert server.end()[0] == 0
        site.close()


def test_a_port_that_is_taken_is_reported_once(tmp_path: Path) -> None:
    make_files(tmp_path)
    with closing(socket.create_server(("127.0.0.1", 0), reuse_port=True)) as taken:
        port = taken.getsockname()[1]
        words = ["--calculators", "calcs.py", "--workers", "2", "--rest_port", str(port)]
        done = graphrt("serve", "config.json", *words, cwd=tmp_path)
    assert done.returncode == 1
    assert f"error: cannot listen on 127.0.0.1:{port}: address already in use" in done.stderr
    assert "hint: choose another port with --rest_port" in done.stderr
    assert "listening on" not in done.stderr


def test_replicas_and_workers_exclude_each_other(tmp_path: Path) -> None:
    make_files(tmp_path)
    done = graphrt("serve", "config.json", "--workers", "2", "--on=ray", cwd=tmp_path)
    assert done.returncode == 2
    assert "error: --workers and --on" in done.stderr
    assert "hint: " in done.stderr


def test_workers_that_cannot_start_end_the_server(tmp_path: Path) -> None:
    make_files(tmp_path)
    # The supervisor imports no calculators; a worker does.
    (tmp_path / "calcs.py").write_text("import os\nos._exit(7)\n")
    words = ["--calculators", "calcs.py", "--workers", "2", "--rest_port", "auto"]
    done = graphrt("serve", "config.json", *words, cwd=tmp_path)
    assert done.returncode == 1
    assert "could not start: it exited with status 7; it is not started again" in done.stderr


def test_one_engine_serves_both_workers(tmp_path: Path) -> None:
    make_files(tmp_path)
    models = [{"name": "who"}, {"name": "demo", "base_path": str(DEMO)}]
    (tmp_path / "config.json").write_text(json.dumps({"mediapipe_config_list": models}))
    short = {
        "model": "demo",
        "messages": [{"role": "user", "content": "Hello"}],
        "temperature": 0,
        "max_tokens": 8,
        "ignore_eos": True,
    }
    with Serving(tmp_path, "config.json", "--workers", "2") as server:
        site = Site(tmp_path, server.wait_until_serving())
        one, other = site.both()
        modules = [module_of(pid) for pid in children_of(server.pid)]
        assert sorted(modules) == sorted([WORKER, WORKER, ENGINE, "calculators.llm.prompt.process"])
        answers = {content(call(each, "POST", CHAT, short)) for each in (one, other)}
        assert len(answers) == 1
        # A stream of each worker at the same time; one worker is killed in the middle.
        long = {**short, "stream": True, "max_tokens": 600}
        streams = []
        for each in (one, other):
            each.request("POST", CHAT, json.dumps(long), {"Content-Type": "application/json"})
            streams.append(each.getresponse())
            assert streams[-1].readline().startswith(b"data: ")
        pid = next(pid for pid, each in site.connections.items() if each is one)
        os.kill(pid, signal.SIGKILL)
        assert streams[1].read().endswith(b"data: [DONE]\n\n")
        server.wait_for("is back (process ")
        # The engine has cancelled what the killed worker had asked for.
        one, other = site.both()
        running = 'graphrt_llm_requests_running{graph="demo"'
        wait_until(
            lambda: not value_of(call(other, "GET", "/metrics")[1], running), "none is running"
        )
        (engine,) = (pid for pid in children_of(server.pid) if module_of(pid) == ENGINE)
        os.kill(engine, signal.SIGKILL)
        for _ in range(2):
            server.wait_for('the engine of "demo" is back')
        assert {content(call(each, "POST", CHAT, short)) for each in (one, other)} == answers
        metrics = call(one, "GET", "/metrics")[1]
        assert value_of(metrics, 'graphrt_llm_engine_restarts_total{graph="demo"') == 1
        children = children_of(server.pid)
        assert [module_of(pid) for pid in children].count(ENGINE) == 1
        server.send_signal(signal.SIGTERM)
        assert server.end()[0] == 0
        assert not any(map(is_running, children))
        site.close()


def content(answer: tuple[int, str]) -> str:
    status, text = answer
    assert status == 200, text
    found: str = json.loads(text)["choices"][0]["message"]["content"]
    return found
