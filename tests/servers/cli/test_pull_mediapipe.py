"""`graphrt pull mediapipe`: models out of a wheel."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from calculators.kit.graph_directory import find_mediapipe_file, installed_directory
from servers.cli.messages import CommandFailed
from servers.cli.pull import is_mediapipe, pull_mediapipe

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


def test_an_installed_package_is_copied_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "site" / MODEL
    model.parent.mkdir(parents=True)
    model.write_bytes(b"model")
    (tmp_path / "site" / "mediapipe" / "__init__.py").write_text("raise SystemExit")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.chdir(tmp_path)
    installed_directory.cache_clear()
    try:
        target = pull_mediapipe("mediapipe", tmp_path / "target")
    finally:
        installed_directory.cache_clear()
    assert (target / MODEL).read_bytes() == b"model"
    assert not list(target.rglob("*.py"))


@pytest.fixture
def index(child_program: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory in which pip looks for wheels, and nowhere else."""
    pytest.importorskip("pip")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "index"))
    (tmp_path / "index").mkdir()
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    installed_directory.cache_clear()
    if installed_directory() is not None:
        pytest.skip("MediaPipe is installed here")
    return tmp_path / "index"


def test_without_a_wheel_pip_downloads_it(index: Path, tmp_path: Path) -> None:
    about = "mediapipe-0.10.21.dist-info"
    made = {
        MODEL: b"model",
        f"{about}/METADATA": b"Metadata-Version: 2.1\nName: mediapipe\nVersion: 0.10.21\n",
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: "
        b"cp311-cp311-manylinux_2_28_x86_64\n",
        f"{about}/RECORD": b"",
    }
    wheel(index, **made)
    target = pull_mediapipe("mediapipe", tmp_path / "target")
    assert (target / MODEL).read_bytes() == b"model"


def test_where_pip_finds_nothing_the_hint_says_how_to_get_a_wheel(
    index: Path, tmp_path: Path
) -> None:
    with pytest.raises(CommandFailed, match="pip cannot download mediapipe") as caught:
        pull_mediapipe("mediapipe", tmp_path / "target")
    assert "pip download" in str(caught.value.hint)
    assert not (tmp_path / "target").exists()


def test_models_of_a_hub_are_not_taken_for_mediapipe() -> None:
    assert is_mediapipe("mediapipe")
    assert is_mediapipe(f"wheels/{WHEEL}")
    assert not is_mediapipe("org/mediapipe")
