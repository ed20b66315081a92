"""Objects as boxes in space: MediaPipe's Objectron.

A mediapipe.FrameAnnotation holds the objects of a frame. The model finds the nine points of each
box in the image; `box_in_space` finds the box in space that they show.
Source: MediaPipe ``modules/objectron/calculators/epnp.cc`` and ``box.cc``; the method is "EPnP: An
Accurate O(n) Solution to the PnP Problem" (Lepetit, Moreno-Noguer, Fua, 2009).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from types import GenericAlias
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.images.image.packet_types import list_of, message_type
from calculators.vision.landmarks.landmarks import landmarks_of, take_landmarks
from calculators.vision.regions import SMALLEST
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)
from protos import messages

Floats = npt.NDArray[np.float64]

#: The centre of a box, then its corners: the last axis changes quickest.
POINTS: Final = 9
_SIGNS: Final = np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], float)
#: Corners as sums of four control points: the centre, and the centres of three faces.
_WEIGHTS: Final = np.column_stack([1 - _SIGNS.sum(axis=1), _SIGNS])


@dataclass(frozen=True)
class BoxInSpace:
    """A box in front of the camera, which looks along -z; y is up.

    Attributes:
        points: (9, 3): its centre and its corners.
        rotation: (3, 3).
        translation: (3,).
        scale: (3,): its lengths.
    """

    points: Floats
    rotation: Floats
    translation: Floats
    scale: Floats


def box_in_space(
    points: Floats, focal: tuple[float, float], center: tuple[float, float]
) -> BoxInSpace:
    """Return the box whose corners are seen at these points. How large it is cannot be seen.

    Args:
        points: (9, 2): centre and corners, x and y in fractions of the image.
        focal: focal lengths along x and y, in halves of the image's sides.
        center: the principal point, from the image's middle, in halves of its sides.
    """
    seen = np.column_stack([points[1:, 0] * 2 - 1, 1 - points[1:, 1] * 2]) + np.array(center)
    rows = np.zeros((2, len(seen), 4, 3))
    for axis in range(2):
        rows[axis, :, :, axis] = focal[axis] * _WEIGHTS
        rows[axis, :, :, 2] = seen[:, axis, np.newaxis] * _WEIGHTS
    system = rows.transpose(1, 0, 2, 3).reshape(-1, 12)
    _, vectors = np.linalg.eigh(system.T @ system)
    control = vectors[:, 0].reshape(4, 3)
    if control[0, 2] > 0:
        control = -control
    return _fitted(np.vstack([control[:1], _WEIGHTS @ control]))


def _fitted(points: Floats) -> BoxInSpace:
    """Return the box that comes nearest to nine points."""
    corners = points[1:].reshape(2, 2, 2, 3)
    lengths = [np.linalg.norm(np.diff(corners, axis=axis), axis=-1).mean() for axis in range(3)]
    scale = np.array(lengths)
    own = np.vstack([np.zeros(3), _SIGNS * scale / 2])
    solution, *_ = np.linalg.lstsq(np.column_stack([own, np.ones(POINTS)]), points, rcond=None)
    return BoxInSpace(points, solution[:3].T, solution[3], scale)


_LIFT = messages.Lift2DFrameAnnotationTo3DCalculatorOptions
_RECT = messages.FrameAnnotationToRectCalculatorOptions


class LandmarksToFrameAnnotationCalculator(Calculator):
    """Makes an annotation of the frame, with an object per list of landmarks.

    Inputs, at least one:
        LANDMARKS (`Landmarks`): of one object.
        MULTI_LANDMARKS (list of `Landmarks`): of several.
    Outputs: FRAME_ANNOTATION (mediapipe.FrameAnnotation).
    Options: none.

    ::

        node {
          calculator: "LandmarksToFrameAnnotationCalculator"
          input_stream: "MULTI_LANDMARKS:landmarks"
          output_stream: "FRAME_ANNOTATION:annotation"
        }

    Source: MediaPipe ``modules/objectron/calculators/landmarks_to_frame_annotation_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs = contract.inputs
        contract.require(
            inputs.has_tag("LANDMARKS") or inputs.has_tag("MULTI_LANDMARKS"),
            "an input stream LANDMARKS or MULTI_LANDMARKS is needed",
        )
        take_landmarks(inputs["LANDMARKS"]).optional()
        inputs["MULTI_LANDMARKS"].set(list).optional()
        contract.outputs["FRAME_ANNOTATION"].set(message_type("FrameAnnotation"))
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        found = message_type("FrameAnnotation")()
        lists: list[Any] = []
        for tag in cc.inputs.tags():
            shard = cc.inputs[tag]
            if not shard.is_empty():
                lists += shard.value if tag == "MULTI_LANDMARKS" else [shard.value]
        for each in lists:
            annotation = found.annotations.add()
            for landmark in landmarks_of(each).landmark:
                annotation.keypoints.add().point_2d.x = landmark.x
                annotation.keypoints[-1].point_2d.y = landmark.y
        cc.outputs["FRAME_ANNOTATION"].add(found, cc.time)


class Lift2DFrameAnnotationTo3DCalculator(Calculator):
    """Adds the places in space to objects of nine points in the image.

    Inputs: FRAME_ANNOTATION (mediapipe.FrameAnnotation).
    Outputs: LIFTED_FRAME_ANNOTATION (mediapipe.FrameAnnotation): with point_3d, rotation,
        translation, scale, and numbers that count the objects of a run from 1.
    Options (mediapipe.Lift2DFrameAnnotationTo3DCalculatorOptions):
        normalized_focal_x, normalized_focal_y: in halves of the image's sides.
        normalized_principal_point_x, normalized_principal_point_y: likewise, from the middle.
        decoder_config: without effect.

    ::

        node {
          calculator: "Lift2DFrameAnnotationTo3DCalculator"
          input_stream: "FRAME_ANNOTATION:annotation"
          output_stream: "LIFTED_FRAME_ANNOTATION:lifted"
        }

    Source: MediaPipe
    ``modules/objectron/calculators/lift_2d_frame_annotation_to_3d_calculator.cc``.
    """

    options = Options(_LIFT)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["FRAME_ANNOTATION"].set(message_type("FrameAnnotation"))
        contract.outputs["LIFTED_FRAME_ANNOTATION"].set(message_type("FrameAnnotation"))
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        options = self.options
        self._focal = options.normalized_focal_x, options.normalized_focal_y
        self._center = options.normalized_principal_point_x, options.normalized_principal_point_y
        self._ids = count(1)

    def process(self, cc: CalculatorContext) -> None:
        found = message_type("FrameAnnotation")()
        found.CopyFrom(cc.inputs["FRAME_ANNOTATION"].value)
        for annotation in found.annotations:
            points = [(each.point_2d.x, each.point_2d.y) for each in annotation.keypoints]
            if len(points) != POINTS or not np.isfinite(points).all():
                raise GraphError(
                    f"an object has {POINTS} points that are numbers; this one has {len(points)}: "
                    f"{points}",
                    code=Code.INVALID_ARGUMENT,
                )
            box = box_in_space(np.array(points), self._focal, self._center)
            for keypoint, (x, y, z) in zip(annotation.keypoints, box.points.tolist(), strict=True):
                keypoint.point_3d.x, keypoint.point_3d.y, keypoint.point_3d.z = x, y, z
            annotation.rotation[:] = box.rotation.reshape(-1).tolist()
            annotation.translation[:] = box.translation.tolist()
            annotation.scale[:] = box.scale.tolist()
            annotation.object_id = next(self._ids)
        found.timestamp = int(cc.time)
        cc.outputs["LIFTED_FRAME_ANNOTATION"].add(found, cc.time)


class FrameAnnotationToRectCalculator(Calculator):
    """Makes a rectangle around each object, turned so that the object's upright axis is vertical.

    Seen from above, that is the axis to the front; the two thresholds keep it from flickering.

    Inputs: FRAME_ANNOTATION (mediapipe.FrameAnnotation): lifted.
    Outputs: NORM_RECTS (list of mediapipe.NormalizedRect).
    Options (mediapipe.FrameAnnotationToRectCalculatorOptions):
        off_threshold, on_threshold: degrees below which an object that was not seen from above, or
            that was, is; default 40 and 41.

    ::

        node {
          calculator: "FrameAnnotationToRectCalculator"
          input_stream: "FRAME_ANNOTATION:lifted"
          output_stream: "NORM_RECTS:rects"
        }

    Source: MediaPipe ``modules/objectron/calculators/frame_annotation_to_rect_calculator.cc``.
    """

    options = Options(_RECT)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["FRAME_ANNOTATION"].set(message_type("FrameAnnotation"))
        contract.outputs["NORM_RECTS"].set(list_of("NormalizedRect"))
        options = contract.options(_RECT)
        contract.require(
            options.off_threshold <= options.on_threshold,
            "off_threshold is at most on_threshold",
        )
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._is_from_above = False

    def process(self, cc: CalculatorContext) -> None:
        annotations = cc.inputs["FRAME_ANNOTATION"].value.annotations
        cc.outputs["NORM_RECTS"].add([self._rect(each) for each in annotations], cc.time)

    def _rect(self, annotation: Any) -> Any:
        points = [(each.point_2d.x, each.point_2d.y) for each in annotation.keypoints]
        if not points or len(annotation.rotation) != 9 or len(annotation.translation) != 3:
            raise GraphError(
                "an object needs keypoints, a rotation of 9 and a translation of 3 numbers",
                code=Code.INVALID_ARGUMENT,
            )
        low = np.min(points, axis=0)
        # As MediaPipe: the search for the largest begins above 0.
        high = np.maximum(np.max(points, axis=0), SMALLEST)
        rotation = np.array(annotation.rotation).reshape(3, 3)
        translation = np.array(annotation.translation)
        options = self.options
        limit = options.on_threshold if self._is_from_above else options.off_threshold
        angle = math.degrees(math.acos(max(-1.0, min(1.0, rotation[2, 1]))))
        self._is_from_above = angle < limit
        axis = rotation[:, 2] if self._is_from_above else rotation[:, 1]
        return message_type("NormalizedRect")(
            x_center=(low[0] + high[0]) / 2,
            y_center=(low[1] + high[1]) / 2,
            width=high[0] - low[0],
            height=high[1] - low[1],
            rotation=_angle(axis, translation),
        )


def _angle(axis: Floats, translation: Floats) -> float:
    """Return the turn that makes an axis of a box vertical in the image, in radians."""
    above, below = translation + axis, translation - axis
    dx, dy = below[2] * below[:2] - above[2] * above[:2]
    return math.pi / 2 - math.atan2(dy, dx)


FRAME_ANNOTATIONS: tuple[type[Calculator], ...] = (
    FrameAnnotationToRectCalculator,
    LandmarksToFrameAnnotationCalculator,
    Lift2DFrameAnnotationTo3DCalculator,
)


_OPTIONS = messages.FilterDetectionCalculatorOptions
_SIDES: Final = ("LABELS", "LABELS_CSV", "LABEL_MAP")


class FilterDetectionCalculator(Calculator):
    """Keeps the labels that are allowed, with their scores; the highest score comes first.

    A detection without a label that is left is dropped.

    Inputs: DETECTIONS (list of mediapipe.Detection) or DETECTION (mediapipe.Detection).
    Outputs: the same tag; a DETECTION that is dropped has no packet.
    Input side packets, at most one; without one every label is allowed:
        LABELS (list of str), LABELS_CSV (str, with commas) or LABEL_MAP (map of int to str):
        labels, or regular expressions that match a whole label.
    Options (mediapipe.FilterDetectionCalculatorOptions):
        min_score, max_score: scores outside are left out.
        fail_on_empty_labels, empty_allowed_labels_means_allow_everything: for an empty list, which
            else allows no label.

    ::

        node {
          calculator: "FilterDetectionCalculator"
          input_stream: "DETECTIONS:detections"
          input_side_packet: "LABELS_CSV:allowed_labels"
          output_stream: "DETECTIONS:filtered_detections"
          options { [mediapipe.FilterDetectionCalculatorOptions.ext] { min_score: 0.5 } }
        }

    Source: MediaPipe ``modules/objectron/calculators/filter_detection_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs, sides = contract.inputs, contract.outputs, contract.input_side_packets
        contract.require(
            inputs.has_tag("DETECTIONS") is not inputs.has_tag("DETECTION"),
            "exactly one of the input streams DETECTIONS and DETECTION is needed",
        )
        for ports in (inputs, outputs):
            ports["DETECTIONS"].set(list_of("Detection")).optional()
            ports["DETECTION"].set(message_type("Detection")).optional()
        contract.require(
            inputs.has_tag("DETECTIONS") is outputs.has_tag("DETECTIONS"),
            "the output stream has the tag of the input stream",
        )
        sides["LABELS"].set(GenericAlias(list, (str,))).optional()
        sides["LABELS_CSV"].set(str).optional()
        sides["LABEL_MAP"].set(dict).optional()
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        sides = cc.input_side_packets
        tag = next((tag for tag in _SIDES if sides.has_tag(tag)), None)
        self._allowed: re.Pattern[str] | None = None
        if tag is None:
            return
        labels = _labels(sides[tag].value)
        if not labels and self.options.fail_on_empty_labels:
            raise GraphError("the list of allowed labels is empty", code=Code.INVALID_ARGUMENT)
        if labels or not self.options.empty_allowed_labels_means_allow_everything:
            self._allowed = _pattern(labels)

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs.has_tag("DETECTIONS"):
            found = map(self._filtered, cc.inputs["DETECTIONS"].value)
            cc.outputs["DETECTIONS"].add([each for each in found if each is not None], cc.time)
            return
        kept = self._filtered(cc.inputs["DETECTION"].value)
        if kept is not None:
            cc.outputs["DETECTION"].add(kept, cc.time)

    def _filtered(self, detection: Any) -> Any:
        """Return the detection with the labels that are left; None without any."""
        options = self.options
        pairs = [
            (score, label)
            for label, score in zip(detection.label, detection.score, strict=False)
            if (self._allowed is None or self._allowed.fullmatch(label))
            and not (options.HasField("min_score") and score < options.min_score)
            and not (options.HasField("max_score") and score > options.max_score)
        ]
        if not pairs:
            return None
        pairs.sort(key=lambda pair: -pair[0])
        found = message_type("Detection")(
            score=[score for score, _ in pairs], label=[label for _, label in pairs]
        )
        if detection.HasField("location_data"):
            found.location_data.CopyFrom(detection.location_data)
        return found


def _labels(value: Any) -> list[str]:
    if isinstance(value, str):
        return [label.strip() for label in value.split(",") if label.strip()]
    return list(value.values() if isinstance(value, Mapping) else value)


def _pattern(labels: list[str]) -> re.Pattern[str]:
    """An expression that matches the labels, and what they match as expressions."""
    if not labels:
        return re.compile(r"(?!)")
    try:
        return re.compile("|".join(f"(?:{label})|{re.escape(label)}" for label in labels))
    except re.error as error:
        raise GraphError(
            f"an allowed label is not a regular expression: {error}", code=Code.INVALID_ARGUMENT
        ) from error
