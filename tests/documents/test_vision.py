"""docs/vision.md and README.md: MediaPipe's solutions as the pages show them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import cv2
import pytest

from bench.mediapipe_oracle import CASES, picture
from calculators.mediapipe_directory import find_mediapipe_file
from servers.cli import main
from tests.calculators.vision.solutions import needs_models
from tests.documents.snippets import run_python
from tests.markdown import block

PAGE = "docs/vision.md"
MODEL = "mediapipe/modules/face_landmark/face_landmark.tflite"

needs_pictures = pytest.mark.skipif(not CASES.exists(), reason="the picture is not here")


def test_the_models_of_a_downloaded_wheel_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = block(PAGE, "console", "graphrt pull mediapipe")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("GRAPHRT_MEDIAPIPE", raising=False)
    with zipfile.ZipFile("mediapipe-0.10.21-cp311-cp311-manylinux_2_28_x86_64.whl", "w") as wheel:
        wheel.writestr(MODEL, b"model")
    command = text.splitlines()[-1].removeprefix("$ graphrt ")
    assert main(command.split()) == 0
    assert find_mediapipe_file(MODEL, tmp_path) is not None


@needs_models
@needs_pictures
@pytest.mark.parametrize("page", ["README.md", PAGE])
def test_the_program_of_the_page_draws_a_person(tmp_path: Path, page: str) -> None:
    image = picture("astronaut")
    cv2.imwrite(str(tmp_path / "person.jpg"), image[:, :, ::-1])
    (tmp_path / "draw.py").write_text(block(page, "python", "from calculators.vision"))
    run_python("draw.py", tmp_path)
    found = cv2.imread(str(tmp_path / "drawn.jpg"))
    assert found is not None
    assert found.shape == image.shape
