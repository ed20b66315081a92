"""Entries added to and removed from a config.json, with the rest of the file as it was."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from servers.config.edit import EditError, add_entry, remove_entry, with_entry, without_entry

NEW = {"name": "new", "base_path": "/models/new"}
ADDED = '{"config": {"name": "new", "base_path": "/models/new"}}'

CONFIG = """\
{
    "mediapipe_config_list": [
        {"name": "chat",   "base_path": "chat"}
    ],
    "model_config_list": [
        {"config": {"name": "one", "base_path": "/m/1"}},
        {"config": {"name": "two", "base_path": "/m/2"}}
    ],
    "monitoring": {"metrics": {"enable": true}}
}
"""


def test_a_new_entry_stands_behind_the_others_and_nothing_else_moves() -> None:
    assert with_entry(CONFIG, NEW) == CONFIG.replace(
        '"base_path": "/m/2"}}', f'"base_path": "/m/2"}}}},\n        {ADDED}'
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{ }\n",
        '{"model_config_list": []}',
        '{"model_config_list": [ ], "other": 1}',
        '{"model_config_list":[{"config":{"name":"one"}}]}',
        '{"other": {"model_config_list": [1]}, "text": "}]{[" }',
        CONFIG,
    ],
)
def test_an_entry_is_added_to_any_config_and_taken_out_again(text: str) -> None:
    added = with_entry(text, NEW)
    before, after = json.loads(text or "{}"), json.loads(added)
    entries = after["model_config_list"]
    assert entries.pop()["config"] == NEW
    assert entries == before.get("model_config_list", [])
    assert {**before, "model_config_list": entries} == after
    removed = json.loads(without_entry(added, "new"))
    assert removed == {"model_config_list": [], **before}


@pytest.mark.parametrize("name", ["chat", "one", "two"])
def test_an_entry_is_removed_from_its_list(name: str) -> None:
    after = json.loads(without_entry(CONFIG, name))
    assert name not in json.dumps(after)
    assert len(json.dumps(json.loads(CONFIG))) > len(json.dumps(after)) > 100


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(EditError, match='"chat" is listed already, in mediapipe_config_list'):
        with_entry(CONFIG, {**NEW, "name": "chat"})


def test_a_name_that_is_not_listed_is_answered_with_those_that_are() -> None:
    with pytest.raises(EditError, match='"six" is not listed; the config lists "chat", "one"'):
        without_entry(CONFIG, "six")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": }', "1:7: Expecting value"),
        ("[]", r"a config\.json is a JSON object"),
        ('{"model_config_list": {}}', "model_config_list is not a list"),
    ],
)
def test_what_is_no_config_is_left_alone(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(text)
    with pytest.raises(EditError, match=message):
        add_entry(file, NEW)
    assert file.read_text() == text
    assert os.listdir(tmp_path) == ["config.json"]


def test_the_file_keeps_its_mode_and_its_link(tmp_path: Path) -> None:
    file, link = tmp_path / "real.json", tmp_path / "config.json"
    file.write_text(CONFIG)
    file.chmod(0o640)
    link.symlink_to(file)
    remove_entry(link, "one")
    assert link.is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert "one" not in file.read_text()


def test_changes_at_the_same_time_all_happen(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    threads = [
        threading.Thread(target=add_entry, args=(file, {"name": f"m{number}", "base_path": "/m"}))
        for number in range(20)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = [each["config"]["name"] for each in json.loads(file.read_text())["model_config_list"]]
    assert sorted(names) == sorted(f"m{number}" for number in range(20))
