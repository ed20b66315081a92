"""The guess of `graphrt serve` at the task whose processes it starts first."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import calculators
from calculators.kit.child_process import supervisor
from graph_runtime import REGISTRY, Registry, ResourceError
from servers.cli import first_load
from servers.cli.arguments import make_parser
from servers.cli.early_serve import first_model
from servers.config import find_graph
from servers.serving.loaded_graph import load_graph
from tests.support.checkout import ROOT

MODELS = ROOT / "examples" / "models"


@pytest.mark.parametrize(
    ("source", "task"),
    [
        (MODELS / "demo", "text_generation"),
        (MODELS / "demo" / "graph.pbtxt", "text_generation"),
        (ROOT / "examples" / "config.json", "text_generation"),
        (MODELS / "docs_embedder", "embeddings"),
        (ROOT / "README.md", None),
        (Path("no/such/model"), None),
        (Path("org/name:file.gguf"), None),
        (Path(), None),
    ],
)
def test_the_task_of_what_is_served(source: Path, task: str | None) -> None:
    found = first_model([str(source)])
    assert (None if found is None else found.task.name) == task


def test_a_model_that_is_loaded_on_demand_is_not_loaded_at_the_start(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    entry = {"name": "demo", "base_path": str(MODELS / "demo")}
    config.write_text(json.dumps({"mediapipe_config_list": [entry | {"load": "on_demand"}]}))
    assert first_model([str(config)]) is None
    config.write_text(json.dumps({"mediapipe_config_list": [entry]}))
    assert first_model([str(config)]) is not None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"mediapipe_config_list": 3}', "[" * 100_000])
def test_a_broken_config_starts_nothing(tmp_path: Path, text: str) -> None:
    config = tmp_path / "config.json"
    config.write_text(text)
    assert first_model([str(config)]) is None


@pytest.mark.parametrize("source", [MODELS / "demo", ROOT / "examples" / "config.json"])
def test_processes_are_told_what_loading_tells_them(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, bytes] = {}
    monkeypatch.setattr(first_load, "tell_early", told.__setitem__)
    first = first_model([str(source)])
    assert first is not None
    first_load.tell_what_to_load(make_parser().parse_args(["serve", str(source)]), *first[::-1])
    sent: dict[str, bytes] = {}

    class Child:
        """A process for which the system has no room."""

        pid = 0
        has_crashed = False

        async def start(self, module: str, environment: Any, *, first: bytes) -> None:
            sent[module] = first
            raise OSError(12, "no memory")

        def stop(self) -> None:
            pass

        async def wait(self) -> None:
            pass

    monkeypatch.setattr(supervisor, "make_child", lambda *_: Child())
    registry = Registry(REGISTRY)
    calculators.register_all(registry)
    with pytest.raises(ResourceError, match="no memory"):
        asyncio.run(load_graph(find_graph(MODELS / "demo"), registry))
    assert told == sent
    assert len(told) == 2
