"""DetectionLetterboxRemovalCalculator: detections of a padded image, moved to the image."""

from __future__ import annotations

from typing import Any

from calculators.images.image.image_error import ImageError
from calculators.images.image.packet_types import LETTERBOX_PADDING, list_of, message
from graph_runtime import Calculator, CalculatorContext, CalculatorContract


class DetectionLetterboxRemovalCalculator(Calculator):
    """Converts locations in an image with padding to locations in the image without it.

    Inputs:
        DETECTIONS (list of mediapipe.Detection): with relative boxes.
        LETTERBOX_PADDING (tuple of 4 floats): left, top, right and bottom, as fractions of the
            image with padding. Required wherever there are detections.
    Outputs: DETECTIONS (list of mediapipe.Detection).
    Options: none.

    ::

        node {
          calculator: "DetectionLetterboxRemovalCalculator"
          input_stream: "DETECTIONS:detections"
          input_stream: "LETTERBOX_PADDING:padding"
          output_stream: "DETECTIONS:detections_in_image"
        }

    Source: MediaPipe ``calculators/util/detection_letterbox_removal_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["DETECTIONS"].set(list_of("Detection"))
        contract.inputs["LETTERBOX_PADDING"].set(LETTERBOX_PADDING)
        contract.outputs["DETECTIONS"].set(list_of("Detection"))
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["DETECTIONS"].is_empty():
            return
        if cc.inputs["LETTERBOX_PADDING"].is_empty():
            raise ImageError("there are detections without a LETTERBOX_PADDING at their timestamp")
        left, top, right, bottom = cc.inputs["LETTERBOX_PADDING"].value
        width, height = 1 - (left + right), 1 - (top + bottom)
        if width <= 0 or height <= 0:
            raise ImageError("LETTERBOX_PADDING leaves nothing of the image")
        found = [
            _moved(detection, left, top, width, height)
            for detection in cc.inputs["DETECTIONS"].value
        ]
        cc.outputs["DETECTIONS"].add(found, cc.time)


def _moved(detection: Any, left: float, top: float, width: float, height: float) -> Any:
    found = message("Detection")()
    found.CopyFrom(detection)
    box = found.location_data.relative_bounding_box
    box.xmin, box.ymin = (box.xmin - left) / width, (box.ymin - top) / height
    box.width, box.height = box.width / width, box.height / height
    for keypoint in found.location_data.relative_keypoints:
        keypoint.x, keypoint.y = (keypoint.x - left) / width, (keypoint.y - top) / height
    return found
