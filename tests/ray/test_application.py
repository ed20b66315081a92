"""The application for `serve deploy`: a front that Ray Serve runs and ends."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray is not installed (make ray)")

from tests.patience import PATIENCE
from tests.ray.cluster_site import Site
from tests.servers.cli.process import environment

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


def _words(folder: Path) -> tuple[Path, Path]:
    return folder / "config.json", folder / "calcs.py"
