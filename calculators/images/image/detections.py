"""Detections: made of boxes, labelled, moved to the image without padding, or as arrays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_frame import ImageError
from calculators.images.image.label_map import Label, label_items, with_label_file
from calculators.images.image.packet_types import LETTERBOX_PADDING, list_of, message_type
from calculators.kit.graph_directory import GRAPH_DIRECTORY
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options
from protos import messages

# LocationData.Format
RELATIVE_BOUNDING_BOX = 2


def detections(
    scores: Sequence[Sequence[float]],
    classes: Sequence[Sequence[int]],
    boxes: npt.NDArray[np.float32],
    keypoints: npt.NDArray[np.float32],
    *,
    flips: bool,
) -> list[Any]:
    """One message per box.

    Args:
        scores, classes: per box, lists of equal length.
        boxes: (n, 4): ymin, xmin, ymax, xmax, in fractions of the image.
        keypoints: (n, m, 2), x and y.
        flips: True if the origin of the detections is at the bottom left.
    """
    kind = message_type("Detection")
    low, extents = boxes[:, :2].copy(), boxes[:, 2:] - boxes[:, :2]
    if flips:
        low[:, 0] = 1 - boxes[:, 2]
        keypoints = keypoints.copy()
        keypoints[:, :, 1] = 1 - keypoints[:, :, 1]
    # Lists of Python numbers: a message takes them several times faster than NumPy's.
    rows = zip(*(scores, classes, low.tolist(), extents.tolist(), keypoints.tolist()), strict=True)
    found = []
    for of_scores, of_classes, (ymin, xmin), (height, width), points in rows:
        one = kind(score=of_scores, label_id=of_classes)
        location = one.location_data
        location.format = RELATIVE_BOUNDING_BOX
        box = location.relative_bounding_box
        box.xmin, box.ymin, box.width, box.height = xmin, ymin, width, height
        for x, y in points:
            location.relative_keypoints.add(x=x, y=y)
        found.append(one)
    return found


def sensible(boxes: npt.NDArray[np.float32], *, allows_nan: bool = False) -> npt.NDArray[np.bool_]:
    """A mask of the boxes with a width and a height, since a model can predict anything.

    ``boxes`` is (n, 4) or more; the first four numbers are ymin, xmin, ymax, xmax.
    """
    with np.errstate(invalid="ignore"):
        extents = boxes[:, 2:4] - boxes[:, :2]
        if allows_nan:
            return np.logical_not((extents < 0).any(axis=1))
        found: npt.NDArray[np.bool_] = np.all(extents >= 0, axis=1)
        return found


Floats = npt.NDArray[np.float32]

# NonMaxSuppressionCalculatorOptions.OverlapType
JACCARD: Final = 1
MODIFIED_JACCARD: Final = 2
# LocationData.Format
_BOUNDING_BOX = 1


def overlaps(boxes: Floats, box: Floats, kind: int) -> Floats:
    """The area that each box shares with ``box``, as a fraction of the area that ``kind`` names.

    JACCARD: the smallest box around both. MODIFIED_JACCARD: ``box``. Else the union of both.

    Args:
        boxes: (n, 4): xmin, ymin, xmax, ymax.
        box: (4,).

    Source: MediaPipe ``calculators/util/non_max_suppression_calculator.cc``.
    """
    low, high = np.maximum(boxes[:, :2], box[:2]), np.minimum(boxes[:, 2:], box[2:])
    shared = _areas(np.maximum(high - low, 0))
    own = (box[2] - box[0]) * (box[3] - box[1])
    if kind == JACCARD:
        whole = _areas(np.maximum(boxes[:, 2:], box[2:]) - np.minimum(boxes[:, :2], box[:2]))
    elif kind == MODIFIED_JACCARD:
        whole = np.full(len(boxes), own)
    else:
        whole = _areas(boxes[:, 2:] - boxes[:, :2]) + own - shared
    found: Floats = np.zeros(len(boxes), np.float32)
    np.divide(shared, whole, out=found, where=whole > 0)
    return found


def _areas(extents: Floats) -> Floats:
    return extents[:, 0] * extents[:, 1]


def relative_box(detection: Any, size: tuple[int, int] | None) -> tuple[float, ...]:
    """xmin, ymin, xmax, ymax of a mediapipe.Detection, in fractions of the image.

    Args:
        size: width and height of the image in pixels, if it is known.

    Raises:
        ImageError: the detection has no box, or one in pixels and ``size`` is not known.
    """
    location = detection.location_data
    if location.format == RELATIVE_BOUNDING_BOX:
        box = location.relative_bounding_box
        xmin, ymin = box.xmin, box.ymin
        return xmin, ymin, xmin + box.width, ymin + box.height
    if location.format == _BOUNDING_BOX and size is not None:
        box, (width, height) = location.bounding_box, size
        right, bottom = box.xmin + box.width, box.ymin + box.height
        return box.xmin / width, box.ymin / height, right / width, bottom / height
    raise ImageError(
        "a detection has no RELATIVE_BOUNDING_BOX; a BOUNDING_BOX, in pixels, needs the input "
        "stream IMAGE, which says how large the image is"
    )


_OPTIONS = messages.DetectionLabelIdToTextCalculatorOptions


class DetectionLabelIdToTextCalculator(Calculator):
    """Gives detections the labels of their label ids; ids without a label stay as they are.

    Inputs: #0: list of mediapipe.Detection.
    Outputs: #0: list of mediapipe.Detection.
    Options (mediapipe.DetectionLabelIdToTextCalculatorOptions), one of the first three:
        label_map_path: a file with one label per line, searched beside the graph, then in the
            working directory.
        label: the labels in order.
        label_items: labels, and names for people, by id.
        keep_label_id: ids for which a label was found stay beside it.

    ::

        node {
          calculator: "DetectionLabelIdToTextCalculator"
          input_stream: "detections"
          output_stream: "detections_with_labels"
          node_options {
            [type.googleapis.com/mediapipe.DetectionLabelIdToTextCalculatorOptions] {
              label_map_path: "labels.txt"
            }
          }
        }

    Source: MediaPipe ``calculators/util/detection_label_id_to_text_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs[0].set(list_of("Detection"))
        contract.outputs[0].set(list_of("Detection"))
        options = contract.options(_OPTIONS)
        sources = [
            options.HasField("label_map_path"),
            bool(options.label),
            bool(options.label_items),
        ]
        contract.require(
            sum(sources) <= 1, "only one of label_map_path, label and label_items can be given"
        )
        contract.use_service(GRAPH_DIRECTORY)
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> Awaitable[None] | None:
        options = self.options
        if options.HasField("label_map_path"):
            return with_label_file(cc, options.label_map_path, self._label)
        if options.label:
            self._label({number: Label(name) for number, name in enumerate(options.label)})
        else:
            self._label(label_items(options.label_items))
        return None

    def _label(self, labels: dict[int, Label]) -> None:
        self._labels = labels

    def process(self, cc: CalculatorContext) -> None:
        cc.outputs[0].add([self._labelled(found) for found in cc.inputs[0].value], cc.time)

    def _labelled(self, detection: Any) -> Any:
        found = message_type("Detection")()
        found.CopyFrom(detection)
        labels = [self._labels[number] for number in found.label_id if number in self._labels]
        for label in labels:
            found.label.append(label.name)
            if label.display_name is not None:
                found.display_name.append(label.display_name)
        if labels and not self.options.keep_label_id:
            del found.label_id[:]
        return found


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
    found = message_type("Detection")()
    found.CopyFrom(detection)
    box = found.location_data.relative_bounding_box
    box.xmin, box.ymin = (box.xmin - left) / width, (box.ymin - top) / height
    box.width, box.height = box.width / width, box.height / height
    for keypoint in found.location_data.relative_keypoints:
        keypoint.x, keypoint.y = (keypoint.x - left) / width, (keypoint.y - top) / height
    return found


def _boxes(detections: list[Any]) -> npt.NDArray[Any]:
    rows = [relative_box(detection, None) for detection in detections]
    return np.array(rows, np.float32).reshape(-1, 4)[:, [1, 0, 3, 2]]


def _scores(detections: list[Any]) -> npt.NDArray[Any]:
    firsts = [detection.score[0] if detection.score else np.nan for detection in detections]
    return np.array(firsts, np.float32)


def _label_ids(detections: list[Any]) -> npt.NDArray[Any]:
    firsts = [detection.label_id[0] if detection.label_id else -1 for detection in detections]
    return np.array(firsts, np.int32)


def _labels(detections: list[Any]) -> npt.NDArray[Any]:
    firsts = [detection.label[0] if detection.label else "" for detection in detections]
    found = np.empty(len(firsts), object)
    found[:] = [label.encode() for label in firsts]
    return found


_OUTPUTS: Final[Mapping[str, Callable[[list[Any]], npt.NDArray[Any]]]] = MappingProxyType(
    {"BOXES": _boxes, "SCORES": _scores, "LABEL_IDS": _label_ids, "LABELS": _labels}
)
#: The type and shape that the model's metadata shows to clients.
_TYPES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "BOXES": np.ndarray[tuple[int, int], np.dtype[np.float32]],
        "SCORES": np.ndarray[tuple[int], np.dtype[np.float32]],
        "LABEL_IDS": np.ndarray[tuple[int], np.dtype[np.int32]],
        "LABELS": np.ndarray[tuple[int], np.dtype[np.object_]],
    }
)


class DetectionsToTensorsCalculator(Calculator):
    """Makes arrays of n detections; of each, its first label and score.

    Only graphrt has it: in OpenVINO Model Server detections cannot leave the graph.

    Inputs:
        DETECTIONS (list of mediapipe.Detection): with relative boxes.
        TICK (any type, optional): where it has a packet and DETECTIONS has none, such as the image
            in which nothing was found, the arrays are empty.
    Outputs (numpy.ndarray), at least one:
        BOXES: (n, 4) float32: ymin, xmin, ymax, xmax, in fractions of the image.
        SCORES: (n,) float32; NaN where a detection has none.
        LABEL_IDS: (n,) int32; -1 where a detection has none.
        LABELS: (n,) bytes, UTF-8; empty where a detection has none.
    Options: none.

    ::

        node {
          calculator: "DetectionsToTensorsCalculator"
          input_stream: "DETECTIONS:detections"
          output_stream: "BOXES:boxes"
          output_stream: "SCORES:scores"
          output_stream: "LABELS:labels"
        }
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["DETECTIONS"].set(list_of("Detection"))
        contract.inputs["TICK"].set_any().optional()
        contract.require(
            len(contract.outputs) > 0, f"it needs an output stream: {', '.join(_OUTPUTS)}"
        )
        for tag in _OUTPUTS:
            contract.outputs[tag].set(_TYPES[tag]).optional()
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        shard = cc.inputs["DETECTIONS"]
        detections: list[Any] = [] if shard.is_empty() else shard.value
        for tag in cc.outputs.tags():
            cc.outputs[tag].add(_OUTPUTS[tag](detections), cc.time)
