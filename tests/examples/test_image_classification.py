"""`examples/graphs/image_classification`, served: an image in, names of classes out."""

from __future__ import annotations

import http.client
import json
import runpy
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import openvino
import pytest

from calculators.images.image.encoded_image import encode_image
from calculators.images.image.image_frame import ImageFormat, ImageFrame
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.support.checkout import ROOT

FOLDER = "examples/graphs/image_classification"
INFER = "/v2/models/image_classification/infer"


def classes(answer: Any) -> list[tuple[str, float]]:
    outputs = {each["name"]: each["data"] for each in answer["outputs"]}
    return list(zip(outputs["labels"], outputs["scores"], strict=True))


def test_the_command_of_the_comment_works(server: Serving) -> None:
    comment = (ROOT / FOLDER / "graph.pbtxt").read_text(encoding="utf-8")
    assert f"#   graphrt serve {FOLDER}\n" in comment
    body = json.loads(comment.replace("\n# ", "\n").partition("-d '")[2].partition("'")[0])
    with server.request("POST", INFER, body) as response:
        answer = json.loads(response.read())
    assert response.status == 200
    first, second, third = classes(answer)
    assert first[0] == "red"
    assert first[1] > 0.9
    assert second[1] >= third[1]


def test_an_encoded_image_is_sent_after_the_json(server: Serving) -> None:
    pixels = np.zeros((40, 60, 3), np.uint8)
    pixels[:, :40], pixels[:, 40:] = (250, 240, 20), (20, 40, 235)
    content = encode_image(ImageFrame(ImageFormat.SRGB, pixels), quality=95)
    data = len(content).to_bytes(4, "little") + content
    tensor = {
        "name": "image",
        "datatype": "BYTES",
        "shape": [1],
        "parameters": {"binary_data_size": len(data)},
    }
    head = json.dumps({"inputs": [tensor]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    with closing(http.client.HTTPConnection("127.0.0.1", server.port)) as connection:
        connection.request("POST", INFER, head + data, headers)
        answer = json.loads(connection.getresponse().read())
    (first, second, _) = classes(answer)
    assert (first[0], second[0]) == ("yellow", "blue")
    assert first[1] == pytest.approx(2 / 3, abs=0.05)
    assert second[1] == pytest.approx(1 / 3, abs=0.05)


def test_data_that_is_not_an_image_is_refused(server: Serving) -> None:
    image = {"name": "image", "datatype": "BYTES", "shape": [1], "data": ["no image"]}
    with server.request("POST", INFER, {"inputs": [image]}) as response:
        answer = json.loads(response.read())
    assert response.status == 400
    assert "a JPEG or PNG is expected" in answer["error"]


def test_the_graph_is_valid() -> None:
    done = graphrt("validate", f"{FOLDER}/graph.pbtxt", f"{FOLDER}/config.json", cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_script_makes_the_stored_model(tmp_path: Path) -> None:
    facts = runpy.run_path(str(ROOT / FOLDER / "make_model.py"))
    facts["main"](tmp_path)
    image = np.random.default_rng(3).random((1, 32, 32, 3), np.float32)
    made, there = (
        openvino.Core().compile_model(folder / "colours" / "1" / "colours.xml", "CPU")(image)[0]
        for folder in (tmp_path, ROOT / FOLDER / "models")
    )
    assert np.array_equal(made, there)
    assert made.sum() == pytest.approx(1)
    labels = (ROOT / FOLDER / "labels.txt").read_text(encoding="utf-8").splitlines()
    assert labels == list(facts["COLOURS"])
