"""Regions from frame to frame: joined, compared, and kept while they fit.

A graph runs its detector only while it follows fewer objects than it may
(`CollectionHasMinSizeCalculator`). `AssociationCalculator` joins the regions of the detector with
those that landmarks of the last frame gave; of two that overlap, that of the later input stays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from calculators.images.image.detections import relative_box
from calculators.images.image.packet_types import list_of, message_type
from calculators.vision.landmarks.landmarks import Floats, landmarks_of, take_landmarks
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)
from protos import messages

_ASSOCIATION_OPTIONS = messages.AssociationCalculatorOptions
_SIDES = ("x_center", "y_center", "width", "height")

Box = tuple[float, float, float, float]


class AssociationCalculator(Calculator):
    """Joins lists; an element of a later input replaces those that it overlaps.

    Base of AssociationNormRectCalculator and AssociationDetectionCalculator.
    """

    options = Options(_ASSOCIATION_OPTIONS)
    #: The elements' message, and its field of an id.
    element: ClassVar[str] = ""
    id_field: ClassVar[str] = ""

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs = contract.inputs
        count = inputs.num_entries("")
        contract.require(count > 0, "at least one input stream without a tag is needed")
        for index in range(max(count, 1)):
            inputs[index].set(list_of(cls.element))
        inputs["PREV"].set(list_of(cls.element)).optional()
        contract.outputs[0].set(list_of(cls.element))
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._threshold: float = self.options.min_similarity_threshold

    def process(self, cc: CalculatorContext) -> None:
        found: list[tuple[Box, Any]] = []
        for shard in cc.inputs.all_of(""):
            for element in () if shard.is_empty() else shard.value:
                box = self.box(element)
                found = [other for other in found if _iou(box, other[0]) <= self._threshold]
                found.append((box, element))
        if cc.inputs.has_tag("PREV") and not cc.inputs["PREV"].is_empty():
            found = self._with_ids(found, cc.inputs["PREV"].value)
        cc.outputs[0].add([element for _, element in found], cc.time)

    def _with_ids(self, found: list[tuple[Box, Any]], previous: list[Any]) -> list[tuple[Box, Any]]:
        """Give each element the id of the previous one that it overlaps."""
        given = []
        for box, element in found:
            for before in previous:
                has_id = before.HasField(self.id_field)
                if has_id and _iou(box, self.box(before)) > self._threshold:
                    known = type(element)()
                    known.CopyFrom(element)
                    setattr(known, self.id_field, getattr(before, self.id_field))
                    element = known
                    break
            given.append((box, element))
        return given

    def box(self, element: Any) -> Box:
        """Return left, top, right and bottom of an element, in fractions of the image."""
        raise NotImplementedError


class AssociationNormRectCalculator(AssociationCalculator):
    """Joins lists of rectangles; one of a later input replaces those that it overlaps.

    Rectangles are compared as if they were not turned. A list is sent in every call, also an empty
    one.

    Inputs:
        #i: at least one (list of mediapipe.NormalizedRect).
        PREV (list of mediapipe.NormalizedRect, optional): their ids go to rectangles that overlap.
    Outputs: #0 (list of mediapipe.NormalizedRect).
    Options (mediapipe.AssociationCalculatorOptions): min_similarity_threshold: of intersection over
        union, default 1.

    ::

        node {
          calculator: "AssociationNormRectCalculator"
          input_stream: "rects_from_detections"
          input_stream: "rects_from_landmarks"
          output_stream: "rects"
          options {
            [mediapipe.AssociationCalculatorOptions.ext] { min_similarity_threshold: 0.5 }
          }
        }

    Source: MediaPipe ``calculators/util/association_norm_rect_calculator.cc``.
    """

    element = "NormalizedRect"
    id_field = "rect_id"

    def box(self, element: Any) -> Box:
        """Return the rectangle's sides; see `AssociationCalculator.box`.

        Raises:
            GraphError: it has no centre or no size (INVALID_ARGUMENT).
        """
        if not all(map(element.HasField, _SIDES)):
            raise GraphError(
                f"a rectangle needs all of {', '.join(_SIDES)}", code=Code.INVALID_ARGUMENT
            )
        half_width, half_height = element.width / 2, element.height / 2
        return (
            element.x_center - half_width,
            element.y_center - half_height,
            element.x_center + half_width,
            element.y_center + half_height,
        )


class AssociationDetectionCalculator(AssociationCalculator):
    """Joins lists of detections; one of a later input replaces those that it overlaps.

    Inputs:
        #i: at least one (list of mediapipe.Detection).
        PREV (list of mediapipe.Detection, optional): their ids go to detections that overlap.
    Outputs: #0 (list of mediapipe.Detection).
    Options (mediapipe.AssociationCalculatorOptions): min_similarity_threshold.

    ::

        node {
          calculator: "AssociationDetectionCalculator"
          input_stream: "detections"
          input_stream: "tracked_detections"
          output_stream: "all_detections"
        }

    Source: MediaPipe ``calculators/util/association_detection_calculator.cc``.
    """

    element = "Detection"
    id_field = "detection_id"

    def box(self, element: Any) -> Box:
        """Return the detection's relative box; see `AssociationCalculator.box`."""
        left, top, right, bottom = relative_box(element, None)
        return left, top, right, bottom


def _iou(a: Box, b: Box) -> float:
    """Intersection over union; 0 without an intersection."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared
    return shared / union if union > 0 else 0.0


ASSOCIATIONS: tuple[type[Calculator], ...] = (
    AssociationDetectionCalculator,
    AssociationNormRectCalculator,
)


_TRACKING_OPTIONS = messages.RoiTrackingCalculatorOptions


class _PixelRect(NamedTuple):
    """A rectangle in pixels."""

    x: float
    y: float
    width: float
    height: float
    rotation: float


class RoiTrackingCalculator(Calculator):
    """Keeps the region that the last frame's landmarks had, as long as it fits the new region.

    Inputs:
        RECROP_RECT (mediapipe.NormalizedRect): the new region. Nothing is sent without it.
        PREV_LANDMARKS (`Landmarks`): of the last frame.
        PREV_LANDMARKS_RECT (mediapipe.NormalizedRect): their region. Without it, the new one.
        IMAGE_SIZE (tuple): width and height in pixels.
    Outputs: TRACKING_RECT (mediapipe.NormalizedRect).
    Options (mediapipe.RoiTrackingCalculatorOptions), all that are given must hold:
        iou_requirements: min_iou of the two regions.
        rect_requirements: rotation_degrees, and translation and scale in sides of the new region.
        landmarks_requirements: the landmarks lie within the new region, which grows by
            recrop_rect_margin first.

    ::

        node {
          calculator: "RoiTrackingCalculator"
          input_stream: "PREV_LANDMARKS:prev_landmarks"
          input_stream: "PREV_LANDMARKS_RECT:prev_rect"
          input_stream: "RECROP_RECT:rect"
          input_stream: "IMAGE_SIZE:size"
          output_stream: "TRACKING_RECT:roi"
          options {
            [mediapipe.RoiTrackingCalculatorOptions.ext] {
              rect_requirements { rotation_degrees: 15 translation: 0.1 scale: 0.3 }
              landmarks_requirements { recrop_rect_margin: -0.2 }
            }
          }
        }

    Source: MediaPipe ``modules/holistic_landmark/calculators/roi_tracking_calculator.cc``.
    """

    options = Options(_TRACKING_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        rect = message_type("NormalizedRect")
        take_landmarks(contract.inputs["PREV_LANDMARKS"])
        contract.inputs["PREV_LANDMARKS_RECT"].set(rect)
        contract.inputs["RECROP_RECT"].set(rect)
        contract.inputs["IMAGE_SIZE"].set(tuple)
        contract.outputs["TRACKING_RECT"].set(rect)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        inputs = cc.inputs
        if inputs["RECROP_RECT"].is_empty():
            return
        found = inputs["RECROP_RECT"].value
        has_previous = not (
            inputs["PREV_LANDMARKS_RECT"].is_empty() or inputs["PREV_LANDMARKS"].is_empty()
        )
        # Without a person in the last picture there is nothing to keep to.
        if has_previous and not inputs["IMAGE_SIZE"].is_empty():
            previous = inputs["PREV_LANDMARKS_RECT"].value
            points = landmarks_of(inputs["PREV_LANDMARKS"].value).values[:, :2]
            if self._fits(points, previous, found, inputs["IMAGE_SIZE"].value):
                found = previous
        cc.outputs["TRACKING_RECT"].add(found, cc.time)

    def _fits(self, points: Floats, previous: Any, new: Any, size: tuple[int, int]) -> bool:
        """Return True if the previous region meets all requirements."""
        options = self.options
        old_rect, new_rect = _in_pixels(previous, size), _in_pixels(new, size)
        if options.HasField("iou_requirements") and not _overlaps(
            old_rect, new_rect, options.iou_requirements.min_iou
        ):
            return False
        if options.HasField("rect_requirements") and not _is_near(
            old_rect, new_rect, options.rect_requirements
        ):
            return False
        if not options.HasField("landmarks_requirements"):
            return True
        margin = options.landmarks_requirements.recrop_rect_margin
        return _contains(new_rect, points * np.array(size, np.float32), margin)


def _in_pixels(rect: Any, size: tuple[int, int]) -> _PixelRect:
    width, height = size
    return _PixelRect(
        rect.x_center * width,
        rect.y_center * height,
        rect.width * width,
        rect.height * height,
        rect.rotation,
    )


def _overlaps(a: _PixelRect, b: _PixelRect, min_iou: float) -> bool:
    # As in MediaPipe, the centre stands for the top left corner, of both.
    width = min(a.x + a.width, b.x + b.width) - max(a.x, b.x)
    height = min(a.y + a.height, b.y + b.height) - max(a.y, b.y)
    shared = max(width, 0) * max(height, 0)
    union = a.width * a.height + b.width * b.height - shared
    return shared >= union * min_iou


def _is_near(old: _PixelRect, new: _PixelRect, limits: Any) -> bool:
    degrees = math.degrees(old.rotation - new.rotation)
    if degrees > 180:
        degrees -= 360
    elif degrees < -180:
        degrees += 360
    cos, sin = math.cos(-new.rotation), math.sin(-new.rotation)
    dx, dy = old.x - new.x, old.y - new.y
    return bool(
        abs(degrees) <= limits.rotation_degrees
        and abs(dx * cos - dy * sin) <= new.width * limits.translation
        and abs(dx * sin + dy * cos) <= new.height * limits.translation
        and abs(old.width - new.width) <= new.width * limits.scale
        and abs(old.height - new.height) <= new.height * limits.scale
    )


def _contains(rect: _PixelRect, points: Floats, margin: float) -> bool:
    """True if all points (n, 2) lie within the rectangle, which grows by the margin first."""
    cos, sin = math.cos(-rect.rotation), math.sin(-rect.rotation)
    turned = (points - np.array([rect.x, rect.y])) @ np.array([[cos, sin], [-sin, cos]])
    half = np.array([rect.width, rect.height]) * (1 + margin) / 2
    return bool((np.abs(turned) < half).all())


_SIZE_OPTIONS = messages.CollectionHasMinSizeCalculatorOptions


class CollectionHasMinSizeCalculator(Calculator):
    """Sends whether each list has at least this many elements.

    Under the names NormalizedRectVectorHasMinSizeCalculator,
    NormalizedLandmarkListVectorHasMinSizeCalculator, ClassificationListVectorHasMinSizeCalculator
    and DetectionVectorHasMinSizeCalculator.

    Inputs: ITERABLE: a list.
    Outputs: #0 (bool).
    Input side packets: #0 (int, optional): in place of the option.
    Options (mediapipe.CollectionHasMinSizeCalculatorOptions): min_size, default 0.

    ::

        node {
          calculator: "NormalizedRectVectorHasMinSizeCalculator"
          input_stream: "ITERABLE:rects"
          output_stream: "has_enough_rects"
          options { [mediapipe.CollectionHasMinSizeCalculatorOptions.ext] { min_size: 2 } }
        }

    Source: MediaPipe ``calculators/util/collection_has_min_size_calculator.h``.
    """

    options = Options(_SIZE_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["ITERABLE"].set(list)
        contract.outputs[0].set(bool)
        contract.input_side_packets[0].set(int).optional()
        size = contract.options(_SIZE_OPTIONS).min_size
        contract.require(size >= 0, f"min_size is at least 0, not {size}")
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        side = cc.input_side_packets.get(0)
        self._size: int = self.options.min_size if side is None else side.value

    def process(self, cc: CalculatorContext) -> None:
        if not cc.inputs["ITERABLE"].is_empty():
            cc.outputs[0].add(len(cc.inputs["ITERABLE"].value) >= self._size, cc.time)


_NAMES: Final = (
    "ClassificationListVectorHasMinSizeCalculator",
    "DetectionVectorHasMinSizeCalculator",
    "NormalizedLandmarkListVectorHasMinSizeCalculator",
    "NormalizedRectVectorHasMinSizeCalculator",
)

HAS_MIN_SIZE: tuple[type[Calculator], ...] = tuple(
    type(
        name,
        (CollectionHasMinSizeCalculator,),
        {"__doc__": CollectionHasMinSizeCalculator.__doc__, "__module__": __name__},
    )
    for name in _NAMES
)


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
