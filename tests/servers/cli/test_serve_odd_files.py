"""Files that are not files, or do not answer: each is reported, and nothing waits for them.

A network mount that is gone is one whose ``stat`` does not return; a module makes it so.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import CALCULATORS, ECHO, Serving

CHAT = "/v3/chat/completions"
RELOAD = "/v1/config/reload"
QUIET = ("config.json", "--file_system_poll_wait_seconds", "0")

#: `os.stat` of what lies in a directory "gone" never returns, and 2 s are long.
MOUNT = """\
import os
import threading

import calculators.kit.file_threads

stat = os.stat


def hanging(path, *args, **kwargs):
    if "gone" in str(path) and stat("calcs.py").st_mode & 0o100:
        threading.Event().wait()
    return stat(path, *args, **kwargs)


os.stat = hanging
calculators.kit.file_threads.ANSWER_SECONDS = 2.0
"""


def socket_at(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(path.parent)  # such a path may not be long
        try:
            listener.bind(path.name)
        finally:
            os.chdir(here)


def loop_at(path: Path) -> None:
    path.symlink_to(path.name)


KINDS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "pipe": (os.mkfifo, "it is a pipe, not a regular file"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "it is a device, not a regular file"),
    "socket": (socket_at, "it is a socket, not a regular file"),
    "directory": (Path.mkdir, "this is a directory"),
    "circle": (loop_at, "Too many levels of symbolic links"),
}


def put(site: Path, name: str, kind: str) -> str:
    """Put something of this kind in the place of a file; what is said of it."""
    make, reason = KINDS[kind]
    (site / name).unlink(missing_ok=True)
    make(site / name)
    return reason


def assert_ends(server: Serving) -> None:
    server.send_signal(signal.SIGTERM)
    code, _, rest = server.end()
    assert (code, "stopped" in rest) == (0, True), rest


@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_file_that_is_none_fails_alone(site: Path, kind: str) -> None:
    with Serving(site, *QUIET).wait_until_serving() as server:
        reason = put(site, "stream/graph.pbtxt", kind)
        status, body = server.post(RELOAD)
        assert status == 412
        assert list(body["failed"]) == ["stream"]
        assert reason in body["failed"]["stream"]
        assert server.post(CHAT, {"model": "echo"})[0] == 200
        assert_ends(server)


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize(
    "name", ["config.json", "echo/subconfig.json", "echo/beside.pbtxt", "module.py"]
)
def test_no_file_that_is_none_holds_up_a_reload(site: Path, name: str, kind: str) -> None:
    (site / "module.py").write_text("")
    config = json.loads((site / "config.json").read_text())
    (site / "config.json").write_text(json.dumps({**config, "python_path": "module.py"}))
    with Serving(site, *QUIET).wait_until_serving() as server:
        reason = put(site, name, kind)
        (site / "echo" / "graph.pbtxt").write_text(ECHO.replace('"Echo"', '"Ecko"'))
        status, body = server.post(RELOAD)
        assert status in (412, 422)  # the modules are those of both graphs
        if name in ("config.json", "echo/subconfig.json"):
            assert reason in body["error"]
        else:
            assert "Ecko" in body["failed"]["echo"]
        assert server.post(CHAT, {"model": "echo"})[0] == 200
        assert_ends(server)


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"directory"}))  # may hold a graph
def test_a_server_does_not_start_with_a_config_that_is_none(site: Path, kind: str) -> None:
    reason = put(site, "config.json", kind)
    done = graphrt("serve", "--config_path", "config.json", "--rest_port", "auto", cwd=site)
    assert done.returncode == 1
    assert f"config.json: error: {reason}" in done.stderr.replace("cannot be read: ", "")


def test_what_does_not_answer_is_named_and_holds_up_neither_others_nor_the_end(
    site: Path,
) -> None:
    (site / "calcs.py").write_text(CALCULATORS + MOUNT)
    (site / "gone").mkdir()
    (site / "gone" / "graph.pbtxt").write_text(ECHO)
    graphs = [{"name": "echo"}, {"name": "gone"}]
    (site / "config.json").write_text(json.dumps({"mediapipe_config_list": graphs}))
    with Serving(site, *QUIET).wait_until_serving() as server:
        assert server.post(CHAT, {"model": "gone"})[0] == 200
        (site / "calcs.py").chmod(0o744)
        for said in ("have not answered for 2 s", "still do not answer"):
            status, body = server.post(RELOAD)
            assert status == 503
            assert said in body["error"]
            assert str(site) not in body["error"]
        assert server.post(CHAT, {"model": "gone"})[0] == 200
        assert server.post(CHAT, {"model": "echo"})[0] == 200
        assert_ends(server)


def test_a_graph_whose_files_do_not_answer_is_not_served_and_the_others_are(site: Path) -> None:
    (site / "calcs.py").write_text(CALCULATORS + MOUNT)
    (site / "one").mkdir()
    (site / "one" / "gone.pbtxt").write_text(ECHO)
    graphs = [{"name": "one", "graph_path": "gone.pbtxt"}, {"name": "echo"}]
    (site / "config.json").write_text(json.dumps({"mediapipe_config_list": graphs}))
    (site / "calcs.py").chmod(0o744)
    with Serving(site, *QUIET) as server:
        server.wait_for("one: could not be loaded: the files of the graph")
        server.wait_until_serving()
        assert server.post(CHAT, {"model": "echo"})[0] == 200
        assert_ends(server)


def test_a_thread_that_does_not_return_does_not_keep_the_process(site: Path) -> None:
    os.mkfifo(site / "pipe")
    with Serving(site, *QUIET).wait_until_serving() as server:
        body = {"model": "stream", "stream": True, "pipe": str(site / "pipe")}
        with server.request("POST", CHAT, body) as response:
            assert response.readline() == b"data: first\n"
            server.send_signal(signal.SIGTERM)
            server.wait_for("stopping")
            server.send_signal(signal.SIGTERM)
            code, _, rest = server.end()
        assert (code, "stopped" in rest) == (0, True), rest


def test_a_hang_up_reads_the_configuration_again(site: Path) -> None:
    with Serving(site, *QUIET).wait_until_serving() as server:
        graphs = [{"name": "echo"}, {"name": "new", "base_path": "echo"}]
        (site / "config.json").write_text(json.dumps({"mediapipe_config_list": graphs}))
        server.send_signal(signal.SIGHUP)
        server.wait_for("reloaded: new, stream")
        assert server.post(CHAT, {"model": "new"})[0] == 200
        (site / "config.json").write_text("[")
        server.send_signal(signal.SIGHUP)
        server.wait_for("Reloading config file failed: ")
        assert server.post(CHAT, {"model": "new"})[0] == 200
        assert_ends(server)


def test_a_hang_up_ends_no_server_of_one_graph(site: Path) -> None:
    with Serving(
        site, "--model_path", "echo", "--model_name", "echo"
    ).wait_until_serving() as server:
        server.send_signal(signal.SIGHUP)
        server.wait_for("SIGHUP")
        assert server.get("/v2/health/ready")[0] == 200
        assert_ends(server)
