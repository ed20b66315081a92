"""`graphrt --add_to_config`: the paths and keys that it writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from servers.cli import add_to_config
from servers.cli.arguments import make_parser
from servers.cli.command_line import spread
from servers.config import read_config


def added(folder: Path, *words: str) -> dict[str, Any]:
    """Return the entry that the command writes into a config of ``folder``."""
    config = folder / "config.json"
    command = ["--add_to_config", "--config_path", str(config), "--model_name", "m", *words]
    assert add_to_config.execute(make_parser().parse_args(spread(command))) == 0
    (entry,) = json.loads(config.read_text())["model_config_list"]
    config.unlink()
    return dict(entry["config"])


def test_a_path_below_the_config_is_written_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "models" / "org" / "m").mkdir(parents=True)
    models = tmp_path / "models"
    assert added(models, "--model_path", "org/m")["base_path"] == "org/m"


def test_an_absolute_path_below_the_config_may_move_with_it(tmp_path: Path) -> None:
    (tmp_path / "models" / "m").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    models = tmp_path / "models"
    assert added(models, "--model_path", str(models / "m"))["base_path"] == "m"
    elsewhere = str(tmp_path / "other")
    assert added(models, "--model_path", elsewhere)["base_path"] == elsewhere


def test_a_path_from_the_current_directory_is_turned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models" / "org" / "m").mkdir(parents=True)
    (tmp_path / "configs").mkdir()
    monkeypatch.chdir(tmp_path)
    found = added(Path("configs"), "--model_path", "models/org/m")
    assert found["base_path"] == "../models/org/m"


def test_models_of_a_repository_work_where_all_is_mounted_elsewhere(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "m" / "1").mkdir(parents=True)
    config = here / "config.json"
    entry = added(here, "--model_repository_path", str(here), "--group_name", "rag")
    assert entry == {"name": "m", "base_path": "m", "group_name": "rag"}
    config.write_text(json.dumps({"model_config_list": [{"config": entry}]}))
    here.rename(there)
    (model,) = read_config(there / "config.json").models
    assert model.base_path == there / "m"
    assert model.residence.group == "rag"


def test_a_path_that_is_not_there_is_written_with_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert added(tmp_path, "--model_path", "org/later")["base_path"] == "org/later"
    assert "warning: org/later: there is no such directory yet" in capsys.readouterr().err
