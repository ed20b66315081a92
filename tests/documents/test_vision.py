"""docs/vision.md and README.md: MediaPipe's solutions as the pages show them."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import cv2
import pytest

from bench.mediapipe_oracle import picture
from calculators.images.image.image_frame import ImageFormat, ImageFrame
from calculators.images.image.video_file import VideoWriter
from calculators.kit.graph_directory import find_mediapipe_file
from servers.cli import main
from tests.calculators.vision.solutions import needs_models
from tests.documents.snippets import run_python
from tests.servers.cli.process import graphrt
from tests.support.checkout import ROOT
from tests.support.markdown import block

PAGE = "docs/vision.md"
MODEL = "mediapipe/modules/face_landmark/face_landmark.tflite"


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
@pytest.mark.parametrize("page", ["README.md", PAGE])
def test_the_program_of_the_page_draws_a_person(tmp_path: Path, page: str) -> None:
    image = picture("astronaut")
    cv2.imwrite(str(tmp_path / "person.jpg"), image[:, :, ::-1])
    (tmp_path / "draw.py").write_text(block(page, "python", "from calculators.vision"))
    run_python("draw.py", tmp_path)
    found = cv2.imread(str(tmp_path / "drawn.jpg"))
    assert found is not None
    assert found.shape == image.shape


@needs_models
def test_the_command_of_the_page_draws_a_video(tmp_path: Path) -> None:
    command, _, lines = block(PAGE, "console", "--video").partition(" > ")
    words = [
        str(ROOT / word) if word.startswith("examples/") else word
        for word in command.removeprefix("$ graphrt ").split()
    ]
    image = ImageFrame(ImageFormat.SRGB, picture("astronaut"))
    writer = VideoWriter(str(tmp_path / "walk.mp4"), "mp4v", 25.0, (image.width, image.height))
    for _ in range(2):
        writer.write(image)
    writer.close()
    done = graphrt(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / lines.strip()).write_text(done.stdout)
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    found = [line["stream"] for line in printed if "stream" in line]  # the others: side packets
    assert sorted(found) == sorted(["pose", "face", "left_hand", "right_hand"] * 2)
    assert (tmp_path / "drawn.mp4").stat().st_size > 1000


def test_the_command_that_serves_names_the_example() -> None:
    text = block(PAGE, "console", "graphrt serve")
    config = text.split()[3]
    assert (ROOT / config).is_file()
    assert f"graphrt serve {config} --port 9000" in (ROOT / config).with_name(
        "holistic.pbtxt"
    ).read_text(encoding="utf-8")
