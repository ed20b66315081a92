"""`graphrt pull mediapipe`: models out of a wheel."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from calculators.mediapipe_directory import find_mediapipe_file
from servers.cli.mediapipe_models import is_mediapipe, pull_mediapipe
from servers.cli.messages import CommandFailed

WHEEL = "mediapipe-0.10.21-cp311-cp311-manylinux_2_28_x86_64.whl"
MODEL = "mediapipe/modules/face_landmark/face_landmark.tflite"


def wheel(folder: Path, **files: bytes) -> Path:
    path = folder / WHEEL
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def test_models_are_copied_and_found_and_code_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAPHRT_MEDIAPIPE", raising=False)
    wheel(tmp_path, **{MODEL: b"model", "mediapipe/modules/x.py": b"code"})
    target = pull_mediapipe("mediapipe")
    found = find_mediapipe_file(MODEL, tmp_path)
    assert found is not None
    assert found.read_bytes() == b"model"
    assert not list(target.rglob("*.py"))


def test_a_path_out_of_the_directory_is_refused(tmp_path: Path) -> None:
    path = wheel(tmp_path, **{"mediapipe/modules/../../../x.txt": b""})
    with pytest.raises(CommandFailed, match="not a model"):
        pull_mediapipe(str(path), tmp_path / "target")


@pytest.mark.parametrize("content", [b"", b"no wheel"], ids=["empty", "no zip"])
def test_what_is_no_wheel_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / WHEEL
    path.write_bytes(content)
    with pytest.raises(CommandFailed, match="not a whole wheel"):
        pull_mediapipe(str(path), tmp_path / "target")


def test_without_a_wheel_the_hint_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CommandFailed) as caught:
        pull_mediapipe("mediapipe")
    assert "pip download" in str(caught.value.hint)


def test_models_of_a_hub_are_not_taken_for_mediapipe() -> None:
    assert is_mediapipe("mediapipe")
    assert is_mediapipe(f"wheels/{WHEEL}")
    assert not is_mediapipe("org/mediapipe")
