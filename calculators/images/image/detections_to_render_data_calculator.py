"""DetectionsToRenderDataCalculator: render data for detections."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from calculators.images.image.detection_list import RELATIVE_BOUNDING_BOX
from calculators.images.image.image_error import ImageError
from calculators.images.image.packet_types import list_of, message
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

_OPTIONS = "mediapipe.DetectionsToRenderDataCalculatorOptions"
_BOUNDING_BOX = 1
#: The maximum ratio of a label's line to the box's height.
_LINE_HEIGHT = 0.1


class DetectionsToRenderDataCalculator(Calculator):
    """Draws a box for each detection, with labels and scores at its top, and its keypoints.

    Inputs, at least one:
        DETECTION (mediapipe.Detection).
        DETECTIONS (list of mediapipe.Detection).
        DETECTION_LIST (mediapipe.DetectionList).
    Outputs: RENDER_DATA (mediapipe.RenderData): texts, a rectangle and points per detection.
    Options (mediapipe.DetectionsToRenderDataCalculatorOptions):
        produce_empty_packet: send render data even without detections; default true.
        text_delimiter: follows each label and each score; default ",".
        one_label_per_line.
        text: the style of labels; for relative boxes, the font's height depends on the box.
        thickness, color: of lines, in pixels; default 1, black.
        scene_class: a name for the drawing; default "DETECTION".
        render_detection_id: a first line with the detection's id.

    ::

        node {
          calculator: "DetectionsToRenderDataCalculator"
          input_stream: "DETECTIONS:detections"
          output_stream: "RENDER_DATA:render_data"
          node_options {
            [type.googleapis.com/mediapipe.DetectionsToRenderDataCalculatorOptions] {
              thickness: 4.0
              color { r: 255 g: 0 b: 0 }
            }
          }
        }

    Source: MediaPipe ``calculators/util/detections_to_render_data_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs = contract.inputs
        contract.require(
            any(map(inputs.has_tag, ("DETECTION", "DETECTIONS", "DETECTION_LIST"))),
            "one of the input streams DETECTION, DETECTIONS and DETECTION_LIST is needed",
        )
        inputs["DETECTION"].set(message("Detection")).optional()
        inputs["DETECTIONS"].set(list_of("Detection")).optional()
        inputs["DETECTION_LIST"].set(message("DetectionList")).optional()
        contract.outputs["RENDER_DATA"].set(message("RenderData"))
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        detections = list(_detections(cc))
        if not detections and not self.options.produce_empty_packet:
            return
        found = message("RenderData")(scene_class=self.options.scene_class)
        for detection in detections:
            self._add(found, detection)
        cc.outputs["RENDER_DATA"].add(found, cc.time)

    def _add(self, found: Any, detection: Any) -> None:
        location = detection.location_data
        if location.format not in (_BOUNDING_BOX, RELATIVE_BOUNDING_BOX):
            raise ImageError("only detections with BOUNDING_BOX or RELATIVE_BOUNDING_BOX are drawn")
        is_relative = location.format == RELATIVE_BOUNDING_BOX
        box = location.relative_bounding_box if is_relative else location.bounding_box
        line: float = self.options.text.font_height
        if is_relative:
            labels = max(len(detection.label), len(detection.label_id))
            line = float(np.float32(box.height * min(_LINE_HEIGHT, 1 / (labels + 1))))
        for number, text in enumerate(self._texts(detection), 1):
            annotation = self._annotation(found, "LABEL")
            annotation.text.CopyFrom(self.options.text)
            annotation.text.display_text = text
            _place_text(annotation.text, is_relative, box.xmin, box.ymin + number * line, line)
        annotation = self._annotation(found, "FEATURE")
        annotation.text.display_text = detection.feature_tag
        _place_text(annotation.text, is_relative, box.xmin, box.ymin + box.height, line)
        _place_box(self._annotation(found, "LOCATION").rectangle, is_relative, box)
        for keypoint in location.relative_keypoints if is_relative else ():
            point = self._annotation(found, "KEYPOINT").point
            point.normalized, point.x, point.y = True, keypoint.x, keypoint.y

    def _annotation(self, found: Any, scene_tag: str) -> Any:
        color = self.options.color
        annotation = found.render_annotations.add(
            scene_tag=scene_tag, thickness=self.options.thickness
        )
        annotation.color.r, annotation.color.g, annotation.color.b = color.r, color.g, color.b
        return annotation

    def _texts(self, detection: Any) -> list[str]:
        """The lines at the top of the box."""
        ids, names, scores = (
            list(detection.label_id),
            list(detection.label),
            list(detection.score),
        )
        if (ids and names and len(ids) != len(names)) or len(scores) != max(len(ids), len(names)):
            raise ImageError(
                f"a detection has {len(scores)} scores for {len(names)} labels and {len(ids)} "
                f"label ids; each label needs one"
            )
        mark = self.options.text_delimiter
        texts = [
            f"{label}{mark}{_shown(score)}{mark}"
            for label, score in zip(names or ids, scores, strict=True)
        ]
        first = [f"Id: {detection.detection_id}"] if self.options.render_detection_id else []
        return first + (texts if self.options.one_label_per_line else ["".join(texts)])


def _detections(cc: CalculatorContext) -> Iterator[Any]:
    inputs = cc.inputs
    if inputs.has_tag("DETECTION_LIST") and not inputs["DETECTION_LIST"].is_empty():
        yield from inputs["DETECTION_LIST"].value.detection
    if inputs.has_tag("DETECTIONS") and not inputs["DETECTIONS"].is_empty():
        yield from inputs["DETECTIONS"].value
    if inputs.has_tag("DETECTION") and not inputs["DETECTION"].is_empty():
        yield inputs["DETECTION"].value


def _shown(score: float) -> str:
    """The score as text, rounded to two digits."""
    hundredths = np.floor(np.float32(score) * np.float32(100) + np.float32(0.5))
    return f"{float(hundredths / np.float32(100)):.6g}"


def _place_text(text: Any, is_relative: bool, left: float, baseline: float, line: float) -> None:
    if is_relative:
        text.font_height = line * 0.9
        left, baseline = max(left, 0.0), min(baseline, 1.0)
    text.normalized, text.left, text.baseline = is_relative, left, baseline


def _place_box(rectangle: Any, is_relative: bool, box: Any) -> None:
    """Set the rectangle to the box; leave it as it is if the box is out of sight."""
    right, bottom = box.xmin + box.width, box.ymin + box.height
    if right < 0 or bottom < 0 or (is_relative and (box.xmin > 1 or box.ymin > 1)):
        return
    rectangle.normalized = is_relative
    rectangle.left = max(box.xmin, 0.0) if is_relative else box.xmin
    rectangle.top = max(box.ymin, 0.0) if is_relative else box.ymin
    rectangle.right = min(right, 1.0) if is_relative else right
    rectangle.bottom = min(bottom, 1.0) if is_relative else bottom
