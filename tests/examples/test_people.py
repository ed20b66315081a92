"""`examples/graphs/people`, served: images in, landmarks, boxes and masks out, by tritonclient."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from bench.mediapipe_oracle import lines, picture
from calculators.images.image.encoded_image import encode_image
from calculators.images.image.image_frame import ImageFormat, ImageFrame
from tests.calculators.vision.solutions import needs_models
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT
from tests.support.patience import PATIENCE

STILLS = {
    case["solution"]: case for case in lines("stills.jsonl") if case["picture"] == "astronaut"
}
pytestmark = [
    needs_models,
    pytest.mark.skipif(not STILLS, reason="the pictures that MediaPipe has seen are not here"),
]
CONFIG = "examples/graphs/people/config.json"

#: Sends images, [model, file, timestamp or null], as BYTES or, from a file of NumPy, as UINT8, and
#: saves each output as a file of NumPy. Images with timestamps are one stream.
CLIENT = """
import json
import sys
from pathlib import Path

import numpy as np
import tritonclient.grpc as triton

address, asked, folder = sys.argv[1], json.loads(sys.argv[2]), Path(sys.argv[3])

def tensor(file):
    if file.endswith(".npy"):
        value = np.load(file)
        made = triton.InferInput("image", value.shape, "UINT8")
    else:
        value = np.array([Path(file).read_bytes()], np.object_)
        made = triton.InferInput("image", [1], "BYTES")
    made.set_data_from_numpy(value)
    return made

def keep(place, result, error):
    if error is not None:
        print(json.dumps([place, str(error)]), flush=True)
        return
    response = result.get_response()
    if "OVMS_MP_TIMESTAMP" in response.parameters:
        place = response.parameters["OVMS_MP_TIMESTAMP"].int64_param
    for each in response.outputs:
        np.save(folder / f"{place}_{each.name}.npy", result.as_numpy(each.name))

with triton.InferenceServerClient(address) as client:
    for place, (model, file, time) in enumerate(asked):
        if time is None:
            try:
                keep(place, client.infer(model, [tensor(file)]), None)
            except triton.InferenceServerException as error:
                keep(place, None, error)
    streamed = [each for each in asked if each[2] is not None]
    if streamed:
        client.start_stream(callback=lambda result, error: keep(-1, result, error))
        for model, file, time in streamed:
            client.async_stream_infer(model, [tensor(file)], parameters={"OVMS_MP_TIMESTAMP": time})
        client.stop_stream()
"""


class Client:
    """A client of the served graphs."""

    def __init__(self, address: str, folder: Path) -> None:
        self._address = address
        self._folder = folder
        #: What the server said instead of an answer.
        self.errors: list[str] = []

    def ask(self, *asked: tuple[str, Path, int | None]) -> dict[tuple[int, str], Any]:
        """Return outputs by the place or timestamp of the image, and their names."""
        with TemporaryDirectory(dir=self._folder) as folder:
            words = [(model, str(file), time) for model, file, time in asked]
            done = subprocess.run(
                [sys.executable, "-c", CLIENT, self._address, json.dumps(words), folder],
                capture_output=True,
                text=True,
                timeout=PATIENCE,
            )
            assert done.returncode == 0, done.stderr
            self.errors = [json.loads(line)[1] for line in done.stdout.splitlines()]
            found = {}
            for file in Path(folder).glob("*.npy"):
                place, _, name = file.stem.partition("_")
                found[int(place), name] = np.load(file)
        return found


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Serving(ROOT, CONFIG, "--port", "auto", calculators=()) as server:
        address = server.wait_for("graphrt serves grpc://").partition("//")[2].strip()
        yield Client(address, tmp_path_factory.mktemp("people"))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The astronaut as pixels and as a PNG, other pictures, and files that are none."""
    folder = tmp_path_factory.mktemp("pictures")
    image = picture("astronaut")
    arrays = {"astronaut": image, "black": np.zeros((64, 48, 3), np.uint8)}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    for step in range(3):
        np.save(folder / f"moved{step}.npy", np.roll(image, 4 * step, axis=1))
    encoded = encode_image(ImageFrame(ImageFormat.SRGB, image), quality=100, kind="PNG")
    (folder / "astronaut.png").write_bytes(encoded)
    (folder / "half.png").write_bytes(encoded[: len(encoded) // 8])
    return {file.name: file for file in folder.iterdir()}


def test_an_encoded_image_gives_landmarks_and_the_drawn_image(
    client: Client, files: dict[str, Path]
) -> None:
    found = client.ask(("holistic", files["astronaut.png"], None))
    wanted = STILLS["holistic"]["results"]["face_landmarks"]
    assert {name: value.shape for (_, name), value in found.items()} == {
        "drawn": (512, 512, 3),
        "pose": (1, 33, 5),
        "face": (1, 468, 5),
        "left_hand": (0, 0, 5),
        "right_hand": (0, 0, 5),
    }
    apart = np.abs(found[0, "face"][0, :, :2] - np.array([each[:2] for each in wanted]))
    assert np.percentile(apart, 99) < 1 / 512
    assert not np.array_equal(found[0, "drawn"], picture("astronaut"))


def test_pixels_give_boxes_and_masks(client: Client, files: dict[str, Path]) -> None:
    found = client.ask(
        ("faces", files["astronaut.npy"], None), ("selfie", files["astronaut.npy"], None)
    )
    (top, left, bottom, right) = found[0, "boxes"][0]
    assert 0 < top < bottom < 0.6
    assert 0.2 < left < right < 0.7
    assert found[1, "mask"].shape == (512, 512, 1)
    assert 0.3 < found[1, "mask"].mean() < 0.9


def test_nobody_is_an_empty_tensor_and_no_error(client: Client, files: dict[str, Path]) -> None:
    found = client.ask(("faces", files["black.npy"], None), ("holistic", files["black.npy"], None))
    assert found[0, "boxes"].shape == (0, 4)
    assert found[1, "pose"].shape == (0, 0, 5)
    assert found[1, "drawn"].shape == (64, 48, 3)


def test_a_stream_follows_a_person_and_each_stream_begins_anew(
    client: Client, files: dict[str, Path]
) -> None:
    video = [("holistic", files[f"moved{step}.npy"], 40_000 * step) for step in range(3)]
    first = client.ask(*video)
    assert not client.errors
    again = client.ask(*video)
    alone = client.ask(("holistic", files["moved2.npy"], None))
    assert set(first) == set(again)
    for key, value in first.items():
        assert np.array_equal(value, again[key]), key
    # Landmarks are smoothed over time, so a frame of the stream differs from the same image alone.
    assert not np.array_equal(first[80_000, "pose"], alone[0, "pose"])


def test_a_bad_frame_of_a_stream_is_refused_and_the_stream_goes_on(
    client: Client, files: dict[str, Path]
) -> None:
    found = client.ask(
        ("holistic", files["moved0.npy"], 0),
        ("holistic", files["half.png"], 40_000),
        ("holistic", files["moved1.npy"], 0),
        ("holistic", files["moved2.npy"], 80_000),
    )
    assert len(client.errors) == 2
    assert {place for place, _ in found} == {0, 80_000}


def test_a_truncated_image_is_refused_and_the_next_is_answered(
    client: Client, files: dict[str, Path]
) -> None:
    found = client.ask(("faces", files["half.png"], None), ("faces", files["astronaut.png"], None))
    (error,) = client.errors
    assert "image" in error
    assert str(files["half.png"].parent) not in error
    assert len(found[1, "boxes"]) == 1
