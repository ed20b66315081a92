"""A server in a directory whose folders and files have names of packages and modules."""

from __future__ import annotations

from pathlib import Path

from tests.servers.cli.serving import Serving


def test_processes_of_a_model_find_the_modules_of_graphrt(tmp_path: Path) -> None:
    for name in ("calculators", "servers", "graph_runtime"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('not this one')\n")
    for name in ("typing.py", "numpy.py"):
        (tmp_path / name).write_text("raise ImportError('not this one')\n")
    with Serving(tmp_path, "demo", calculators=()) as server:
        server.wait_until_serving()
        body = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}]}
        with server.request("POST", "/v3/chat/completions", body) as reply:
            assert reply.status == 200
