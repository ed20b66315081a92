"""From a detector's tensors to detections, in MediaPipe's and in OpenVINO's calculators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from graph_runtime import Code, GraphError
from protos.pool import message_class
from tests.calculators.images.image.runs import box_of, floats, node, run

NEW, OLD = "TensorsToDetectionsCalculator", "OpenVINOTensorsToDetectionsCalculator"
BOTH = pytest.mark.parametrize("name", [NEW, OLD])
SCALES = "x_scale: 10 y_scale: 10 w_scale: 5 h_scale: 5"
#: Two boxes of two classes.
TWO = f"num_classes: 2 num_boxes: 2 num_coords: 4 {SCALES}"
Tensors = list[npt.NDArray[Any]]


def anchor(x: float, y: float, width: float, height: float) -> Any:
    kind: Any = message_class("mediapipe.Anchor")
    return kind(x_center=x, y_center=y, w=width, h=height)


ANCHORS = [anchor(0.25, 0.5, 0.2, 0.4), anchor(0.75, 0.5, 0.2, 0.4)]


def detect(
    name: str, options: str, tensors: Tensors, anchors: list[Any] | None = None, **sides: Any
) -> list[Any]:
    ports = ['input_stream: "TENSORS:in"', 'output_stream: "DETECTIONS:out"']
    if anchors is not None:
        sides["ANCHORS"] = anchors
    ports += [f'input_side_packet: "{tag}:{tag.lower()}"' for tag in sides]
    packets = {tag.lower(): value for tag, value in sides.items()}
    found: list[Any] = run(node(name, options, *ports), {"in": tensors}, side_packets=packets)[
        "out"
    ][0]
    return found


def raw(scores: npt.NDArray[np.float32], *boxes: float) -> Tensors:
    return [floats(*(boxes or (0,) * 8), shape=(1, 2, 4)), scores.reshape(1, 2, 2)]


@BOTH
def test_raw_boxes_move_and_stretch_their_anchors(name: str) -> None:
    tensors = raw(floats(0.1, 0.9, 0.8, 0.3), 5, -5, 0, 5, 0, 0, 0, 0)
    options = f"{TWO} apply_exponential_on_box_size: true"
    first, second = detect(name, options, tensors, ANCHORS)
    width = 0.2 * math.e
    # y: 0.5 + 5 / 10 * 0.4; x: 0.25 - 5 / 10 * 0.2
    assert box_of(first) == pytest.approx([0.15 - width / 2, 0.5, width, 0.4])
    assert (list(first.label_id), list(first.score)) == ([1], [pytest.approx(0.9)])
    assert box_of(second) == pytest.approx([0.65, 0.3, 0.2, 0.4])
    assert list(second.label_id) == [0]


@BOTH
def test_sizes_may_be_linear(name: str) -> None:
    tensors = raw(floats(0.1, 0.9, 0.8, 0.3), 0, 0, 5, 10, 0, 0, 5, 5)
    first, _ = detect(name, TWO, tensors, ANCHORS)
    assert box_of(first) == pytest.approx([0.25 - 0.2, 0.5 - 0.2, 0.4, 0.4])


@BOTH
def test_the_order_of_coordinates_may_be_reversed(name: str) -> None:
    tensors = raw(floats(0.1, 0.9, 0.8, 0.3), -5, 5, 10, 5, 0, 0, 5, 5)
    first, _ = detect(name, f"{TWO} reverse_output_order: true", tensors, ANCHORS)
    assert box_of(first) == pytest.approx([0.15 - 0.2, 0.7 - 0.2, 0.4, 0.4])


def test_boxes_may_be_given_by_their_corners() -> None:
    # From the anchor's centre: left 0.2, up 0.3, right 0.4, down 0.1, in units of the scales.
    tensors = raw(floats(0.1, 0.9, 0.8, 0.3), 2, 3, 4, 1, 0, 0, 5, 5)
    options = (
        "num_classes: 2 num_boxes: 2 num_coords: 4 box_format: XYXY "
        "x_scale: 10 y_scale: 10 w_scale: 10 h_scale: 10"
    )
    first, _ = detect(NEW, options, tensors, [anchor(0, 0, 1, 1)] * 2)
    assert box_of(first) == pytest.approx([-0.2, -0.3, 0.6, 0.4])


@BOTH
def test_scores_become_probabilities(name: str) -> None:
    tensors = raw(floats(0, 2, -200, -300))
    options = f"{TWO} sigmoid_score: true apply_exponential_on_box_size: true"
    first, second = detect(name, options, tensors, ANCHORS)
    assert first.score[0] == pytest.approx(1 / (1 + math.exp(-2)))
    assert second.score[0] == 0
    first, second = detect(name, f"{options} score_clipping_thresh: 1", tensors, ANCHORS)
    assert first.score[0] == pytest.approx(1 / (1 + math.exp(-1)))
    assert second.score[0] == pytest.approx(1 / (1 + math.exp(1)))


@BOTH
def test_results_below_the_threshold_are_left_out(name: str) -> None:
    tensors = raw(floats(0.1, 0.9, 0.8, 0.3))
    (found,) = detect(name, f"{TWO} min_score_thresh: 0.85", tensors, ANCHORS)
    assert list(found.label_id) == [1]
    labels = [
        each.label_id[0] for each in detect(name, f"{TWO} ignore_classes: 0", tensors, ANCHORS)
    ]
    assert labels == [1, 1]


def test_classes_and_results_can_be_limited() -> None:
    tensors = raw(floats(0.1, 0.9, 0.8, 0.3))
    options = f"{TWO} allow_classes: 0"
    assert [each.label_id[0] for each in detect(NEW, options, tensors, ANCHORS)] == [0, 0]
    (found,) = detect(NEW, f"{TWO} max_results: 1", tensors, ANCHORS)
    assert found.score[0] == pytest.approx(0.9)
    first, _ = detect(NEW, TWO, tensors, ANCHORS, IGNORE_CLASSES=[1])
    assert list(first.label_id) == [0]


@BOTH
def test_keypoints_come_with_the_boxes(name: str) -> None:
    options = (
        "num_classes: 1 num_boxes: 1 num_coords: 8 num_keypoints: 2 keypoint_coord_offset: 4 "
        f"{SCALES}"
    )
    tensors = [floats(0, 0, 5, 5, 5, -5, 0, 0, shape=(1, 1, 8)), floats(0.5, shape=(1, 1, 1))]
    (found,) = detect(name, options, tensors, ANCHORS[:1])
    points = [(point.x, point.y) for point in found.location_data.relative_keypoints]
    assert points == [pytest.approx((0.15, 0.7)), pytest.approx((0.25, 0.5))]
    (found,) = detect(name, f"{options} flip_vertically: true", tensors, ANCHORS[:1])
    points = [(point.x, point.y) for point in found.location_data.relative_keypoints]
    assert points == [pytest.approx((0.15, 0.3)), pytest.approx((0.25, 0.5))]


@BOTH
def test_anchors_may_be_a_tensor(name: str) -> None:
    tensors = [*raw(floats(0.1, 0.9, 0.8, 0.3)), floats(*[0.5, 0.5, 0.2, 0.2] * 2, shape=(2, 4))]
    first, _ = detect(name, f"{TWO} apply_exponential_on_box_size: true", tensors)
    assert box_of(first) == pytest.approx([0.4, 0.4, 0.2, 0.2])


@BOTH
def test_decoded_boxes_are_used_as_they_are(name: str) -> None:
    tensors = [
        floats(*[0.1, 0.2, 0.5, 0.8], *[0.3, 0.3, 0.4, 0.4], *[9] * 4, shape=(1, 3, 4)),
        floats(1, 0, 0, shape=(1, 3)),
        floats(0.7, 0.6, 0.5, shape=(1, 3)),
        floats(2),
    ]
    options = "num_classes: 2 num_boxes: 3 num_coords: 4"
    first, second = detect(name, options, tensors)
    assert box_of(first) == pytest.approx([0.2, 0.1, 0.6, 0.4])
    assert (first.label_id[0], first.score[0]) == (1, pytest.approx(0.7))
    assert second.label_id[0] == 0
    flipped, _ = detect(name, f"{options} flip_vertically: true", tensors)
    assert box_of(flipped) == pytest.approx([0.2, 0.5, 0.6, 0.4])


def test_decoded_boxes_may_have_the_models_own_order() -> None:
    tensors = [
        floats(2),
        floats(0.7, 0.6, 0.5, 0.4, shape=(1, 4)),
        floats(1, 0, 2, 3, shape=(1, 4)),
        floats(*[0.2, 0.1, 0.8, 0.5] * 2, *[0, 0, 1, 1] * 2, shape=(1, 4, 4)),
    ]
    options = (
        "num_classes: 4 num_coords: 4 max_classes_per_detection: 2 min_score_thresh: 0.45 "
        "tensor_mapping { num_detections_tensor_index: 0 scores_tensor_index: 1 "
        "classes_tensor_index: 2 detections_tensor_index: 3 } "
        "box_boundaries_indices { xmin: 0 ymin: 1 xmax: 2 ymax: 3 }"
    )
    first, second = detect(NEW, options, tensors)
    assert box_of(first) == pytest.approx([0.2, 0.1, 0.6, 0.4])
    assert list(first.label_id) == [1, 0]
    assert list(second.label_id) == [2]


@BOTH
def test_boxes_inside_out_are_left_out(name: str) -> None:
    tensors = raw(floats(0.1, 0.9, 0.8, 0.3), 0, 0, -5, 5, 0, 0, 5, 5)
    (found,) = detect(name, TWO, tensors, ANCHORS)
    assert list(found.label_id) == [0]


@BOTH
@pytest.mark.parametrize(
    ("tensors", "text"),
    [
        ([floats(1)], "a detector has 2 tensors, .* there are 1"),
        (
            raw(floats(1, 2, 3, 4))[::-1],
            r"boxes has the shape \(1, 2, 2\); \(1, 2, 4\) is expected",
        ),
        (
            [floats(*[0] * 8, shape=(1, 2, 4)), floats(*[0] * 6, shape=(1, 2, 3))],
            r"scores has the shape \(1, 2, 3\); \(1, 2, 2\) is expected",
        ),
        (
            [np.zeros((1, 2, 4), np.float16), floats(*[0] * 4, shape=(1, 2, 2))],
            "the boxes, has elements of type float16; float32 is expected",
        ),
        (
            [
                floats(*[0] * 8, shape=(1, 2, 4)),
                floats(0, 0, shape=(1, 2)),
                floats(0, 0, shape=(1, 2)),
                floats(3),
            ],
            "the model says that it found 3 boxes; its tensors have 2",
        ),
        (
            [
                floats(*[0] * 8, shape=(1, 2, 4)),
                floats(0, 0, shape=(1, 2)),
                floats(0, 0, shape=(1, 2)),
                floats(math.nan),
            ],
            "the model says that it found nan boxes",
        ),
    ],
    ids=range(6),
)
def test_tensors_that_do_not_match_are_refused(name: str, tensors: Tensors, text: str) -> None:
    with pytest.raises(GraphError, match=text) as caught:
        detect(name, TWO, tensors, ANCHORS)
    assert caught.value.code is Code.INVALID_ARGUMENT


@BOTH
def test_missing_anchors_or_scales_are_refused(name: str) -> None:
    tensors = raw(floats(0.1, 0.9, 0.8, 0.3))
    with pytest.raises(GraphError, match="there are no anchors") as caught:
        detect(name, TWO, tensors)
    assert caught.value.code is Code.UNAVAILABLE
    with pytest.raises(GraphError, match="2 boxes need as many anchors; there are 1"):
        detect(name, TWO, tensors, ANCHORS[:1])
    with pytest.raises(GraphError, match="raw boxes need x_scale, y_scale, w_scale and h_scale"):
        detect(name, "num_classes: 2 num_boxes: 2 num_coords: 4", tensors, ANCHORS)


@BOTH
@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("num_coords: 4", "num_classes is required"),
        ("num_classes: 1", "num_coords is required"),
        (
            "num_classes: 1 num_coords: 5",
            "num_coords is 4 and 2 for each of num_keypoints, 4, not 5",
        ),
        ("num_classes: 1 num_coords: 4 num_values_per_keypoint: 3", "can only be 2, not 3"),
        (
            "num_classes: 1 num_coords: 4 box_coord_offset: 1",
            "box_coord_offset is 1; it has to leave",
        ),
        ("num_classes: 1 num_coords: 4 keypoint_coord_offset: -1", "keypoint_coord_offset is -1"),
    ],
)
def test_impossible_options_are_refused(name: str, options: str, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        detect(name, options, [])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("ignore_classes: 0 allow_classes: 1", "allow_classes excludes ignore_classes"),
        ("max_results: 0", "max_results is above 0, or -1 for all"),
        ("max_classes_per_detection: 0", "max_classes_per_detection is at least 1"),
        ("box_boundaries_indices { ymin: 1 }", "are 0, 1, 2 and 3, each once"),
        ("tensor_mapping { scores_tensor_index: 1 }", "needs detections_tensor_index and scores"),
        (
            "tensor_mapping { scores_tensor_index: 1 detections_tensor_index: 1 }",
            "its 2 indices are 0 to 1, each once",
        ),
    ],
)
def test_further_impossible_options_are_refused(options: str, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        detect(NEW, f"{TWO} {options}", [])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("num_layers: 2 strides: 8", "2 layers need as many strides; there are 1"),
        ("num_layers: 1 strides: 0", "strides are numbers of pixels above 0"),
        ("num_layers: 1 strides: 8 aspect_ratios: 0", "aspect_ratios are width to height, above 0"),
        ("num_layers: 1 feature_map_height: 2", "there are 1 and 0"),
        (
            "num_layers: 1 strides: 1 input_size_width: 2000 input_size_height: 2000",
            "4000000 cells; at most 1000000 are possible",
        ),
        (
            "num_layers: 1 fixed_anchors { x_center: 0 y_center: 0 h: 1 w: 1 }",
            "fixed_anchors exclude num_layers",
        ),
    ],
)
def test_impossible_options_of_anchors_are_refused(options: str, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        run(node("SsdAnchorsCalculator", options, 'output_side_packet: "anchors"'), {}, "")
