"""`graphrt init`: names, directories that are in the way, and failures that leave nothing."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from servers.cli.arguments import KINDS
from servers.cli.command_line import main


def init(*words: str | Path) -> int:
    """Run the command in this process; return its exit code."""
    return main(["init", *map(str, words)])


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_project_bears_the_name_of_its_directory(kind: str, tmp_path: Path) -> None:
    assert init(tmp_path / "my-project", "--kind", kind) == 0
    project = tmp_path / "my-project"
    assert {"README.md", "config.json", "graph.pbtxt", "pyproject.toml", ".gitignore"} <= files(
        project
    )
    config = json.loads((project / "config.json").read_text())
    assert config["mediapipe_config_list"][0]["name"] == "my-project"
    graph = project / "graph.pbtxt"
    texts = [path.read_bytes() for path in project.glob("*") if path.is_file()]
    assert not [text for text in texts if re.search(rb"project[-_]name", text)]
    assert re.search(rb'(calculator: "|googleapis.com/)my_project\.', graph.read_bytes())
    assert [path.name for path in tmp_path.iterdir()] == ["my-project"]


def test_the_name_can_be_another_one(tmp_path: Path) -> None:
    assert init(tmp_path / "2", "--name", "second") == 0
    assert 'name = "second"' in (tmp_path / "2" / "pyproject.toml").read_text()


def test_the_help_lists_the_kinds(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        init("--help")
    text = capsys.readouterr().out
    assert [kind for kind in KINDS if f"\n  {kind} " not in text] == []


def test_models_are_copied(tmp_path: Path) -> None:
    assert init(tmp_path / "guarded", "--kind", "guard") == 0
    assert "models/demo/openvino_model.bin" in files(tmp_path / "guarded")


@pytest.mark.parametrize("name", ["2nd", "a b", "a.b", "-a", "a-", "é", "a" * 65, "graphrt"])
def test_names_that_cannot_be_are_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(tmp_path / "new", f"--name={name}") == 2
    error = capsys.readouterr().err
    assert error.startswith(f'error: "{name}" cannot be the name of a project: ')
    assert list(tmp_path.iterdir()) == []


def test_what_is_in_the_way_is_named_and_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "graph.pbtxt").write_text("mine too")
    assert init(tmp_path, "--name", "a") == 1
    assert (
        f"error: {tmp_path} is not empty: it has graph.pbtxt, notes.txt\n"
        in capsys.readouterr().err
    )
    assert files(tmp_path) == {"notes.txt", "graph.pbtxt"}
    assert (tmp_path / "graph.pbtxt").read_text() == "mine too"


def test_a_file_is_no_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a").write_text("mine")
    assert init(tmp_path / "a") == 1
    assert "exists and is not a directory" in capsys.readouterr().err


def test_the_directory_above_must_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert init(tmp_path / "a" / "b") == 1
    assert f"hint: make it first: mkdir -p {tmp_path / 'a'}\n" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_working_directory_may_be_a_new_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    assert init(".", "--name", "here") == 0
    assert "graph.pbtxt" in files(tmp_path)
    assert [path.name for path in tmp_path.glob(".graphrt*")] == []


@pytest.mark.parametrize("is_there", [False, True])
def test_a_failure_leaves_nothing(
    is_there: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    target = tmp_path / "new"
    if is_there:
        target.mkdir()
    write_bytes = Path.write_bytes

    def fails_at_the_graph(path: Path, content: bytes) -> int:
        if path.name == "graph.pbtxt":
            raise OSError(28, "No space left on device", str(path))
        return write_bytes(path, content)

    monkeypatch.setattr(Path, "write_bytes", fails_at_the_graph)
    assert init(target) == 1
    assert "No space left on device; nothing was made" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == (["new"] if is_there else [])
    assert not is_there or list(target.iterdir()) == []


def test_what_appears_meanwhile_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rename = Path.rename

    def after_another_program(path: Path, target: Path) -> Path:
        if path.name == "README.md" and not os.path.lexists(tmp_path / "graph.pbtxt"):
            (tmp_path / "graph.pbtxt").write_text("another program's")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", after_another_program)
    assert init(tmp_path, "--name", "a") == 1
    assert "graph.pbtxt: has appeared meanwhile; nothing was made" in capsys.readouterr().err
    assert files(tmp_path) == {"graph.pbtxt"}
