"""The guess of `graphrt serve` at the task whose processes it starts first."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servers.cli.early_serve import first_task
from tests.checkout import ROOT

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
    found = first_task([str(source)])
    assert (None if found is None else found.name) == task


def test_a_model_that_is_loaded_on_demand_is_not_loaded_at_the_start(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    entry = {"name": "demo", "base_path": str(MODELS / "demo")}
    config.write_text(json.dumps({"mediapipe_config_list": [entry | {"load": "on_demand"}]}))
    assert first_task([str(config)]) is None
    config.write_text(json.dumps({"mediapipe_config_list": [entry]}))
    assert first_task([str(config)]) is not None


@pytest.mark.parametrize("text", ["", "[]", "{", '{"mediapipe_config_list": 3}', "[" * 100_000])
def test_a_broken_config_starts_nothing(tmp_path: Path, text: str) -> None:
    config = tmp_path / "config.json"
    config.write_text(text)
    assert first_task([str(config)]) is None
