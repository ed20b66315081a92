"""DetectionProjectionCalculator: detections of a region, moved to the image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calculators.vision.messages import list_of, message_type
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Code, GraphError

_RELATIVE_BOUNDING_BOX = 2


class DetectionProjectionCalculator(Calculator):
    """Moves detections of a region to the image.

    Inputs:
        DETECTIONS:i (list of mediapipe.Detection): with relative boxes.
        PROJECTION_MATRIX (tuple of 16 floats): MATRIX of ImageToTensorCalculator.
    Outputs: DETECTIONS:i (list of mediapipe.Detection): a box is the one around the corners of the
        moved box.
    Options: none.

    ::

        node {
          calculator: "DetectionProjectionCalculator"
          input_stream: "DETECTIONS:detections"
          input_stream: "PROJECTION_MATRIX:matrix"
          output_stream: "DETECTIONS:detections_in_image"
        }

    Source: MediaPipe ``calculators/util/detection_projection_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        count = contract.inputs.num_entries("DETECTIONS")
        contract.require(
            0 < count == contract.outputs.num_entries("DETECTIONS"),
            "each input stream DETECTIONS needs an output stream DETECTIONS",
        )
        for index in range(max(count, 1)):
            contract.inputs["DETECTIONS", index].set(list_of("Detection"))
            contract.outputs["DETECTIONS", index].set(list_of("Detection"))
        contract.inputs["PROJECTION_MATRIX"].set(tuple)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["PROJECTION_MATRIX"].is_empty():
            return
        matrix = cc.inputs["PROJECTION_MATRIX"].value
        for shard, output in zip(
            cc.inputs.all_of("DETECTIONS"), cc.outputs.all_of("DETECTIONS"), strict=True
        ):
            if not shard.is_empty():
                output.add([_moved(each, matrix) for each in shard.value], cc.time)


def _moved(detection: Any, matrix: Sequence[float]) -> Any:
    a, b, shift_x, c, d, shift_y = (matrix[place] for place in (0, 1, 3, 4, 5, 7))
    found = message_type("Detection")()
    found.CopyFrom(detection)
    location = found.location_data
    if location.format != _RELATIVE_BOUNDING_BOX:
        raise GraphError(
            "a detection has no RELATIVE_BOUNDING_BOX to project", code=Code.INVALID_ARGUMENT
        )
    for point in location.relative_keypoints:
        x, y = point.x, point.y
        point.x, point.y = a * x + b * y + shift_x, c * x + d * y + shift_y
    box = location.relative_bounding_box
    right, bottom = box.xmin + box.width, box.ymin + box.height
    corners = [(box.xmin, box.ymin), (right, box.ymin), (right, bottom), (box.xmin, bottom)]
    xs = [a * x + b * y + shift_x for x, y in corners]
    ys = [c * x + d * y + shift_y for x, y in corners]
    box.xmin, box.ymin = min(xs), min(ys)
    box.width, box.height = max(xs) - min(xs), max(ys) - min(ys)
    return found
