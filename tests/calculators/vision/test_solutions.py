"""MediaPipe's solutions on one picture, by MediaPipe's models."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.mediapipe_agreement import CLASSES, Agreement, compare
from bench.mediapipe_oracle import lines, picture, registry
from calculators.vision import (
    FaceDetection,
    FaceMesh,
    Holistic,
    Pose,
    SelfieSegmentation,
    drawn,
)
from calculators.vision.landmarks.landmarks import Landmarks
from graph_runtime import CalculatorGraph
from tests.calculators.vision.solutions import needs_models

STILLS = [case for case in lines("stills.jsonl") if case["picture"] == "astronaut"]
pytestmark = [
    needs_models,
    pytest.mark.skipif(not STILLS, reason="the pictures that MediaPipe has seen are not here"),
]


@pytest.mark.parametrize("case", STILLS, ids=lambda case: case["solution"])
def test_a_picture_gives_what_mediapipe_gives(case: Any) -> None:
    agreement = Agreement()
    with CLASSES[case["solution"]](**case["arguments"]) as solution:
        compare(agreement, "", solution.process(picture("astronaut")), case["results"])
    assert not agreement.flips
    pixels = np.concatenate(agreement.pixels) if agreement.pixels else np.zeros(1)
    assert np.percentile(pixels, 99) < 1
    assert max(agreement.scores, default=0) < 0.02
    assert min(agreement.overlaps, default=1) > 0.98


def test_landmarks_read_as_in_mediapipe_and_as_an_array() -> None:
    with Pose(static_image_mode=True) as pose:
        found = pose.process(picture("astronaut")).pose_landmarks
    assert found is not None
    assert found.landmark[0].x == found.values[0, 0]
    assert found.to_message().landmark[0].visibility == found.values[0, 3]
    assert Landmarks.of_message(found.to_message()) == found


def test_a_face_is_followed_without_the_detector() -> None:
    image = picture("astronaut")
    with FaceMesh() as mesh:
        assert mesh.process(image).detections is not None
        assert mesh.process(image).detections is None
        mesh.reset()
        assert mesh.process(image).detections is not None


def test_nothing_in_a_black_picture_is_none() -> None:
    black = np.zeros((48, 64, 3), np.uint8)
    with Holistic() as holistic:
        assert all(each is None for each in holistic.process(black))


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (np.zeros((0, 0, 3), np.uint8), "at least one pixel"),
        (np.zeros((4, 4), np.uint8), "(height, width, 3)"),
        (np.zeros((4, 4, 4), np.uint8), "(height, width, 3)"),
        (np.zeros((4, 4, 3), np.uint16), "uint8"),
    ],
    ids=["empty", "gray", "alpha", "16 bits"],
)
def test_after_a_bad_image_the_next_is_answered(image: Any, said: str) -> None:
    good = picture("astronaut")
    with SelfieSegmentation() as segmentation:
        first = segmentation.process(good).segmentation_mask
        with pytest.raises((TypeError, ValueError)) as caught:
            segmentation.process(image)
        assert said in str(caught.value)
        again = segmentation.process(good).segmentation_mask
    assert first is not None
    assert again is not None
    assert np.array_equal(first, again)


def test_timestamps_that_go_back_are_refused_and_the_next_is_answered() -> None:
    image = picture("astronaut")
    with FaceDetection() as faces:
        faces.process(image, 1000)
        with pytest.raises(ValueError, match="timestamps must rise"):
            faces.process(image, 500)
        assert faces.process(image, 2000).detections


def test_frames_may_change_their_size_while_a_mask_is_smoothed() -> None:
    image = picture("astronaut")
    with Pose(enable_segmentation=True, follows_graph=True) as pose:
        pose.process(image)
        mask = pose.process(np.ascontiguousarray(image[:400])).segmentation_mask
    assert mask is not None
    assert mask.shape == (400, 512)


def test_a_drawn_result_differs_from_the_image_where_the_face_is() -> None:
    image = picture("astronaut")
    with FaceDetection() as faces:
        result = faces.process(image)
    canvas = drawn(image, result)
    assert canvas.shape == image.shape
    changed = np.argwhere((canvas != image).any(axis=2))
    assert len(changed)
    assert changed.min() > 50


@pytest.mark.parametrize(
    "make", [SelfieSegmentation, FaceMesh, Holistic], ids=["stateless", "tracking", "branches"]
)
def test_images_at_once_give_the_results_of_one_after_the_other(make: Any) -> None:
    images = [np.roll(picture("astronaut"), 20 * step, axis=1) for step in range(6)]
    with make() as one_by_one, make() as at_once:
        wanted = [one_by_one.process(image) for image in images]
        found = list(at_once.process_all(iter(images)))
    for each, other in zip(wanted, found, strict=True):
        assert [str(value) for value in each] == [str(value) for value in other]


def test_a_bad_image_among_many_ends_the_iterator_and_not_the_solution() -> None:
    good = picture("astronaut")
    with FaceDetection() as faces:
        results = faces.process_all([good, np.zeros((0, 3, 3), np.uint8), good])
        assert next(results).detections
        with pytest.raises(ValueError, match="at least one pixel"):
            next(results)
        assert [len(each.detections or []) for each in faces.process_all([good])] == [1]


def test_after_a_bad_image_among_those_in_the_graph_the_next_is_answered() -> None:
    good = picture("astronaut")
    with Holistic() as holistic:
        results = holistic.process_all([good, np.zeros((0, 3, 3), np.uint8), good])
        assert next(results).pose_landmarks is not None
        with pytest.raises(ValueError, match="at least one pixel"):
            next(results)
        # The reader may also leave before the end.
        assert next(holistic.process_all([good] * 4)).face_landmarks is not None
        assert holistic.process(good).face_landmarks is not None


def test_an_output_that_nobody_needs_is_empty_and_the_others_stay() -> None:
    model = "mediapipe/modules/pose_landmark/pose_landmark_full.tflite"
    text = f"""
        input_stream: "in" input_side_packet: "wants_mask"
        node {{ calculator: "InferenceCalculator" input_stream: "TENSORS:in"
                output_stream: "TENSORS:out" input_side_packet: "OUTPUT_2:wants_mask"
                options {{ [mediapipe.InferenceCalculatorOptions.ext] {{
                    model_path: "{model}" }} }} }}"""
    tensor = np.linspace(0, 1, 256 * 256 * 3, dtype=np.float32).reshape(1, 256, 256, 3)
    found = []
    for wants_mask in (True, False):
        graph = CalculatorGraph(text_config=text, registry=registry())
        graph.observe_output_stream("out", lambda _, packet: found.append(packet.value))
        graph.start_run({"wants_mask": wants_mask})
        graph.add_packet_to_input_stream("in", [tensor], 1)
        graph.close()
    whole, part = found
    assert whole[2].shape == (1, 256, 256, 1)
    assert part[2].size == 0
    for place in (0, 1, 3, 4):
        assert np.abs(whole[place] - part[place]).max() < 1e-4 * np.abs(whole[place]).max()


@pytest.mark.parametrize("solution", [FaceMesh, Holistic, Pose])
def test_a_static_image_has_the_same_result_every_time(solution: Any) -> None:
    image = picture("astronaut")
    with solution(static_image_mode=True) as made:
        first, *others = [_points(made.process(image)) for _ in range(3)]
        others += [_points(each) for each in made.process_all([image] * 4)]
    assert first
    assert others == [first] * len(others)


def _points(found: Any) -> dict[str, Any]:
    """Return the coordinates of all landmarks of a result."""
    points: dict[str, Any] = {}
    for name, value in found._asdict().items():
        sets = value if isinstance(value, list | tuple) else [value]
        for number, each in enumerate(sets):
            if isinstance(each, Landmarks):
                points[f"{name}{number}"] = each.values.tolist()
    return points
