"""Regions as rectangles: of detections and landmarks, moved, scaled and made square.

A detector finds where something is; the model of landmarks sees a rectangle around it, rotated so
that the object is upright. The calculators make this rectangle of a detection's box or key points,
or of the landmarks of the frame before, and `RectTransformationCalculator` enlarges it.
Rectangles are in fractions of the image under NORM_RECT, in pixels under RECT.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from calculators.images.image.packet_types import list_of, message_type
from calculators.vision.landmarks.landmarks import Floats, Landmarks, landmarks_of, take_landmarks
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)
from protos import messages

RECT_TAGS: Final = ("NORM_RECT", "RECT", "NORM_RECTS", "RECTS")

#: Where MediaPipe's maxima begin (``std::numeric_limits<float>::min()``): 0, rather than -infinity.
SMALLEST: Final = 1.17549435e-38


def normalized_rect(
    x_center: float, y_center: float, width: float, height: float, rotation: float = 0.0
) -> Any:
    """Make a mediapipe.NormalizedRect, in fractions of the image; rotation in radians."""
    return message_type("NormalizedRect")(
        x_center=x_center, y_center=y_center, width=width, height=height, rotation=rotation
    )


def rect_type(tag: str) -> Any:
    """Return the packet type of a stream of rectangles with this tag."""
    name = "NormalizedRect" if tag.startswith("NORM_") else "Rect"
    return list_of(name) if tag.endswith("S") else message_type(name)


def take_one_rect_tag(contract: CalculatorContract, ports: Any, kind: str) -> str:
    """Declare exactly one port of rectangles; return its tag."""
    found = [tag for tag in RECT_TAGS if ports.has_tag(tag)]
    contract.require(
        len(found) == 1, f"exactly one of the {kind} streams {', '.join(RECT_TAGS)} is needed"
    )
    for tag in RECT_TAGS:
        ports[tag].set(rect_type(tag)).optional()
    return found[0] if found else "NORM_RECT"


def normalize_radians(angle: float) -> float:
    """Return the angle within [-pi, pi)."""
    return angle - 2 * math.pi * math.floor((angle + math.pi) / (2 * math.pi))


_DETECTIONS_OPTIONS = messages.DetectionsToRectsCalculatorOptions
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

    options = Options(_DETECTIONS_OPTIONS)
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
        options = contract.options(_DETECTIONS_OPTIONS)
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
                # As in MediaPipe: a rotation is measured in pixels, so a call without the size
                # sends nothing.
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


_DETECTION = messages.LandmarksToDetectionCalculatorOptions
#: Joints of the palm and the first joints of the fingers, of a hand's 21 landmarks.
_PALM = np.array([0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 17, 18])
_HAND = 21
#: Wrist, and the roots of the index, middle and ring finger, among `_PALM`.
_WRIST, _INDEX, _MIDDLE, _RING = 0, 4, 6, 8


class LandmarksToDetectionCalculator(Calculator):
    """Makes a detection of landmarks: they are its keypoints, and its box is around them.

    Inputs: NORM_LANDMARKS (`Landmarks`).
    Outputs: DETECTION (mediapipe.Detection): without score and label.
    Options (mediapipe.LandmarksToDetectionCalculatorOptions):
        selected_landmark_indices: repeated; all landmarks unless given.

    ::

        node {
          calculator: "LandmarksToDetectionCalculator"
          input_stream: "NORM_LANDMARKS:landmarks"
          output_stream: "DETECTION:eyes"
          options {
            [mediapipe.LandmarksToDetectionCalculatorOptions.ext] {
              selected_landmark_indices: [33, 133]
            }
          }
        }

    Source: MediaPipe ``calculators/util/landmarks_to_detection_calculator.cc``.
    """

    options = Options(_DETECTION)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        take_landmarks(contract.inputs["NORM_LANDMARKS"])
        contract.outputs["DETECTION"].set(message_type("Detection"))
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._selected = np.array(self.options.selected_landmark_indices, np.intp)

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["NORM_LANDMARKS"].is_empty():
            return
        points = landmarks_of(cc.inputs["NORM_LANDMARKS"].value).values[:, :2]
        if len(points) == 0:
            raise GraphError("there are no landmarks in the list", code=Code.INVALID_ARGUMENT)
        if len(self._selected):
            if self._selected.max() >= len(points) or self._selected.min() < 0:
                raise GraphError(
                    f"selected_landmark_indices: there are {len(points)} landmarks, so there is no "
                    f"landmark {self._selected.max()}",
                    code=Code.INVALID_ARGUMENT,
                )
            points = points[self._selected]
        cc.outputs["DETECTION"].add(_detection(points), cc.time)


def _detection(points: Floats) -> Any:
    """Return the mediapipe.Detection of points (n, 2)."""
    low = points.min(axis=0)
    high = np.maximum(points.max(axis=0), np.float32(SMALLEST))
    # One by one, 468 keypoints take half a millisecond.
    wire = _wire(len(points)).copy()
    wire["x"], wire["y"] = points[:, 0], points[:, 1]
    found = message_type("Detection")()
    location = found.location_data
    location.MergeFromString(wire.tobytes())
    location.format = _RELATIVE_BOUNDING_BOX
    box = location.relative_bounding_box
    (box.xmin, box.ymin), (box.width, box.height) = low.tolist(), (high - low).tolist()
    return found


@lru_cache(maxsize=8)
def _wire(count: int) -> npt.NDArray[Any]:
    """Return the wire form of keypoints without their numbers: each is 12 bytes."""
    fields = [("tag", "u1"), ("length", "u1"), ("x_tag", "u1"), ("x", "<f4")]
    wire = np.zeros(count, np.dtype([*fields, ("y_tag", "u1"), ("y", "<f4")]))
    wire["tag"], wire["length"], wire["x_tag"], wire["y_tag"] = 0x2A, 10, 0x0D, 0x15
    return wire


class HandLandmarksToRectCalculator(Calculator):
    """Makes the turned rectangle around a hand's palm and first joints, fingers upwards.

    Inputs:
        NORM_LANDMARKS (`Landmarks`): 21 of a hand, or 12 of its palm and first joints.
        IMAGE_SIZE (tuple): width and height in pixels.
    Outputs: NORM_RECT (mediapipe.NormalizedRect).
    Options: none.

    ::

        node {
          calculator: "HandLandmarksToRectCalculator"
          input_stream: "NORM_LANDMARKS:hand"
          input_stream: "IMAGE_SIZE:size"
          output_stream: "NORM_RECT:rect"
        }

    Source: MediaPipe ``modules/hand_landmark/calculators/hand_landmarks_to_rect_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        take_landmarks(contract.inputs["NORM_LANDMARKS"])
        contract.inputs["IMAGE_SIZE"].set(tuple)
        contract.outputs["NORM_RECT"].set(message_type("NormalizedRect"))
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["NORM_LANDMARKS"].is_empty() or cc.inputs["IMAGE_SIZE"].is_empty():
            return
        found = landmarks_of(cc.inputs["NORM_LANDMARKS"].value)
        size: tuple[int, int] = cc.inputs["IMAGE_SIZE"].value
        cc.outputs["NORM_RECT"].add(_hand_rect(found, size), cc.time)


def _hand_rect(found: Landmarks, size: tuple[int, int]) -> Any:
    points = found.values[:, :2]
    if len(points) == _HAND:
        points = points[_PALM]
    if len(points) <= _RING:
        raise GraphError(
            f"a hand has {_HAND} landmarks; the list has {len(points)}", code=Code.INVALID_ARGUMENT
        )
    width, height = size
    fingers = ((points[_INDEX] + points[_RING]) / 2 + points[_MIDDLE]) / 2
    along = (fingers - points[_WRIST]) * np.array([width, height], np.float32)
    rotation = normalize_radians(math.pi / 2 - math.atan2(-along[1], along[0]))

    def highest(values: Floats) -> Floats:
        found: Floats = np.maximum(values.max(axis=0), np.float32(SMALLEST))
        return found

    center = (highest(points) + points.min(axis=0)) / 2
    offsets = (points - center) * np.array([width, height], np.float32)
    cos, sin = math.cos(rotation), math.sin(rotation)
    turned = offsets @ np.array([[cos, -sin], [sin, cos]], np.float32)
    low, high = turned.min(axis=0).tolist(), highest(turned).tolist()
    x, y = (low[0] + high[0]) / 2, (low[1] + high[1]) / 2
    return normalized_rect(
        (x * cos - y * sin) / width + float(center[0]),
        (x * sin + y * cos) / height + float(center[1]),
        (high[0] - low[0]) / width,
        (high[1] - low[1]) / height,
        rotation,
    )


LANDMARKS_TO_RECTS: tuple[type[Calculator], ...] = (
    HandLandmarksToRectCalculator,
    LandmarksToDetectionCalculator,
)


_TRANSFORMATION_OPTIONS = messages.RectTransformationCalculatorOptions


class RectTransformationCalculator(Calculator):
    """Moves rectangles in their own direction, then makes them square, then scales them.

    Inputs, exactly one of the first four:
        NORM_RECT, RECT, NORM_RECTS, RECTS (mediapipe.NormalizedRect, mediapipe.Rect, lists).
        IMAGE_SIZE (tuple): width and height in pixels; needed for normalized rectangles.
    Outputs: #0: of the input's type.
    Options (mediapipe.RectTransformationCalculatorOptions):
        shift_x, shift_y: in widths and heights of the rectangle.
        rotation or rotation_degrees: turns the shift; the rectangle keeps its own rotation.
        square_long or square_short: both sides become the longer or the shorter one, in pixels.
        scale_x, scale_y: default 1.

    ::

        node {
          calculator: "RectTransformationCalculator"
          input_stream: "NORM_RECT:face_rect"
          input_stream: "IMAGE_SIZE:size"
          output_stream: "roi"
          options {
            [mediapipe.RectTransformationCalculatorOptions.ext] {
              scale_x: 1.5
              scale_y: 1.5
              square_long: true
            }
          }
        }

    Source: MediaPipe ``calculators/util/rect_transformation_calculator.cc``.
    """

    options = Options(_TRANSFORMATION_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        tag = take_one_rect_tag(contract, contract.inputs, "input")
        contract.inputs["IMAGE_SIZE"].set(tuple).optional()
        contract.require(
            not tag.startswith("NORM_") or contract.inputs.has_tag("IMAGE_SIZE"),
            f"{tag} needs the input stream IMAGE_SIZE",
        )
        contract.outputs[0].set(rect_type(tag))
        options = contract.options(_TRANSFORMATION_OPTIONS)
        contract.require(
            not (options.HasField("rotation") and options.HasField("rotation_degrees")),
            "rotation and rotation_degrees exclude each other",
        )
        contract.require(
            not (options.HasField("square_long") and options.HasField("square_short")),
            "square_long and square_short exclude each other",
        )
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        options = self.options
        self._turn: float = options.rotation
        if options.HasField("rotation_degrees"):
            self._turn = math.pi * options.rotation_degrees / 180
        (self._tag,) = (tag for tag in cc.inputs.tags() if tag != "IMAGE_SIZE")

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs[self._tag].is_empty():
            return
        size = (1, 1)
        if self._tag.startswith("NORM_"):
            if cc.inputs["IMAGE_SIZE"].is_empty():
                return
            size = cc.inputs["IMAGE_SIZE"].value
        value = cc.inputs[self._tag].value
        if self._tag.endswith("S"):
            cc.outputs[0].add([self._moved(rect, size) for rect in value], cc.time)
        else:
            cc.outputs[0].add(self._moved(value, size), cc.time)

    def _moved(self, rect: Any, size: tuple[int, int]) -> Any:
        options = self.options
        width_px, height_px = size
        angle = rect.rotation
        if self._turn:
            angle = normalize_radians(angle + self._turn)
        right = rect.width * width_px * options.shift_x
        down = rect.height * height_px * options.shift_y
        cos, sin = math.cos(angle), math.sin(angle)
        x = rect.x_center + (right * cos - down * sin) / width_px
        y = rect.y_center + (right * sin + down * cos) / height_px
        width, height = rect.width, rect.height
        if options.square_long or options.square_short:
            choose = max if options.square_long else min
            side = choose(width * width_px, height * height_px)
            width, height = side / width_px, side / height_px
        width, height = width * options.scale_x, height * options.scale_y
        if self._tag.startswith("NORM_"):
            return normalized_rect(x, y, width, height, rect.rotation)
        return message_type("Rect")(
            x_center=int(x),
            y_center=int(y),
            width=int(width),
            height=int(height),
            rotation=rect.rotation,
        )
