"""NonMaxSuppressionCalculator beyond the recorded answers of MediaPipe, and removal of padding."""

from __future__ import annotations

from typing import Any

import pytest

from calculators.images.image.image_frame import ImageFrame
from graph_runtime import GraphError
from tests.calculators.images.image.runs import box_of, detection, image, node, run

NAME = "NonMaxSuppressionCalculator"
IOU = "overlap_type: INTERSECTION_OVER_UNION"


def in_pixels(xmin: int, ymin: int, width: int, height: int, score: float) -> Any:
    found = detection((0, 0, 0, 0), score)
    found.location_data.Clear()
    found.location_data.format = 1
    box = found.location_data.bounding_box
    box.xmin, box.ymin, box.width, box.height = xmin, ymin, width, height
    return found


def suppress(options: str, *streams: list[Any], frame: ImageFrame | None = None) -> list[Any]:
    names = [f"in{index}" for index in range(len(streams))]
    ports = [f'input_stream: "{name}"' for name in names]
    feeds: dict[str, Any] = dict(zip(names, streams, strict=True))
    if frame is not None:
        ports.append('input_stream: "IMAGE:image"')
        feeds["image"] = frame
    options += f" num_detection_streams: {len(streams)}"
    return run(node(NAME, options, *ports, 'output_stream: "out"'), feeds)["out"]


def test_the_best_of_all_streams_come_first() -> None:
    low, high = detection((0, 0, 0.3, 0.3), 0.4), detection((0.5, 0.5, 0.3, 0.3), 0.8)
    (found,) = suppress("", [low], [high])
    assert [each.score[0] for each in found] == [pytest.approx(0.8), pytest.approx(0.4)]


def test_inputs_are_not_changed() -> None:
    given = detection((0, 0, 0.3, 0.3), 0.4)
    given.score.append(0.9)
    given.label_id.append(5)
    before = given.SerializeToString()
    (found,) = suppress("algorithm: WEIGHTED min_suppression_threshold: 0.1", [given])
    assert list(found[0].label_id) == [5]
    assert given.SerializeToString() == before


def test_boxes_in_pixels_need_the_size_of_the_image() -> None:
    boxes = [
        in_pixels(0, 0, 10, 10, 0.9),
        in_pixels(1, 1, 10, 10, 0.8),
        in_pixels(20, 0, 9, 9, 0.7),
    ]
    options = f"min_suppression_threshold: 0.5 {IOU}"
    (found,) = suppress(options, boxes, frame=image(30, 20))
    assert [each.location_data.bounding_box.xmin for each in found] == [0, 20]
    with pytest.raises(GraphError, match="needs the input stream IMAGE"):
        suppress(options, boxes)
    with pytest.raises(GraphError, match="no RELATIVE_BOUNDING_BOX"):
        suppress(f"{options} algorithm: WEIGHTED", boxes, frame=image(30, 20))


def test_without_detections_an_empty_list_is_sent_only_on_request() -> None:
    assert suppress("", []) == []
    assert suppress("return_empty_detections: true", []) == [[]]
    # There were detections, but none was good enough.
    assert suppress("min_score_threshold: 0.5", [detection((0, 0, 1, 1), 0.1)]) == [[]]


def test_detections_without_a_label_are_dropped() -> None:
    blank = detection((0, 0, 1, 1))
    del blank.label_id[:]
    assert suppress("", [blank]) == [[]]
    named = detection((0, 0, 1, 1))
    del named.label_id[:]
    named.label.append("cat")
    assert list(suppress("", [named])[0][0].label) == ["cat"]


def test_each_label_needs_a_score() -> None:
    wrong = detection((0, 0, 1, 1))
    wrong.label_id.extend([1, 2])
    with pytest.raises(GraphError, match="1 scores for 3 label_ids and 0 labels"):
        suppress("", [wrong])


def test_weighted_boxes_need_equally_many_keypoints() -> None:
    first, second = detection((0, 0, 1, 1), 0.9), detection((0, 0, 1, 1), 0.8)
    first.location_data.relative_keypoints.add(x=0.5, y=0.5)
    with pytest.raises(GraphError, match="different numbers of keypoints"):
        suppress("algorithm: WEIGHTED min_suppression_threshold: 0.5", [first, second])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("max_num_detections: 0", "max_num_detections is above 0, or -1 for all"),
        ("overlap_type: UNSPECIFIED_OVERLAP_TYPE", "overlap_type is not to be unspecified"),
        ("num_detection_streams: 0", "num_detection_streams is at least 1, not 0"),
    ],
)
def test_impossible_options_are_refused(options: str, text: str) -> None:
    with pytest.raises(GraphError, match=text):
        run(node(NAME, options, 'input_stream: "in"', 'output_stream: "out"'), {"in": []})


REMOVAL = """
node {
  calculator: "DetectionLetterboxRemovalCalculator"
  input_stream: "DETECTIONS:in"
  input_stream: "LETTERBOX_PADDING:padding"
  output_stream: "DETECTIONS:out"
}
"""


def test_padding_is_removed() -> None:
    given = [detection((0.25, 0.5, 0.25, 0.25))]
    (found,) = run(REMOVAL, {"in": given, "padding": (0.25, 0.0, 0.25, 0.5)})["out"]
    assert box_of(found[0]) == pytest.approx([0, 1, 0.5, 0.5])


def test_impossible_padding_is_refused() -> None:
    given = [detection((0.25, 0.5, 0.25, 0.25))]
    with pytest.raises(GraphError, match="LETTERBOX_PADDING leaves nothing of the image"):
        run(REMOVAL, {"in": given, "padding": (0.5, 0.0, 0.5, 0.0)})
    with pytest.raises(GraphError, match="without a LETTERBOX_PADDING at their timestamp"):
        run(f'input_stream: "padding"\n{REMOVAL}', {"in": given})


def test_boxes_of_low_scores_weigh_in_the_mean_and_are_none_themselves() -> None:
    boxes = [detection((0.1, 0.1, 0.5, 0.5), 0.9), detection((0.2, 0.1, 0.5, 0.5), 0.5)]
    alone = detection((0.8, 0.8, 0.1, 0.1), 0.5)
    options = "algorithm: WEIGHTED min_suppression_threshold: 0.3 min_score_threshold: 0.6"
    ([found],) = suppress(f"{options} {IOU}", [*boxes, alone])
    box = found.location_data.relative_bounding_box
    assert box.xmin == pytest.approx(0.19 / 1.4)
    assert suppress(f"{options} {IOU}", [alone]) == [[]]
