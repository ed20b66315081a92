"""docs/stores.md: its commands as typed, on a server of S3's protocol with its models."""

from __future__ import annotations

import json
from pathlib import Path

from servers.config import read_config
from tests.calculators.llm.demo_model import DEMO
from tests.documents.snippets import run_shell, served
from tests.servers.cli.serving import Serving
from tests.servers.conftest import running_s3, s3, store_environment
from tests.servers.model_store.store_servers import S3Server
from tests.servers.serving.models.model_folders import write_versions
from tests.support.conditions import wait_until
from tests.support.markdown import block, commands

__all__ = ["running_s3", "s3", "store_environment"]

PAGE = "docs/stores.md"


def await_ready(server: Serving, name: str) -> None:
    wait_until(lambda: server.get(f"/v2/models/{name}/ready")[0] == 200, f"{name} is loaded")


def test_the_models_of_the_page_are_served(s3: S3Server, tmp_path: Path) -> None:
    s3.make_bucket("models")
    s3.put("models", "resnet", write_versions(tmp_path, "here", 1))
    for file in DEMO.iterdir():
        if file.name != "graph.pbtxt":
            s3.put("models", f"Qwen3-0.6B-int4-ov/{file.name}", file.read_bytes())
    plain, chat, add = commands(PAGE, "graphrt serve --model_path s3://models/resnet")
    for command, name in ((plain, "resnet"), (chat, "Qwen3-0.6B-int4-ov")):
        with served(command, tmp_path) as server:
            await_ready(server, name)
    run_shell(add, tmp_path)
    (entry,) = json.loads((tmp_path / "config.json").read_text())["model_config_list"]
    assert entry["config"] == {"name": "resnet", "base_path": "s3://models/resnet"}


def test_the_config_of_the_page_has_no_finding(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(block(PAGE, "json", "model_config_list"))
    config = read_config(tmp_path / "config.json")
    assert config.findings == ()
    assert [entry.stored and entry.stored.address for entry in config.models] == [
        "s3://models/resnet",
        "gs://models/Qwen3-0.6B-int4-ov",
    ]
