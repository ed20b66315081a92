"""DetectionsToRectsCalculator and its kin: regions of what a detector has found."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

from calculators.vision.messages import list_of, message_type, normalized_rect
from calculators.vision.rects.rect_ports import normalize_radians, take_one_rect_tag
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)

_OPTIONS = "mediapipe.DetectionsToRectsCalculatorOptions"
# LocationData.Format
_BOUNDING_BOX, _RELATIVE_BOUNDING_BOX = 1, 2
_USE_KEYPOINTS = 2

Size = tuple[int, int]


class DetectionsToRectsCalculator(Calculator):
    """Makes rectangles of detections: of their boxes or of their keypoints, turned or not.

    Inputs:
        DETECTION (mediapipe.Detection) or DETECTIONS (list of mediapipe.Detection).
        IMAGE_SIZE (tuple, optional): width and height in pixels; needed for a rotation, and for
            RECT or RECTS of keypoints.
    Outputs, exactly one:
        NORM_RECT, RECT (mediapipe.NormalizedRect, mediapipe.Rect): of the first detection.
        NORM_RECTS, RECTS (list of them): of each detection.
    Options (mediapipe.DetectionsToRectsCalculatorOptions):
        rotation_vector_start_keypoint_index, rotation_vector_end_keypoint_index: the rectangle is
            turned by the angle of the vector between the two keypoints
        rotation_vector_target_angle or rotation_vector_target_angle_degrees: to this angle.
        output_zero_rect_for_empty_detections: a rectangle of zeros where nothing was detected.
        conversion_mode: USE_BOUNDING_BOX, the default, or USE_KEYPOINTS.

    ::

        node {
          calculator: "DetectionsToRectsCalculator"
          input_stream: "DETECTION:face"
          input_stream: "IMAGE_SIZE:size"
          output_stream: "NORM_RECT:roi"
          options {
            [mediapipe.DetectionsToRectsCalculatorOptions.ext] {
              rotation_vector_start_keypoint_index: 0
              rotation_vector_end_keypoint_index: 1
              rotation_vector_target_angle_degrees: 0
            }
          }
        }

    Source: MediaPipe ``calculators/util/detections_to_rects_calculator.cc``.
    """

    options = Options(_OPTIONS)
    #: The rotation options are required.
    needs_rotation: ClassVar[bool] = False
    #: The size of the image is required in any case.
    needs_size: ClassVar[bool] = False

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs = contract.inputs
        contract.require(
            inputs.has_tag("DETECTION") is not inputs.has_tag("DETECTIONS"),
            "exactly one of the input streams DETECTION and DETECTIONS is needed",
        )
        inputs["DETECTION"].set(message_type("Detection")).optional()
        inputs["DETECTIONS"].set(list_of("Detection")).optional()
        inputs["IMAGE_SIZE"].set(tuple).optional()
        take_one_rect_tag(contract, contract.outputs, "output")
        cls._check(contract)
        contract.timestamp_offset = 0

    @classmethod
    def _check(cls, contract: CalculatorContract) -> None:
        options = contract.options(_OPTIONS)
        turns = options.HasField("rotation_vector_start_keypoint_index")
        contract.require(
            turns or not cls.needs_rotation, "rotation_vector_start_keypoint_index is needed"
        )
        if turns:
            contract.require(
                options.HasField("rotation_vector_end_keypoint_index"),
                "rotation_vector_start_keypoint_index needs rotation_vector_end_keypoint_index",
            )
            contract.require(
                options.HasField("rotation_vector_target_angle")
                is not options.HasField("rotation_vector_target_angle_degrees"),
                "exactly one of rotation_vector_target_angle and "
                "rotation_vector_target_angle_degrees is needed",
            )
        contract.require(
            not (turns or cls.needs_size) or contract.inputs.has_tag("IMAGE_SIZE"),
            "the input stream IMAGE_SIZE is needed to turn rectangles",
        )

    def open(self, cc: CalculatorContext) -> None:
        options = self.options
        self._turns = options.HasField("rotation_vector_start_keypoint_index")
        self._target: float = options.rotation_vector_target_angle
        if options.HasField("rotation_vector_target_angle_degrees"):
            self._target = math.pi * options.rotation_vector_target_angle_degrees / 180
        self._output = cc.outputs.tags()[0]
        self._is_list = self._output.endswith("S")
        self._make: Callable[[Any, Size], Any] = (
            self.normalized if self._output.startswith("NORM_") else self.in_pixels
        )

    def process(self, cc: CalculatorContext) -> None:
        (tag,) = (each for each in cc.inputs.tags() if each != "IMAGE_SIZE")
        if cc.inputs[tag].is_empty():
            return
        size: Size = (1, 1)
        if cc.inputs.has_tag("IMAGE_SIZE"):
            if cc.inputs["IMAGE_SIZE"].is_empty():
                if self._turns or self.needs_size:
                    return
            else:
                size = cc.inputs["IMAGE_SIZE"].value
        value = cc.inputs[tag].value
        detections = [value] if tag == "DETECTION" else value
        if not detections:
            self._send_zero(cc)
            return
        if self._is_list:
            found = [self._make(each, size) for each in detections]
            cc.outputs[self._output].add(found, cc.time)
        else:
            cc.outputs[self._output].add(self._make(detections[0], size), cc.time)

    def _send_zero(self, cc: CalculatorContext) -> None:
        if not self.options.output_zero_rect_for_empty_detections or self._output == "RECTS":
            return
        zero = message_type("Rect")(x_center=0, y_center=0, width=0, height=0)
        if self._output.startswith("NORM_"):
            zero = normalized_rect(0, 0, 0, 0)
        cc.outputs[self._output].add([zero] if self._is_list else zero, cc.time)

    def rotation(self, detection: Any, size: Size) -> float:
        """Return the angle of the rectangle in radians, 0 without a rotation vector.

        Raises:
            GraphError: the detection does not have the keypoints (INVALID_ARGUMENT).
        """
        if not self._turns:
            return 0.0
        options = self.options
        start = keypoint(detection, options.rotation_vector_start_keypoint_index, size)
        end = keypoint(detection, options.rotation_vector_end_keypoint_index, size)
        return normalize_radians(self._target - math.atan2(-(end[1] - start[1]), end[0] - start[0]))

    def normalized(self, detection: Any, size: Size) -> Any:
        """Return the mediapipe.NormalizedRect of a detection.

        Raises:
            GraphError: the detection has no relative box, or too few keypoints (INVALID_ARGUMENT).
        """
        rotation = self.rotation(detection, size)
        location = detection.location_data
        if self.options.conversion_mode == _USE_KEYPOINTS:
            left, top, right, bottom = _keypoint_box(detection)
            return normalized_rect(
                (left + right) / 2, (top + bottom) / 2, right - left, bottom - top, rotation
            )
        if location.format != _RELATIVE_BOUNDING_BOX:
            raise _wrong_format("NORM_RECT", "RELATIVE_BOUNDING_BOX")
        box = location.relative_bounding_box
        return normalized_rect(
            box.xmin + box.width / 2, box.ymin + box.height / 2, box.width, box.height, rotation
        )

    def in_pixels(self, detection: Any, size: Size) -> Any:
        """Return the mediapipe.Rect of a detection.

        Raises:
            GraphError: the detection has no box in pixels, or too few keypoints (INVALID_ARGUMENT).
        """
        rotation = self.rotation(detection, size)
        if self.options.conversion_mode == _USE_KEYPOINTS:
            left, top, right, bottom = _keypoint_box(detection)
            width, height = size
            numbers = [
                (left + right) / 2 * width,
                (top + bottom) / 2 * height,
                (right - left) * width,
                (bottom - top) * height,
            ]
            x, y, w, h = (math.floor(abs(each) + 0.5) * (-1 if each < 0 else 1) for each in numbers)
        else:
            location = detection.location_data
            if location.format != _BOUNDING_BOX:
                raise _wrong_format("RECT", "BOUNDING_BOX")
            box = location.bounding_box
            w, h = box.width, box.height
            x, y = box.xmin + w // 2, box.ymin + h // 2
        return message_type("Rect")(x_center=x, y_center=y, width=w, height=h, rotation=rotation)


class AlignmentPointsRectsCalculator(DetectionsToRectsCalculator):
    """Makes squares around the first of two keypoints, through the second.

    Inputs:
        DETECTION (mediapipe.Detection) or DETECTIONS (list of mediapipe.Detection).
        IMAGE_SIZE (tuple): width and height in pixels.
    Outputs, exactly one: NORM_RECT, NORM_RECTS (mediapipe.NormalizedRect, list of them): the centre
        is the start keypoint, half a side the distance to the end keypoint.
    Options (mediapipe.DetectionsToRectsCalculatorOptions): the rotation vector, required;
        output_zero_rect_for_empty_detections.

    ::

        node {
          calculator: "AlignmentPointsRectsCalculator"
          input_stream: "DETECTION:pose"
          input_stream: "IMAGE_SIZE:size"
          output_stream: "NORM_RECT:roi"
          options {
            [mediapipe.DetectionsToRectsCalculatorOptions.ext] {
              rotation_vector_start_keypoint_index: 0
              rotation_vector_end_keypoint_index: 1
              rotation_vector_target_angle_degrees: 90
            }
          }
        }

    Source: MediaPipe ``calculators/util/alignment_points_to_rects_calculator.cc``.
    """

    needs_rotation = True
    needs_size = True

    def normalized(self, detection: Any, size: Size) -> Any:
        """Return the square; see `DetectionsToRectsCalculator.normalized`."""
        options = self.options
        start = keypoint(detection, options.rotation_vector_start_keypoint_index, size)
        end = keypoint(detection, options.rotation_vector_end_keypoint_index, size)
        side = 2 * math.hypot(end[0] - start[0], end[1] - start[1])
        return _square(start, side, size, self.rotation(detection, size))

    def in_pixels(self, detection: Any, size: Size) -> Any:
        """Refuse: squares are normalized."""
        raise GraphError("RECT and RECTS are not supported here", code=Code.UNIMPLEMENTED)


class HandDetectionsFromPoseToRectsCalculator(DetectionsToRectsCalculator):
    """Makes squares of hands out of a wrist and the roots of two fingers.

    Inputs:
        DETECTION (mediapipe.Detection) or DETECTIONS (list of mediapipe.Detection): keypoints 0
            wrist, 1 little finger, 2 index finger.
        IMAGE_SIZE (tuple): width and height in pixels.
    Outputs, exactly one: NORM_RECT, NORM_RECTS (mediapipe.NormalizedRect, list of them).
    Options (mediapipe.DetectionsToRectsCalculatorOptions): output_zero_rect_for_empty_detections.

    ::

        node {
          calculator: "HandDetectionsFromPoseToRectsCalculator"
          input_stream: "DETECTION:hand"
          input_stream: "IMAGE_SIZE:size"
          output_stream: "NORM_RECT:roi"
        }

    Source: MediaPipe
    ``modules/holistic_landmark/calculators/hand_detections_from_pose_to_rects_calculator.cc``.
    """

    needs_size = True

    def normalized(self, detection: Any, size: Size) -> Any:
        """Return the square; see `DetectionsToRectsCalculator.normalized`."""
        wrist, little, index = (keypoint(detection, place, size) for place in range(3))
        x, y = ((2 * b + a) / 3 for a, b in zip(little, index, strict=True))
        side = 2 * math.hypot(x - wrist[0], y - wrist[1])
        rotation = normalize_radians(math.pi / 2 - math.atan2(-(y - wrist[1]), x - wrist[0]))
        return _square((x, y), side, size, rotation)

    def in_pixels(self, detection: Any, size: Size) -> Any:
        """Refuse: squares are normalized."""
        raise GraphError("RECT and RECTS are not supported here", code=Code.UNIMPLEMENTED)


def keypoint(detection: Any, place: int, size: Size) -> tuple[float, float]:
    """Return a keypoint of a mediapipe.Detection in pixels.

    Raises:
        GraphError: there is no such keypoint (INVALID_ARGUMENT).
    """
    points = detection.location_data.relative_keypoints
    if not 0 <= place < len(points):
        raise GraphError(
            f"the detection has {len(points)} keypoints, so there is no keypoint {place}",
            code=Code.INVALID_ARGUMENT,
        )
    return points[place].x * size[0], points[place].y * size[1]


def _keypoint_box(detection: Any) -> tuple[float, float, float, float]:
    points = detection.location_data.relative_keypoints
    if len(points) < 2:
        raise GraphError(
            f"a box needs at least 2 keypoints; there are {len(points)}",
            code=Code.INVALID_ARGUMENT,
        )
    xs, ys = [point.x for point in points], [point.y for point in points]
    return min(xs), min(ys), max(xs), max(ys)


def _square(center: tuple[float, float], side: float, size: Size, rotation: float) -> Any:
    width, height = size
    return normalized_rect(
        center[0] / width, center[1] / height, side / width, side / height, rotation
    )


def _wrong_format(tag: str, wanted: str) -> GraphError:
    return GraphError(
        f"{tag} needs detections with a {wanted}; this one has another format",
        code=Code.INVALID_ARGUMENT,
    )


DETECTIONS_TO_RECTS: tuple[type[Calculator], ...] = (
    AlignmentPointsRectsCalculator,
    DetectionsToRectsCalculator,
    HandDetectionsFromPoseToRectsCalculator,
)
