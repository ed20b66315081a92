"""The application for `serve deploy`: a front that Ray Serve runs and ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed (make ray)")

from tests.ray.cluster_site import Site, wait_until
from tests.servers.cli.process import environment
from tests.support.patience import PATIENCE

#: Where Ray's commands are.
BIN = Path(sys.executable).parent

#: Runs the application in a cluster of its own, asks it, and deletes it.
SCRIPT = """
import http.client, logging, sys, time
from servers.replicas.cluster import import_ray
ray = import_ray()
from ray import serve
from servers.replicas.application import application

config, calculators, port = sys.argv[1:]
options = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
ray.init(address="local", **options)
serve.start(proxy_location="Disabled")
arguments = ["--calculators", calculators, "--rest_port", port]
front = application({"config": config, "arguments": arguments})
serve.run(front, name="graphrt", route_prefix=None)

def answer():
    connection = http.client.HTTPConnection("127.0.0.1", int(port))
    try:
        body = '{"model": "probe", "do": "where"}'
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v3/chat/completions", body, headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    except OSError:
        return 0, ""
    finally:
        connection.close()

deadline = time.monotonic() + 200
while (found := answer())[0] != 200 and time.monotonic() < deadline:
    time.sleep(0.2)
print("answer", *found)
serve.delete("graphrt")
while serve.status().applications and time.monotonic() < deadline:
    time.sleep(0.2)
print("left", answer()[0], list(serve.status().applications))
ray.shutdown()
"""


def test_the_front_of_an_application_answers_and_ends_with_it(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.add("probe", "Second")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *map(str, _words(tmp_path)), str(port)],
        env={**environment(), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
    )
    assert "answer 200" in done.stdout, done.stdout + done.stderr
    assert '"version": "second"' in done.stdout
    assert "left 0 []" in done.stdout


def test_the_command_serve_deploy_starts_and_ends_a_front(tmp_path: Path) -> None:
    """`serve deploy` of a head with a dashboard, which it asks by HTTP."""
    site = Site(tmp_path)
    site.add("probe", "Second")
    config, calculators = map(str, _words(tmp_path))
    head_port, dashboard, agent, client, rest = map(str, _free_ports(5))
    arguments = ["--calculators", calculators, "--rest_port", rest]
    application = {
        "name": "graphrt",
        "route_prefix": None,
        "import_path": "servers.replicas.application:application",
        "args": {"config": config, "arguments": arguments},
    }
    file = tmp_path / "serve.yaml"  # JSON is YAML
    file.write_text(json.dumps({"proxy_location": "Disabled", "applications": [application]}))
    env = {**environment(), "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    env |= {"RAY_ADDRESS": f"127.0.0.1:{head_port}", "RAY_DASHBOARD_ADDRESS": ""}
    head_words = ("--head", "--block", "--num-cpus=2", f"--port={head_port}")
    ports = (
        f"--dashboard-port={dashboard}",
        f"--dashboard-agent-listen-port={agent}",
        f"--ray-client-server-port={client}",
    )
    address = ("--address", f"http://127.0.0.1:{dashboard}")

    def command(name: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [BIN / name, *words], env=env, capture_output=True, text=True, timeout=PATIENCE
        )

    head_env = {key: value for key, value in env.items() if key != "RAY_ADDRESS"}
    with (tmp_path / "head.log").open("w") as log:
        head = subprocess.Popen(
            [BIN / "ray", "start", *head_words, *ports], env=head_env, stdout=log, stderr=log
        )
    try:
        wait_until(lambda: _listens(dashboard))
        done = wait_until(
            lambda: (
                (found := command("serve", "deploy", str(file), *address)).returncode == 0 and found
            )
        )
        assert "sent" in (done.stdout + done.stderr).lower()
        assert wait_until(lambda: _version_at(rest)) == "second"
        status = command("serve", "status", *address).stdout
        assert "RUNNING" in status
        assert command("serve", "shutdown", "-y", *address).returncode == 0
        wait_until(lambda: not _listens(rest))
    finally:
        head.terminate()
        try:
            head.wait(PATIENCE)
        finally:
            head.kill()


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        for each in sockets:
            stack.enter_context(each)
        return [each.getsockname()[1] for each in sockets]


def _listens(port: str) -> bool:
    try:
        socket.create_connection(("127.0.0.1", int(port)), 5).close()
    except OSError:
        return False
    return True


def _version_at(port: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE)
    try:
        headers = {"Content-Type": "application/json"}
        body = '{"model": "probe", "do": "where"}'
        connection.request("POST", "/v3/chat/completions", body, headers)
        response = connection.getresponse()
        found = json.loads(response.read())
        return found["version"] if response.status == 200 else ""
    except OSError:
        return ""
    finally:
        connection.close()


def _words(folder: Path) -> tuple[Path, Path]:
    return folder / "config.json", folder / "calcs.py"
