"""Drawings of detections, and detections as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from google.protobuf import json_format

from calculators.images.image.image_frame import ImageFormat, ImageFrame
from graph_runtime import GraphError
from protos.pool import message_class
from tests.calculators.images.image.runs import detection, image, node, run

RENDER, OVERLAY = "DetectionsToRenderDataCalculator", "AnnotationOverlayCalculator"
RED = {"r": 255, "g": 0, "b": 0}


def render(options: str, *given: Any) -> list[Any]:
    ports = ('input_stream: "DETECTIONS:in"', 'output_stream: "RENDER_DATA:out"')
    return run(node(RENDER, options, *ports), {"in": list(given)})["out"]


def drawn(*annotations: dict[str, Any], frame: ImageFrame | None = None, options: str = "") -> Any:
    """Return the overlay of a black image."""
    data = json_format.ParseDict(
        {"render_annotations": list(annotations)}, message_class("mediapipe.RenderData")()
    )
    black = ImageFrame(ImageFormat.SRGB, np.zeros((40, 60, 3), np.uint8))
    ports = ('input_stream: "IMAGE:in"', 'input_stream: "data"', 'output_stream: "IMAGE:out"')
    (found,) = run(node(OVERLAY, options, *ports), {"in": frame or black, "data": data})["out"]
    return found


def extent(frame: ImageFrame) -> tuple[int, int, int, int]:
    """Return ymin, xmin, ymax, xmax of the pixels that are not black."""
    rows, columns = np.nonzero(frame.pixels.any(axis=2))
    return int(rows.min()), int(columns.min()), int(rows.max()), int(columns.max())


def test_a_detection_is_a_text_a_tag_and_a_box() -> None:
    given = detection((0.25, 0.5, 0.5, 0.4), 0.876)
    given.location_data.relative_keypoints.add(x=0.3, y=0.6)
    given.feature_tag = "eyes"
    (found,) = render("thickness: 4 color { r: 255 g: 0 b: 0 }", given)
    label, feature, location, keypoint = found.render_annotations
    assert (found.scene_class, label.scene_tag, label.text.display_text) == (
        "DETECTION",
        "LABEL",
        "0,0.88,",
    )
    assert label.text.baseline == pytest.approx(0.54)
    assert label.text.font_height == pytest.approx(0.036)
    assert feature.text.display_text == "eyes"
    box = location.rectangle
    assert (box.left, box.top, box.right, box.bottom) == pytest.approx((0.25, 0.5, 0.75, 0.9))
    assert (box.normalized, location.thickness, location.color.r) == (True, 4, 255)
    assert (keypoint.point.x, keypoint.point.y) == pytest.approx((0.3, 0.6))


def test_labels_follow_the_options() -> None:
    given = detection((0, 0, 1, 1), 0.5)
    given.label.append("cat")
    given.label_id.append(2)
    given.label.append("dog")
    given.score.append(1)
    given.detection_id = 9
    options = "one_label_per_line: true render_detection_id: true text_delimiter: '|'"
    (found,) = render(options, given)
    texts = [each.text.display_text for each in found.render_annotations[:3]]
    assert texts == ["Id: 9", "cat|0.5|", "dog|1|"]
    (found,) = render("", given)
    assert found.render_annotations[0].text.display_text == "cat,0.5,dog,1,"


def test_boxes_are_clipped_to_the_image() -> None:
    (found,) = render("", detection((-0.5, 0.5, 1, 2)), detection((1.5, 0, 1, 1)))
    inside, outside = (each.rectangle for each in found.render_annotations[2::3])
    assert (inside.left, inside.top, inside.right, inside.bottom) == (0, 0.5, 0.5, 1)
    assert (outside.left, outside.right) == (0, 0)


def test_without_detections_nothing_is_drawn() -> None:
    (found,) = render("")
    assert len(found.render_annotations) == 0
    assert render("produce_empty_packet: false") == []


def test_detections_that_cannot_be_drawn_are_refused() -> None:
    nowhere = detection((0, 0, 1, 1))
    nowhere.location_data.format = 0
    with pytest.raises(GraphError, match="only detections with BOUNDING_BOX or RELATIVE_BOUNDING"):
        render("", nowhere)
    wrong = detection((0, 0, 1, 1))
    wrong.score.append(1)
    with pytest.raises(GraphError, match="2 scores for 0 labels and 1 label ids"):
        render("", wrong)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (
            {
                "rectangle": {
                    "left": 0.1,
                    "top": 0.2,
                    "right": 0.5,
                    "bottom": 0.5,
                    "normalized": True,
                }
            },
            (8, 6, 19, 29),
        ),
        (
            {"oval": {"rectangle": {"left": 10, "top": 10, "right": 30, "bottom": 30}}},
            (10, 10, 30, 30),
        ),
        (
            {
                "rounded_rectangle": {
                    "rectangle": {"left": 10, "top": 5, "right": 50, "bottom": 35},
                    "corner_radius": 4,
                }
            },
            (5, 10, 35, 50),
        ),
        (
            {
                "filled_rounded_rectangle": {
                    "rounded_rectangle": {
                        "rectangle": {"left": 10, "top": 5, "right": 50, "bottom": 35},
                        "corner_radius": 4,
                        "line_type": 8,
                    }
                }
            },
            (5, 10, 35, 50),
        ),
    ],
    ids=["rectangle", "oval", "rounded", "filled"],
)
def test_shapes_are_where_they_should_be(
    shape: dict[str, Any], expected: tuple[int, int, int, int]
) -> None:
    assert extent(drawn({**shape, "color": RED})) == pytest.approx(expected, abs=1)


def test_text_stands_on_its_baseline() -> None:
    text = {"display_text": "HH", "left": 10, "baseline": 30, "font_height": 16}
    top, left, bottom, right = extent(drawn({"text": text, "color": RED}))
    assert (left, bottom) == pytest.approx((11, 30), abs=2)
    assert 15 <= top <= 22
    assert 25 <= right <= 40
    centred = {**text, "left": 30, "center_horizontally": True}
    _, left, _, right = extent(drawn({"text": centred, "color": RED}))
    assert left + right == pytest.approx(60, abs=4)
    outlined = {**text, "outline_thickness": 2, "outline_color": {"r": 0, "g": 0, "b": 255}}
    colors = drawn({"text": outlined, "color": RED}).pixels
    assert (colors == [0, 0, 255]).all(axis=2).any()


def test_a_gray_image_gets_colours() -> None:
    found = drawn(frame=image(8, 6, ImageFormat.GRAY8))
    assert found.image_format == ImageFormat.SRGB
    assert np.array_equal(found.pixels[:, :, 2], image(8, 6, ImageFormat.GRAY8).numpy_view())


def test_a_canvas_takes_the_place_of_an_image() -> None:
    text = node(
        OVERLAY,
        "canvas_width_px: 30 canvas_height_px: 20 canvas_color { r: 1 g: 2 b: 3 }",
        'input_stream: "VECTOR:in"',
        'output_stream: "IMAGE:out"',
    )
    dot: Any = json_format.ParseDict(
        {"render_annotations": [{"point": {"x": 5, "y": 5}, "color": RED}]},
        message_class("mediapipe.RenderData")(),
    )
    (found,) = run(text, {"in": [dot, dot]})["out"]
    assert (found.width, found.height) == (30, 20)
    assert found.pixels[0, 0].tolist() == [1, 2, 3]
    assert found.pixels[5, 5].tolist() == [255, 0, 0]


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        ({}, "an annotation of the kind None cannot be drawn"),
        ({"text": {"font_face": 8}}, "font_face is 0 to 7, not 8"),
        ({"point": {"x": "NaN", "y": 1}}, "a coordinate of an annotation is not a number"),
        ({"rounded_rectangle": {"corner_radius": -1}}, "needs a radius and one of OpenCV's line"),
    ],
)
def test_shapes_that_cannot_be_drawn_are_refused(annotation: dict[str, Any], text: str) -> None:
    with pytest.raises(GraphError, match=text):
        drawn(annotation)


@pytest.mark.parametrize("far", [1e9, -1e30, "Infinity"])
def test_coordinates_far_outside_the_image_draw_nothing(far: Any) -> None:
    line = {"x_start": far, "y_start": far, "x_end": far, "y_end": far}
    found = drawn({"line": line, "color": RED}, {"point": {"x": far, "y": far}, "color": RED})
    assert not found.pixels.any()


def test_images_that_cannot_be_drawn_on_are_refused() -> None:
    with pytest.raises(GraphError, match="GRAY16 cannot be drawn on"):
        drawn(frame=image(4, 4, ImageFormat.GRAY16))


@pytest.mark.parametrize(
    ("options", "ports", "text"),
    [
        ("", ('input_stream: "in"', 'output_stream: "IMAGE:out"'), "canvas_height_px are required"),
        (
            "canvas_width_px: 50000 canvas_height_px: 50000",
            ('input_stream: "in"', 'output_stream: "IMAGE:out"'),
            "at most 100000000 pixels",
        ),
        ("", ('input_stream: "IMAGE:in"', 'output_stream: "UIMAGE:out"'), "of the same tag"),
    ],
)
def test_impossible_overlays_are_refused(options: str, ports: tuple[str, ...], text: str) -> None:
    with pytest.raises(GraphError, match=text):
        run(node(OVERLAY, options, *ports), {"in": image(2, 2)})


TENSORS = """
node {
  calculator: "DetectionsToTensorsCalculator"
  input_stream: "DETECTIONS:in"
  output_stream: "BOXES:boxes"
  output_stream: "SCORES:scores"
  output_stream: "LABEL_IDS:ids"
  output_stream: "LABELS:labels"
}
"""


def test_detections_become_arrays() -> None:
    named = detection((0.1, 0.2, 0.3, 0.4), 0.75, 3)
    named.label.append("Käfer")
    blank = detection((0, 0, 1, 1))
    del blank.score[:], blank.label_id[:]
    found = run(TENSORS, {"in": [named, blank]}, "boxes scores ids labels")
    (boxes,), (scores,), (ids,), (labels,) = found.values()
    assert (boxes.dtype, boxes.shape) == (np.float32, (2, 4))
    assert boxes[0].tolist() == pytest.approx([0.2, 0.1, 0.6, 0.4])
    assert scores[0] == 0.75
    assert np.isnan(scores[1])
    assert ids.tolist() == [3, -1]
    assert labels.tolist() == ["Käfer".encode(), b""]


def test_no_detections_become_empty_arrays() -> None:
    found = run(TENSORS, {"in": []}, "boxes scores ids labels")
    assert [arrays[0].shape for arrays in found.values()] == [(0, 4), (0,), (0,), (0,)]


def gradient(**ends: float) -> Any:
    """Return the middle row of a picture with a line from red to blue."""
    line = {"color1": {"r": 250}, "color2": {"b": 250}, **ends}
    return drawn({"gradient_line": line, "thickness": 1}).pixels[20]


def test_a_gradient_begins_where_its_line_enters_the_image() -> None:
    inside = gradient(x_start=0, y_start=20, x_end=59, y_end=20)
    assert inside[0, 0] == 250
    assert inside[1].tolist() == [246, 0, 4], "245.8 and 4.2 are rounded, as in MediaPipe"
    beyond = gradient(x_start=-60, y_start=20, x_end=119, y_end=20)
    assert (beyond == inside).all()
    assert not gradient(x_start=-60, y_start=20, x_end=-1, y_end=20).any()
