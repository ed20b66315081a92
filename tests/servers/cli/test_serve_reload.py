"""`graphrt serve` follows its files, and loads and unloads as its config says."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.calculators.tensors.python.running import HTTP_HANDLER
from tests.servers.cli.serving import ECHO, Serving
from tests.support.checkout import ROOT
from tests.support.processes import children_of

DEMO = ROOT / "examples" / "models" / "demo"
CHAT = "/v3/chat/completions"
RELOAD = "/v1/config/reload"
HANDLER = """\
class OvmsPythonModel:
    def execute(self, inputs):
        return "{word}"
"""


def write_config(site: Path, *graphs: dict[str, Any]) -> None:
    (site / "config.json").write_text(json.dumps({"mediapipe_config_list": graphs}))


def post(server: Serving, path: str, body: Any) -> tuple[int, str]:
    with server.request("POST", path, body) as response:
        return response.status, response.read().decode()


def test_changed_files_are_served_by_themselves(site: Path) -> None:
    (site / "own").mkdir()
    (site / "own" / "graph.pbtxt").write_text(HTTP_HANDLER)
    (site / "own" / "model.py").write_text(HANDLER.format(word="old"))
    words = ["config.json", "--file_system_poll_wait_seconds", "0.05"]
    with Serving(site, *words).wait_until_serving() as server:
        write_config(site, {"name": "echo"}, {"name": "own"})
        server.wait_for("reloaded: own, stream")
        assert post(server, CHAT, {"model": "own"}) == (200, "old")
        (site / "own" / "model.py").write_text(HANDLER.format(word="new"))
        server.wait_for("reloaded: own")
        assert post(server, CHAT, {"model": "own"}) == (200, "new")
        (site / "config.json").write_text('{"mediapipe_config_list": [')
        line = server.wait_for("config.json:1:28: error: this is not JSON")
        assert "Expecting value" in line
        assert post(server, CHAT, {"model": "echo"})[0] == 200


def test_a_reload_is_asked_for_where_nothing_looks_by_itself(site: Path) -> None:
    words = ["config.json", "--file_system_poll_wait_seconds", "0"]
    with Serving(site, *words).wait_until_serving() as server:
        status, text = post(server, RELOAD, None)
        assert (status, list(json.loads(text))) == (200, ["echo", "stream"])
        write_config(site, {"name": "stream"})
        status, text = post(server, RELOAD, None)
        assert (status, next(iter(json.loads(text)))) == (201, "stream")
        assert post(server, CHAT, {"model": "echo"})[0] == 404
        (site / "stream" / "graph.pbtxt").write_text(ECHO.replace("Echo", "Ecko"))
        status, text = post(server, RELOAD, None)
        assert status == 412
        assert (
            "Reloading config file failed: stream: graph.pbtxt:3:1: " in json.loads(text)["error"]
        )


@pytest.mark.parametrize("workers", [[], ["--workers", "2"]])
def test_a_config_that_the_first_signal_finds_broken_is_read_by_the_second(
    site: Path, workers: list[str]
) -> None:
    good = (site / "config.json").read_text()
    words = ["config.json", *workers, "--file_system_poll_wait_seconds", "0"]
    with Serving(site, *words).wait_until_serving() as server:
        for text, line in (
            (good[:-3], "Reloading config file failed: config.json:1:"),
            (good, "nothing has changed"),
            (good.replace("stream", "nobody"), "failed: nobody: "),
            (good, "reloaded: "),
        ):
            (site / "config.json").write_text(text)
            server.send_signal(signal.SIGHUP)
            assert str(site) not in server.wait_for(line)
        assert post(server, CHAT, {"model": "echo"})[0] == 200


def test_one_of_several_graphs_may_name_models_later(site: Path) -> None:
    words = ["echo", "stream", "--file_system_poll_wait_seconds", "0"]
    with Serving(site, *words).wait_until_serving() as server:
        (site / "stream" / "subconfig.json").write_text("{")
        status, text = post(server, RELOAD, None)
        assert (status, "stream/subconfig.json:1:2: error" in text) == (412, True), text
        listed = {"model_config_list": [{"config": {"name": "m", "base_path": "m"}}]}
        (site / "stream" / "subconfig.json").write_text(json.dumps(listed))
        status, text = post(server, RELOAD, None)
        assert (status, 'there is no directory \\"m\\"' in text) == (412, True), text


def test_one_graph_is_followed_too(site: Path) -> None:
    words = ["echo", "--file_system_poll_wait_seconds", "0.05"]
    with Serving(site, *words).wait_until_serving() as server:
        (site / "echo" / "graph.pbtxt").write_text(ECHO + "# changed")
        server.wait_for("reloaded: echo")
        assert post(server, CHAT, {"model": "echo"})[0] == 200


def test_an_idle_language_model_leaves_no_process(site: Path) -> None:
    write_config(
        site,
        {"name": "echo"},
        {"name": "demo", "base_path": str(DEMO), "load": "on_demand", "idle_unload_seconds": 1},
    )
    body = {"model": "demo", "prompt": "Hello", "max_tokens": 2, "temperature": 0}
    with Serving(site, "config.json").wait_until_serving() as server:
        assert "  demo  on demand: the first request loads it\n" in server.log
        assert children_of(server.pid) == []
        assert server.get("/v2/health/ready")[0] == 200
        assert [model["id"] for model in server.get("/v3/models")[1]["data"]] == ["echo", "demo"]
        answers = []
        for _ in range(2):
            status, text = post(server, "/v3/completions", body)
            assert status == 200, text
            answers.append(json.loads(text)["choices"][0]["text"])
            assert children_of(server.pid) != []
            server.wait_for("demo: unloaded")
            assert children_of(server.pid) == []
        assert answers[0] == answers[1]


def test_a_stream_ends_on_the_old_engine_while_the_new_one_answers(site: Path) -> None:
    shutil.copytree(DEMO, site / "demo")
    write_config(site, {"name": "demo"})
    words = ["config.json", "--file_system_poll_wait_seconds", "0.05"]
    messages = [{"role": "user", "content": "Hello"}]
    ask = {"model": "demo", "messages": messages, "ignore_eos": True, "temperature": 0}
    with Serving(site, *words).wait_until_serving() as server:
        engines = children_of(server.pid)
        long = {**ask, "stream": True, "max_tokens": 1900}
        with server.request("POST", CHAT, long) as response:
            assert response.readline().startswith(b"data: ")
            graph = site / "demo" / "graph.pbtxt"
            graph.write_text(graph.read_text().replace('"./"', '"./" max_num_seqs: 8'))
            server.wait_for("reloaded: demo")
            assert set(engines) < set(children_of(server.pid))
            assert post(server, CHAT, {**ask, "max_tokens": 2})[0] == 200
            *_, last, empty = response.read().decode().split("\n\n")
            assert (last, empty) == ("data: [DONE]", "")
        server.wait_for("demo: unloaded")
        assert not set(engines) & set(children_of(server.pid))


def test_a_terminal_that_is_closed_ends_neither_the_server_nor_its_children(site: Path) -> None:
    (site / "own").mkdir()
    (site / "own" / "graph.pbtxt").write_text(HTTP_HANDLER)
    (site / "own" / "model.py").write_text(HANDLER.format(word="old"))
    write_config(site, {"name": "own"})
    words = ["config.json", "--file_system_poll_wait_seconds", "0"]
    with Serving(site, *words).wait_until_serving() as server:
        children = children_of(server.pid)
        for pid in (*children, server.pid):
            os.kill(pid, signal.SIGHUP)
        server.wait_for("nothing has changed")
        assert post(server, CHAT, {"model": "own"}) == (200, "old")
        assert children_of(server.pid) == children
