"""Single calculators, by formulas, and their registration."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import calculators
from calculators.images.image.image_frame import ImageFormat, ImageFrame
from calculators.vision.landmarks.landmarks import Landmarks, landmarks
from calculators.vision.regions import normalized_rect
from calculators.vision.registration import CALCULATORS
from graph_runtime import (
    REGISTRY,
    Calculator,
    CalculatorGraph,
    GraphError,
    Packet,
    Registry,
    ValidationError,
    validate_graph,
)
from protos.pool import message_class
from tests.calculators.docstring_examples import example_graph
from tests.calculators.images.image.runs import detection, node

SIZE = (640, 480)


def registry() -> Registry:
    found = Registry(REGISTRY)
    calculators.register_all(found)
    return found


def run(text: str, *feeds: dict[str, Any], sides: dict[str, Any] | None = None) -> list[Any]:
    """Send one dict of packets per timestamp; return the values of the stream "out"."""
    names = sorted({name for feed in feeds for name in feed})
    streams = "".join(f'input_stream: "{name}"\n' for name in names)
    graph = CalculatorGraph(text_config=streams + text, registry=registry())
    seen: list[Any] = []
    graph.observe_output_stream("out", lambda _, packet: seen.append(packet.value))
    graph.start_run(sides or {})
    for place, feed in enumerate(feeds):
        for name, value in feed.items():
            graph.add_packet_to_input_stream(name, Packet(value, 33333 * (place + 1)))
    graph.close()
    return seen


def streams(inputs: str, output: str) -> list[str]:
    """Return the entries of a node whose streams have the names of their tags in lower case."""
    return [f'input_stream: "{tag}:{tag.lower()}"' for tag in inputs.split()] + [
        f'output_stream: "{output}out"'
    ]


@pytest.mark.parametrize("calculator", CALCULATORS, ids=lambda cls: cls.__name__)
def test_the_example_in_the_docstring_is_a_valid_node(calculator: type[Calculator]) -> None:
    assert validate_graph(example_graph(calculator), registry=registry()).nodes


def test_a_rectangle_is_moved_squared_and_scaled_in_pixels() -> None:
    text = node(
        "RectTransformationCalculator",
        "shift_y: -0.5 square_long: true scale_x: 2 scale_y: 2",
        *streams("NORM_RECT IMAGE_SIZE", ""),
    )
    rect = normalized_rect(0.5, 0.5, 0.2, 0.3, 0.0)
    (found,) = run(text, {"norm_rect": rect, "image_size": SIZE})
    assert found.y_center == pytest.approx(0.5 - 0.5 * 0.3)
    # 0.3 of 480 pixels is the longer side: 144.
    assert (found.width, found.height) == pytest.approx((2 * 144 / 640, 0.6))


def test_a_detection_becomes_a_rectangle_turned_by_its_keypoints() -> None:
    text = node(
        "DetectionsToRectsCalculator",
        "rotation_vector_start_keypoint_index: 0 rotation_vector_end_keypoint_index: 1 "
        "rotation_vector_target_angle_degrees: 0",
        *streams("DETECTION IMAGE_SIZE", "NORM_RECT:"),
    )
    face = detection((0.1, 0.2, 0.3, 0.4))
    for x, y in ((0.2, 0.5), (0.3, 0.5 + 0.1 * 640 / 480)):  # 45 degrees in pixels
        face.location_data.relative_keypoints.add(x=x, y=y)
    (found,) = run(text, {"detection": face, "image_size": SIZE})
    assert (found.x_center, found.y_center) == pytest.approx((0.25, 0.4))
    assert found.rotation == pytest.approx(math.pi / 4, abs=1e-6)


def test_landmarks_become_a_detection_and_back() -> None:
    text = (
        'node { calculator: "LandmarksToDetectionCalculator" input_stream: "NORM_LANDMARKS:in" '
        'output_stream: "DETECTION:out" }'
    )
    (found,) = run(text, {"in": landmarks([(0.1, 0.8, 0), (0.4, 0.2, 0)])})
    box = found.location_data.relative_bounding_box
    assert (box.xmin, box.ymin, box.width, box.height) == pytest.approx((0.1, 0.2, 0.3, 0.6))
    assert [p.y for p in found.location_data.relative_keypoints] == pytest.approx([0.8, 0.2])


def test_landmarks_of_a_region_are_moved_to_the_image() -> None:
    text = (
        'node { calculator: "LandmarkProjectionCalculator" input_stream: "NORM_LANDMARKS:in" '
        'input_stream: "NORM_RECT:roi" output_stream: "NORM_LANDMARKS:out" }'
    )
    roi = normalized_rect(0.5, 0.5, 0.2, 0.2, math.pi / 2)
    (found,) = run(text, {"in": landmarks([(1.0, 0.5, 1.0)]), "roi": roi})
    assert found.values[0, :3] == pytest.approx([0.5, 0.6, 0.2], abs=1e-6)


def test_a_heatmap_moves_a_landmark_to_its_centre_of_mass() -> None:
    text = node(
        "RefineLandmarksFromHeatmapCalculator",
        "kernel_size: 3",
        *streams("NORM_LANDMARKS TENSORS", "NORM_LANDMARKS:"),
    )
    heatmap = np.full((1, 8, 8, 2), -20, np.float32)
    heatmap[0, 4, 5, 0] = 20  # sure of a cell beside the first landmark, and of none for the second
    points = landmarks([(4.5 / 8, 4.5 / 8, 0.0), (0.1, 0.1, 0.0)])
    (found,) = run(text, {"norm_landmarks": points, "tensors": [heatmap]})
    assert found.values[:, :2].ravel().tolist() == pytest.approx([5 / 8, 4 / 8, 0.1, 0.1])


def test_landmarks_outside_the_heatmap_or_not_a_number_stay() -> None:
    text = node(
        "RefineLandmarksFromHeatmapCalculator",
        "kernel_size: 7",
        *streams("NORM_LANDMARKS TENSORS", "NORM_LANDMARKS:"),
    )
    heatmap = np.full((1, 8, 8, 2), 20, np.float32)
    points = landmarks([(math.nan, 0.5, 0.0), (1.5, -2.0, 0.0)])
    (found,) = run(text, {"norm_landmarks": points, "tensors": [heatmap]})
    assert np.array_equal(found.values, points.values, equal_nan=True)


def test_a_still_object_is_not_moved_by_smoothing_and_a_lost_one_begins_anew() -> None:
    text = node(
        "LandmarksSmoothingCalculator",
        "one_euro_filter { min_cutoff: 0.05 beta: 80 }",
        *streams("NORM_LANDMARKS IMAGE_SIZE", "NORM_FILTERED_LANDMARKS:"),
    )
    still = landmarks([(0.25, 0.25, 0.0), (0.5, 0.75, 0.0)])
    far = landmarks([(0.75, 0.75, 0.0), (0.5, 0.25, 0.0)])
    frame = {"image_size": SIZE}
    found = run(text, frame | {"norm_landmarks": still}, frame, frame | {"norm_landmarks": far})
    assert len(found) == 2
    assert np.allclose(found[0].values, still.values)
    assert np.allclose(found[1].values, far.values)


def test_a_later_rectangle_replaces_those_that_it_overlaps() -> None:
    text = node(
        "AssociationNormRectCalculator",
        "",
        'input_stream: "a" input_stream: "b"',
        'output_stream: "out"',
    ).replace("AssociationNormRectCalculatorOptions", "AssociationCalculatorOptions")
    text = text.replace("{  }", "{ min_similarity_threshold: 0.5 }")
    old = [normalized_rect(0.5, 0.5, 0.2, 0.2), normalized_rect(0.1, 0.1, 0.1, 0.1)]
    new = [normalized_rect(0.51, 0.5, 0.2, 0.2)]
    (found,) = run(text, {"a": old, "b": new})
    assert [each.x_center for each in found] == pytest.approx([0.1, 0.51])


def test_a_mask_of_another_size_passes_the_smoothing() -> None:
    text = node(
        "SegmentationSmoothingCalculator",
        "combine_with_previous_ratio: 0.7",
        *streams("MASK MASK_PREVIOUS", "MASK_SMOOTHED:"),
    )
    new = ImageFrame(ImageFormat.VEC32F1, np.full((2, 3), 0.5, np.float32))
    last = ImageFrame(ImageFormat.VEC32F1, np.ones((4, 4), np.float32))
    assert run(text, {"mask": new, "mask_previous": last}) == [new]


def test_a_matrix_that_cannot_be_inverted_is_an_error() -> None:
    text = (
        'node { calculator: "InverseMatrixCalculator" input_stream: "MATRIX:in" '
        'output_stream: "MATRIX:out" }'
    )
    with pytest.raises(GraphError, match="cannot be inverted"):
        run(text, {"in": (0.0,) * 16})


def test_a_tensor_of_the_wrong_size_is_an_error_that_says_what_is_right() -> None:
    text = node(
        "TensorsToLandmarksCalculator", "num_landmarks: 5", *streams("TENSORS", "LANDMARKS:")
    )
    with pytest.raises(GraphError, match="5 landmarks need 10 numbers"):
        run(text, {"tensors": [np.zeros(6, np.float32)]})


def test_a_model_that_is_not_there_is_named() -> None:
    text = node(
        "InferenceCalculator",
        'model_path: "mediapipe/modules/none/none.tflite"',
        *streams("TENSORS", "TENSORS:"),
    )
    with pytest.raises(GraphError, match="graphrt pull mediapipe"):
        run(text, {"tensors": [np.zeros(6, np.float32)]})


def test_a_model_in_another_format_is_refused() -> None:
    text = (
        'input_side_packet: "content" node { calculator: "TfLiteModelCalculator" '
        'input_side_packet: "MODEL_BLOB:content" output_side_packet: "MODEL:model" }'
        'node { calculator: "InferenceCalculator" input_side_packet: "MODEL:model" '
        'input_stream: "TENSORS:in" output_stream: "TENSORS:out" }'
    )
    with pytest.raises(GraphError, match="not in TFLite's format"):
        run(text, {"in": [np.zeros(1, np.float32)]}, sides={"content": b"no model at all"})


def test_a_model_is_named_once() -> None:
    text = 'node { calculator: "InferenceCalculator" input_stream: "TENSORS:in" '
    text += 'output_stream: "TENSORS:out" }'
    with pytest.raises(ValidationError, match="model_path or from the side packet MODEL"):
        run(text, {"in": []})


def test_landmarks_are_split_and_joined_as_arrays() -> None:
    text = (
        node(
            "SplitNormalizedLandmarkListCalculator",
            "ranges { begin: 2 end: 3 } ranges { begin: 0 end: 1 } combine_outputs: true",
            'input_stream: "in" output_stream: "part"',
        ).replace("SplitNormalizedLandmarkListCalculatorOptions", "SplitVectorCalculatorOptions")
        + 'node { calculator: "ConcatenateNormalizedLandmarkListCalculator" input_stream: "part" '
        'input_stream: "in" output_stream: "out" }'
    )
    points = landmarks([(0, 0, 0), (1, 0, 0), (2, 0, 0)])
    (found,) = run(text, {"in": points})
    assert isinstance(found, Landmarks)
    assert found.values[:, 0].tolist() == [2, 0, 0, 1, 2]


def test_a_message_of_landmarks_may_come_in() -> None:
    message: Any = message_class("mediapipe.NormalizedLandmarkList")()
    message.landmark.add(x=0.5, y=0.25, z=0.125, visibility=0.75)
    text = (
        'node { calculator: "LandmarkVisibilityCalculator" input_stream: "NORM_LANDMARKS:in" '
        'output_stream: "VISIBILITY:out" }'
    )
    assert run(text, {"in": message}) == [0.75]
    assert Landmarks.of_message(message).to_message() == message


def test_depth_makes_lines_change_their_color() -> None:
    text = node(
        "LandmarksToRenderDataCalculator",
        "landmark_connections: [0, 1] render_landmarks: false thickness: 2",
        *streams("NORM_LANDMARKS", "RENDER_DATA:"),
    ).replace('"RENDER_DATA:out"', '"RENDER_DATA:data"') + (
        'node { calculator: "AnnotationOverlayCalculator" input_stream: "IMAGE:image" '
        'input_stream: "data" output_stream: "IMAGE:out" }'
    )
    image = ImageFrame(ImageFormat.SRGB, np.full((10, 20, 3), 90, np.uint8))
    points = landmarks([(0.1, 0.5, 0.0), (0.9, 0.5, 1.0)])
    (found,) = run(text, {"norm_landmarks": points, "image": image})
    row = found.pixels[5, 2:18, 0].astype(int)
    assert row[0] > 240
    assert row[-1] < 40
    assert (np.diff(row) <= 0).all()
    assert found.pixels[6, 10, 0] == found.pixels[5, 10, 0]
    assert found.pixels[7, 10, 0] == 90
