"""docs/ray.md: its command, on a Ray cluster of this machine; skipped without Ray."""

from __future__ import annotations

import json
import re
import secrets
import shutil
from pathlib import Path

import pytest

from servers.config import read_config
from servers.config.entries import Scale
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.markdown import block, commands

PAGE = "docs/ray.md"


def test_the_config_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(block(PAGE, "json", "min_replicas"))
    scale = read_config(tmp_path / "config.json").graphs[0].scale
    assert (scale.min_replicas, scale.max_replicas, scale.num_cpus) == (1, 4, 4)


def test_nodes_have_replicas_of_their_own(tmp_path: Path) -> None:
    entry = block(PAGE, "json", '"place": "own"')
    (tmp_path / "config.json").write_text(
        f'{{"model_config_list": [], "mediapipe_config_list": [{entry}]}}'
    )
    nodes = read_config(tmp_path / "config.json").graphs[0].scale.nodes
    assert {name: each.max_replicas for name, each in nodes.items()} == {
        "retriever": 4,
        "LLMExecutor": 8,
    }


def test_every_key_of_scale_has_a_line() -> None:
    rows = [line for line in (ROOT / PAGE).read_text().splitlines() if line.startswith("| `")]
    described = " ".join(row.split(" | ")[0] for row in rows)
    for name in Scale.__dataclass_fields__:
        assert f"`{name}`" in described


def test_the_command_serves_replicas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (make ray)")
    monkeypatch.setenv("RAY_ADDRESS", "local")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    (command,) = commands(PAGE, "serve config.json --on ray")
    _, _, *words = command.split()
    config = json.loads(block(PAGE, "json", "min_replicas"))
    # A machine of the tests has fewer cores than one of the page.
    config["mediapipe_config_list"][0]["scale"]["num_cpus"] = 0.1
    (tmp_path / "config.json").write_text(json.dumps(config))
    shutil.copytree(ROOT / "examples/models/demo", tmp_path / "models/demo")
    with Serving(tmp_path, *words, calculators=()) as server:
        server.wait_until_serving()
        asked = {"model": "demo", "messages": [{"role": "user", "content": "Hello"}]}
        with server.request("POST", "/v3/chat/completions", asked) as response:
            assert response.status == 200
            assert json.loads(response.read())["choices"]
        found = re.search(r"on the Ray cluster (\S+)", "".join(server.log))
        assert found is not None
        monkeypatch.setenv("RAY_ADDRESS", found[1])
        (batch,) = commands(PAGE, "graphrt batch")
        lines = block("docs/batches.md", "json", "custom_id").splitlines()
        (tmp_path / "requests.jsonl").write_text("\n".join(lines[:2]))
        done = graphrt(*batch.split()[1:], cwd=tmp_path)
        assert "2 answers" in done.stdout, done.stderr
        server.send_signal()
        assert server.end()[0] == 0
