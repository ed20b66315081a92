"""`graphrt serve`: from the start to an answer, and to the end."""

from __future__ import annotations

import http.client
import os
import signal
import socket
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.servers.cli.serving import Serving, make_site

CHAT = "/v3/chat/completions"


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return make_site(tmp_path)


def chat(
    serving: Serving, model: str, **members: Any
) -> AbstractContextManager[http.client.HTTPResponse]:
    return serving.request("POST", CHAT, {"model": model, **members})


def test_a_config_is_served_and_says_how_to_try_it(config: Path) -> None:
    with Serving(config.parent, config).wait_until_serving() as serving:
        shown = "".join(serving.log)
        assert f"graphrt serves http://127.0.0.1:{serving.port}\n" in shown
        assert "  echo    ready\n  stream  ready\n" in shown
        assert "INFO servers.serving.graph_definition: echo: loaded in" in shown
        assert f"curl http://127.0.0.1:{serving.port}{CHAT} " in shown
        assert '"model": "echo"' in serving.log[-1]
        for name, path in (
            ("OpenAI", "/v1"),
            ("Anthropic, Google, Ollama, Cohere", ""),
            ("KServe", "/v2"),
        ):
            assert f"  {name:33}  http://127.0.0.1:{serving.port}{path}\n" in shown
        with chat(serving, "echo", x=1) as response:
            assert (response.status, response.read()) == (200, b'{"model": "echo", "x": 1}')
        assert serving.get("/v2/health/ready")[0] == 200
        status, statuses = serving.get("/v1/config")
        assert status == 200
        assert list(statuses) == ["echo", "stream"]
        serving.send_signal()
        code, out, log = serving.end()
        assert (code, out) == (0, "")
        assert "stopped" in log


def test_a_broken_graph_is_told_and_the_rest_served(config: Path) -> None:
    (config.parent / "stream" / "graph.pbtxt").write_text('node { calculator: "Ecko" }')
    with Serving(config.parent, config).wait_until_serving() as serving:
        shown = "".join(serving.log)
        assert "  stream  failed: graph.pbtxt:1:1: " in shown
        assert 'Did you mean "Echo"?' in shown
        assert serving.get("/v2/health/ready")[0] == 200
        with chat(serving, "stream") as response:
            assert response.status == 503
            assert b"could not be loaded" in response.read()
        _, statuses = serving.get("/v1/config")
        (version,) = statuses["stream"]["model_version_status"]
        assert version["state"] == "LOADING"
        assert str(config.parent) not in version["status"]["error_message"]


def test_when_every_graph_fails_the_server_stays_up_but_is_not_ready(config: Path) -> None:
    for name in ("echo", "stream"):
        (config.parent / name / "graph.pbtxt").unlink()
    with Serving(config.parent, config) as serving:
        address = serving.wait_for("graphrt serves").rpartition(":")[2]
        serving.port = int(address)
        assert serving.get("/v2/health/live")[0] == 200
        assert serving.get("/v2/health/ready")[0] == 503
        serving.send_signal(signal.SIGINT)
        assert serving.end()[0] == 0


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["echo"], "echo"),
        (["echo/graph.pbtxt"], "echo"),
        (["other.pbtxt"], "other"),
        (["--model_name", "mine", "--model_path", "echo"], "mine"),
        (["--config_path", "config.json"], "echo"),
        (["--config-path=config.json", "--log-level", "debug"], "echo"),
    ],
)
def test_what_is_served_can_be_said_in_other_words(
    config: Path, words: list[str], name: str
) -> None:
    graph = (config.parent / "echo" / "graph.pbtxt").read_text()
    (config.parent / "other.pbtxt").write_text(graph)
    with Serving(config.parent, *words).wait_until_serving() as serving:
        with chat(serving, name) as response:
            assert response.status == 200
        _, models = serving.get("/v3/models")
        assert models["data"][0]["id"] == name


def test_flags_of_existing_start_scripts_are_accepted(config: Path) -> None:
    words = [
        *["--port", "auto", "--grpc_workers", "2", "--rest_workers", "8", "--cache_dir", "cache"],
        *["--file_system_poll_wait_seconds", "0", "--log_level", "TRACE", "--metrics_enable"],
        *["--log_path", "server.log", "--verbose_response=false", "--rest_bind_address", "0.0.0.0"],
        *["--config_path", "config.json"],
    ]
    with Serving(config.parent, *words).wait_until_serving() as serving:
        warnings = [line for line in serving.log if line.startswith("warning: ")]
        assert [line.split()[1] for line in warnings] == [
            "--grpc_workers",
            "--rest_workers",
            "--rest_bind_address",
        ]
        assert f"curl http://localhost:{serving.port}/" in serving.log[-1]
        assert "echo: loaded in" in (config.parent / "server.log").read_text()


def test_stopping_lets_a_stream_in_flight_finish(config: Path) -> None:
    pipe = config.parent / "pipe"
    os.mkfifo(pipe)
    with Serving(config.parent, config).wait_until_serving() as serving:
        with chat(serving, "stream", stream=True, pipe=str(pipe)) as response:
            assert response.readline() == b"data: first\n"
            serving.send_signal()
            serving.wait_for("INFO servers.server.lifecycle: stopping")
            with pytest.raises(ConnectionRefusedError), chat(serving, "echo"):
                pass
            pipe.write_text("go on")
            assert response.read() == b"\ndata: [DONE]\n\n"
        code, _, log = serving.end()
        assert code == 0
        assert "cut off" not in log


@pytest.mark.parametrize(("seconds", "is_hurried"), [("0.1", False), ("1000", True)])
def test_what_does_not_finish_is_cut_off_with_one_last_event(
    config: Path, seconds: str, is_hurried: bool
) -> None:
    with Serving(config.parent, config, "--drain_seconds", seconds).wait_until_serving() as serving:
        with chat(serving, "stream", stream=True) as response:
            assert response.readline() == b"data: first\n"
            serving.send_signal()
            if is_hurried:
                serving.wait_for("stopping: ")
                serving.send_signal()
            rest = response.read()
        assert rest.count(b"data: ") == 2
        assert b'{"error": {"message": "the server is shutting down"' in rest
        assert rest.endswith(b"data: [DONE]\n\n")
        code, _, log = serving.end()
        assert code == 0
        assert "1 requests were cut off" in log


def test_a_port_that_is_taken_is_one_clear_line(config: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Serving(config.parent, config, port=port) as serving:
            code, out, log = serving.end()
    assert (code, out) == (1, "")
    assert log.splitlines() == [
        f"error: cannot listen on 127.0.0.1:{port}: address already in use",
        "hint: choose another port with --rest_port, or `--rest_port auto`",
    ]
