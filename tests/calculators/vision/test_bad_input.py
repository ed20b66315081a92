"""Images, tensors and graphs that are wrong: a clear answer, and the next frame is answered."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.mediapipe_oracle import picture
from calculators.images.image.encoded_image import decode_image, encode_image
from calculators.images.image.image_frame import ImageError, ImageFormat, ImageFrame
from calculators.vision import FaceDetection, FaceMesh, Hands, Holistic, Pose, SelfieSegmentation
from calculators.vision.landmarks.landmarks import landmarks
from graph_runtime import GraphError, RunError
from tests.calculators.vision.solutions import needs_models
from tests.calculators.vision.test_calculators import run, streams

MAKERS: list[Callable[[], Any]] = [
    FaceDetection,
    FaceMesh,
    Hands,
    Pose,
    SelfieSegmentation,
    Holistic,
]
pytestmark = pytest.mark.usefixtures("in_process_engine")


@needs_models
@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_pictures_of_odd_sizes_and_steps_are_answered(make: Any) -> None:
    image = picture("astronaut")
    with make() as solution:
        for odd in (
            np.zeros((1, 1, 3), np.uint8),
            np.zeros((1, 2000, 3), np.uint8),
            np.full((2000, 1, 3), 255, np.uint8),
            image[::2, ::3],
            image[:, ::-1],
            np.asfortranarray(image),
        ):
            solution.process(odd)
        solution.reset()
        assert solution.process(image)[0] is not None or make is Hands


@needs_models
@pytest.mark.parametrize(
    ("image", "said"),
    [
        (np.broadcast_to(np.uint8(0), (20_000, 6_000, 3)), "at most 100000000 pixels"),
        (np.zeros((2, 40_000, 3), np.uint8), "at most 32766"),
        (np.zeros((4, 4, 1), np.uint8), "(height, width, 3)"),
        (np.zeros((4, 4, 3), np.float32), "uint8"),
        ([[0, 0, 0]], "NumPy array"),
        (None, "NumPy array"),
    ],
    ids=["120 megapixels", "too wide", "gray", "floats", "a list", "none"],
)
def test_pictures_that_no_graph_takes_are_refused(image: Any, said: str) -> None:
    with FaceDetection() as faces:
        with pytest.raises((TypeError, ValueError, ImageError)) as caught:
            faces.process(image)
        assert said in str(caught.value)
        assert faces.process(picture("astronaut")).detections


@needs_models
def test_a_face_half_outside_the_picture_is_found_or_not_and_nothing_fails() -> None:
    image = picture("astronaut")
    halves = [image[:, 230:], image[:, :230], image[110:], image[:110]]
    with Holistic(refine_face_landmarks=True, enable_segmentation=True) as holistic:
        for half in halves:
            found = holistic.process(np.ascontiguousarray(half))
            if found.face_landmarks is not None:
                assert np.isfinite(found.face_landmarks.values).all()
        holistic.reset()
        assert holistic.process(image).face_landmarks is not None


def test_a_truncated_jpeg_is_an_error_that_says_so() -> None:
    frame = ImageFrame(ImageFormat.SRGB, picture("astronaut"))
    content = encode_image(frame, quality=90)
    for part in (b"", content[:100], content[: len(content) // 20]):
        with pytest.raises(ImageError):
            decode_image(part)


TENSORS_TO_DETECTIONS = """
input_side_packet: "a"
node {
  calculator: "TensorsToDetectionsCalculator"
  input_stream: "TENSORS:tensors"
  input_side_packet: "ANCHORS:a"
  output_stream: "DETECTIONS:found"
  options {
    [mediapipe.TensorsToDetectionsCalculatorOptions.ext] {
      num_classes: 1 num_boxes: 2 num_coords: 4 min_score_thresh: 0.5 sigmoid_score: true
      x_scale: 1 y_scale: 1 w_scale: 1 h_scale: 1
    }
  }
}
node {
  calculator: "NonMaxSuppressionCalculator"
  input_stream: "found"
  output_stream: "out"
  options {
    [mediapipe.NonMaxSuppressionCalculatorOptions.ext] {
      min_suppression_threshold: 0.3 algorithm: WEIGHTED return_empty_detections: true
    }
  }
}
"""


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf], ids=["nan", "inf", "-inf"])
def test_boxes_and_scores_that_are_no_numbers_are_left_out(number: float) -> None:
    from protos.pool import message_class

    anchor = message_class("mediapipe.Anchor")(x_center=0, y_center=0, w=1, h=1)
    good = [0.5, 0.5, 0.2, 0.2]
    boxes = np.array([[good, [number, 0.1, 0.2, number]]], np.float32)
    scores = np.array([[[3.0], [3.0]]], np.float32)
    sides = {"a": [anchor, anchor]}
    (found,) = run(TENSORS_TO_DETECTIONS, {"tensors": [boxes, scores]}, sides=sides)
    assert len(found) >= 1
    scores = np.array([[[np.nan], [3.0]]], np.float32)
    boxes = np.array([[good, good]], np.float32)
    (found,) = run(TENSORS_TO_DETECTIONS, {"tensors": [boxes, scores]}, sides=sides)
    assert [each.score[0] > 0.9 for each in found] == [True]


def test_landmarks_that_are_no_numbers_give_no_picture_and_the_next_frame_is_answered() -> None:
    text = (
        'node { calculator: "ImageToTensorCalculator" input_stream: "IMAGE:image" '
        'input_stream: "NORM_RECT:rect" output_stream: "TENSORS:out" options { '
        "[mediapipe.ImageToTensorCalculatorOptions.ext] { output_tensor_width: 4 "
        "output_tensor_height: 4 output_tensor_float_range { min: 0 max: 1 } } } }"
    )
    from calculators.vision.regions import normalized_rect

    image = ImageFrame(ImageFormat.SRGB, np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(RunError, match="finite numbers"):
        run(text, {"image": image, "rect": normalized_rect(np.nan, 0.5, 1, 1)})
    (tensors,) = run(text, {"image": image, "rect": normalized_rect(0.5, 0.5, 1, 1)})
    assert tensors[0].shape == (1, 4, 4, 3)


def test_a_tensor_of_another_size_than_the_options_say_is_refused() -> None:
    text = (
        'node { calculator: "TensorsToLandmarksCalculator" '
        + " ".join(streams("TENSORS", "LANDMARKS:"))
        + " options { [mediapipe.TensorsToLandmarksCalculatorOptions.ext] "
        "{ num_landmarks: 4 } } }"
    )
    with pytest.raises((RunError, GraphError)):
        run(text, {"tensors": [np.zeros((1, 7), np.float32)]})
    (found,) = run(text, {"tensors": [np.full((1, 12), np.nan, np.float32)]})
    assert len(found) == 4
    assert landmarks([]).landmark == []


@pytest.mark.parametrize(
    ("make", "kind", "said"),
    [
        (lambda: FaceMesh(max_num_faces="2"), TypeError, "max_num_faces is an integer, not '2'"),  # type: ignore[arg-type]
        (lambda: Hands(max_num_hands=1.5), TypeError, "max_num_hands is an integer, not 1.5"),  # type: ignore[arg-type]
        (lambda: Pose(min_detection_confidence="high"), TypeError, "from 0 to 1, not 'high'"),  # type: ignore[arg-type]
        (lambda: Pose(min_detection_confidence=2), ValueError, "from 0 to 1, not 2"),
        (lambda: Pose(model_complexity="1"), ValueError, "one of 0, 1, 2, not '1'"),  # type: ignore[arg-type]
    ],
)
def test_arguments_of_a_wrong_type_are_named(make: Any, kind: Any, said: str) -> None:
    with pytest.raises(kind, match=said):
        make()


PARAMETERS = [
    pytest.param(solution, name, id=f"{solution.__qualname__} {name}")
    for solution in MAKERS
    for name in inspect.signature(solution).parameters
]


@pytest.mark.parametrize(("solution", "name"), PARAMETERS)
@pytest.mark.parametrize("value", ["1", "false", -1, 7.5, float("nan"), [], b"1", 2j])
def test_wrong_arguments_of_solutions_are_refused_by_name(
    solution: Any, name: str, value: Any
) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{name} is "):
        solution(**{name: value})
