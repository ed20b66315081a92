"""Association calculators: lists of regions joined, of which one wins where two overlap."""

from __future__ import annotations

from typing import Any, ClassVar

from calculators.images.image.overlap import relative_box
from calculators.vision.messages import list_of
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)

_OPTIONS = "mediapipe.AssociationCalculatorOptions"
_SIDES = ("x_center", "y_center", "width", "height")

Box = tuple[float, float, float, float]


class AssociationCalculator(Calculator):
    """Joins lists; an element of a later input replaces those that it overlaps.

    Base of AssociationNormRectCalculator and AssociationDetectionCalculator.
    """

    options = Options(_OPTIONS)
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
