"""`examples/graphs/object_detection`: images in, boxes out, on the model of `examples/models`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from calculators.images.image.encoded_image import encode_image
from calculators.images.image.image_frame import ImageFormat, ImageFrame
from calculators.kit.requests.http_payload import RequestError
from calculators.tensors.inference import InferRequest, Tensor
from examples.models.shapes_training.anchors import anchors, iou
from examples.models.shapes_training.pictures import LABELS, Picture, picture
from examples.models.shapes_training.scorecard import check
from graph_runtime import GraphError
from protos.pool import message_class
from servers.config import read_config
from servers.serving.model_repository import ModelRepository
from tests.calculators.images.image.runs import run
from tests.servers.cli.process import graphrt
from tests.servers.cli.serving import Serving
from tests.servers.serving.asking import infer
from tests.servers.serving.models.model_folders import registry
from tests.support.checkout import ROOT

FOLDER = "examples/graphs/object_detection"
GRAPH = ROOT / FOLDER / "graph.pbtxt"
MODEL = ROOT / "examples" / "models" / "shapes"

Outputs = dict[str, npt.NDArray[Any]]


def ask(*questions: Tensor) -> list[Outputs | Exception]:
    """Return the graph's answers to each image, by the outputs' names."""

    async def answers() -> list[Outputs | Exception]:
        config = read_config(ROOT / FOLDER / "config.json")
        repository = ModelRepository(config.graphs, registry(), None, config.models)
        await repository.load_all()
        found: list[Outputs | Exception] = []
        try:
            for tensor in questions:
                request = InferRequest("object_detection", inputs=(tensor,))
                try:
                    response = await infer(repository, request)
                except GraphError as error:
                    found.append(error)
                else:
                    found.append({each.name: np.asarray(each.data) for each in response.outputs})
            return found
        finally:
            await repository.close()

    return asyncio.run(answers())


def pixels(given: Picture) -> Tensor:
    return Tensor.of("image", given.pixels)


def jpeg(given: Picture) -> Tensor:
    element = np.empty(1, object)
    element[0] = encode_image(ImageFrame(ImageFormat.SRGB, given.pixels), quality=92)
    return Tensor.of("image", element)


def assert_finds(outputs: Outputs | Exception, given: Picture) -> None:
    """Check that each shape is found once, at its place, and nothing else is."""
    assert isinstance(outputs, dict)
    truths = np.array([truth[1:] for truth in given.truths], np.float32)
    overlap = iou(outputs["boxes"], truths)
    assert overlap.shape == (len(truths), len(truths))
    order = overlap.argmax(axis=1)
    assert sorted(order) == list(range(len(truths)))
    assert overlap.max(axis=1).min() > 0.7
    labels = [LABELS[given.truths[index].label].encode() for index in order]
    assert outputs["labels"].tolist() == labels
    assert (outputs["scores"] > 0.5).all()


@pytest.mark.parametrize("sent", [pixels, jpeg])
@pytest.mark.parametrize("size", [(96, 96), (120, 100)])
def test_shapes_are_found_where_they_are(
    size: tuple[int, int], sent: Callable[[Picture], Tensor]
) -> None:
    rng = np.random.default_rng(4)
    given = [picture(rng, *size) for _ in range(4)]
    for outputs, each in zip(ask(*map(sent, given)), given, strict=True):
        assert_finds(outputs, each)


def test_boxes_are_drawn_on_the_image() -> None:
    given = picture(np.random.default_rng(4))
    (outputs,) = ask(pixels(given))
    assert isinstance(outputs, dict)
    annotated = outputs["annotated"]
    assert annotated.shape == given.pixels.shape
    ymin, xmin, ymax, _ = np.round(outputs["boxes"][0] * 96).astype(int)
    side = annotated[ymin + 12 : ymax - 1, max(xmin, 0)]
    assert (side == [255, 0, 0]).all()


def test_an_image_without_shapes_has_no_detections() -> None:
    (outputs,) = ask(Tensor.of("image", np.full((50, 80, 3), 128, np.uint8)))
    assert isinstance(outputs, dict)
    assert outputs["boxes"].shape == (0, 4)
    assert outputs["labels"].shape == (0,)
    assert (outputs["annotated"] == 128).all()


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array([b"no image"], object), "a JPEG or PNG is expected"),
        (np.zeros((5, 5), np.uint8), "an image has 3 dimensions"),
        (np.zeros((0, 5, 3), np.uint8), "an image has at least one pixel"),
        (np.zeros((5, 5, 3), np.float64), "no image has elements of type float64"),
        (np.zeros((1, 1000, 3), np.uint8), "nothing would be left of its shorter side"),
    ],
    ids=range(5),
)
def test_data_that_is_not_an_image_is_refused_and_the_next_one_answered(
    array: npt.NDArray[Any], text: str
) -> None:
    given = picture(np.random.default_rng(4))
    error, outputs = ask(Tensor.of("image", array), pixels(given))
    assert isinstance(error, GraphError)
    assert text in str(error)
    assert_finds(outputs, given)
    if array.ndim != 3 or array.shape[0] != 1:
        assert isinstance(error, RequestError)


def test_the_model_passes_its_own_check(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(MODEL)
    table = capsys.readouterr().out
    assert table.strip() in (MODEL / "README.md").read_text(encoding="utf-8")


def test_the_model_was_trained_with_the_anchors_of_the_graph() -> None:
    text = GRAPH.read_text(encoding="utf-8")
    options = text.partition("SsdAnchorsCalculatorOptions] {")[2].partition("}")[0]
    watched = """
    node { calculator: "SidePacketToStreamCalculator" input_stream: "TICK:in"
      input_side_packet: "anchors" output_stream: "AT_TICK:out" }
    """
    node = (
        'node { calculator: "SsdAnchorsCalculator" output_side_packet: "anchors" node_options { '
        f"[type.googleapis.com/mediapipe.SsdAnchorsCalculatorOptions] {{ {options} }} }} }}"
    )
    (found,) = run(node + watched, {"in": 1})["out"]
    kind = message_class("mediapipe.Anchor")
    assert all(isinstance(each, kind) for each in found)
    rows = [(each.y_center, each.x_center, each.h, each.w) for each in found]
    assert np.allclose(np.array(rows), anchors(), atol=1e-6)


def test_the_labels_of_the_graph_are_the_models() -> None:
    labels = (MODEL / "labels.txt").read_text(encoding="utf-8").splitlines()
    assert labels == list(LABELS)


def test_the_graph_is_valid() -> None:
    done = graphrt("validate", f"{FOLDER}/graph.pbtxt", f"{FOLDER}/config.json", cwd=ROOT)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_of_the_comment_serves_the_graph(server: Serving) -> None:
    assert f"#   graphrt serve {FOLDER}\n" in GRAPH.read_text(encoding="utf-8")
    given = picture(np.random.default_rng(4))
    image = {
        "name": "image",
        "datatype": "UINT8",
        "shape": list(given.pixels.shape),
        "data": given.pixels.ravel().tolist(),
    }
    body = {"inputs": [image], "outputs": [{"name": "labels"}]}
    with server.request("POST", "/v2/models/object_detection/infer", body) as response:
        answer = json.loads(response.read())
    assert response.status == 200
    (output,) = answer["outputs"]
    assert (output["name"], output["datatype"]) == ("labels", "BYTES")
    assert sorted(output["data"]) == sorted(LABELS[truth.label] for truth in given.truths)


def test_metadata_describe_the_outputs() -> None:
    async def metadata() -> dict[str, tuple[str, tuple[int, ...]]]:
        config = read_config(ROOT / FOLDER / "config.json")
        repository = ModelRepository(config.graphs, registry(), None, config.models)
        await repository.load_all()
        try:
            outputs = (await repository.metadata("object_detection")).outputs
            return {each.name: (each.datatype, each.shape) for each in outputs}
        finally:
            await repository.close()

    assert asyncio.run(metadata()) == {
        "annotated": ("UINT8", (-1, -1, -1)),
        "boxes": ("FP32", (-1, -1)),
        "scores": ("FP32", (-1,)),
        "labels": ("BYTES", (-1,)),
    }
