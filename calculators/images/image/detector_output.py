"""`DetectorOutput`: detections from a detector's tensors.

A detector gives boxes as raw numbers, relative to anchors, or finished ones, and scores per class.
`BoxDecoding` makes boxes and scores of raw numbers; `DetectorOutput` chooses the boxes whose scores
suffice and makes messages of them. `FixedOrderDetector` is the base of the nodes whose options say
nothing of the order of the tensors.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from calculators.images.image.detections import detections, sensible
from calculators.images.image.image_frame import ImageError
from calculators.images.image.packet_types import TENSORS, list_of
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)

#: The order of a raw box's numbers, as y, x, height, width; and whether keypoints are y, x.
_ORDERS = {"YXHW": ((0, 1, 2, 3), True), "XYWH": ((1, 0, 3, 2), False), "XYXY": (None, False)}
_LOWEST = np.float32(np.finfo(np.float32).min)


@dataclass(frozen=True, slots=True)
class BoxDecoding:
    """The layout and scales of a model's boxes; the options have the same fields.

    Source: MediaPipe ``calculators/tensor/tensors_to_detections_calculator.cc``.
    """

    num_coords: int
    box_coord_offset: int
    num_keypoints: int
    keypoint_coord_offset: int
    x_scale: float
    y_scale: float
    w_scale: float
    h_scale: float
    apply_exponential_on_box_size: bool
    box_format: str

    @classmethod
    def of(cls, options: Any, box_format: str) -> BoxDecoding:
        names = [name for name in cls.__slots__ if name != "box_format"]
        return cls(box_format=box_format, **{name: getattr(options, name) for name in names})

    def boxes(self, raw: Floats, anchors: Floats, rows: npt.NDArray[np.intp]) -> Floats:
        """Return (m, num_coords): ymin, xmin, ymax, xmax, and keypoints as x, y at their offset.

        Args:
            raw: (n, num_coords).
            anchors: (n or more, 4): y and x of the centre, height, width.
            rows: (m,): the boxes to decode.

        Raises:
            ImageError: there are too few anchors, or a scale is not set.
        """
        scales = np.array([self.y_scale, self.x_scale, self.h_scale, self.w_scale], np.float32)
        if not scales.all():
            raise ImageError(
                "raw boxes need x_scale, y_scale, w_scale and h_scale, which they are divided by; "
                "at least one is not given, or 0"
            )
        if len(anchors) < len(raw):
            raise ImageError(f"{len(raw)} boxes need as many anchors; there are {len(anchors)}")
        raw, anchors = raw[rows], anchors[rows]
        start = self.box_coord_offset
        numbers = raw[:, start : start + 4]
        centre: Floats
        extent: Floats
        order, is_yx = _ORDERS[self.box_format]
        if order is None:
            first, second = numbers[:, [1, 0]], numbers[:, [3, 2]]
            centre, extent = (second - first) * np.float32(0.5), second + first
        else:
            ordered = numbers[:, order]
            centre, extent = ordered[:, :2], ordered[:, 2:]
        centre = centre / scales[:2] * anchors[:, 2:] + anchors[:, :2]
        extent = extent / scales[2:]
        if self.apply_exponential_on_box_size:
            with np.errstate(over="ignore"):
                extent = np.exp(extent)
        extent = extent * anchors[:, 2:]
        found = np.zeros_like(raw)
        found[:, :2], found[:, 2:4] = centre - extent / 2, centre + extent / 2
        at, stop = self.keypoint_coord_offset, self.keypoint_coord_offset + 2 * self.num_keypoints
        points = raw[:, at:stop].reshape(len(raw), self.num_keypoints, 2)
        if is_yx:
            points = points[:, :, ::-1]
        placed = points / scales[1::-1] * anchors[:, np.newaxis, 3:1:-1]
        placed += anchors[:, np.newaxis, 1::-1]
        found[:, at:stop] = placed.reshape(len(raw), stop - at)
        return found


def top_classes(
    raw: Floats, allowed: npt.NDArray[np.bool_], *, sigmoid: bool, clipping: float | None
) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return the highest score of each box and its class, -1 where no class is allowed.

    Args:
        raw: (n, classes).
        allowed: one per class.
        sigmoid: turn the scores into probabilities with the logistic function.
        clipping: first clip the scores to the range from -clipping to clipping.
    """
    scores: npt.NDArray[Any] = raw
    best: Floats
    if sigmoid:
        if clipping is not None:
            limit = np.float32(clipping)
            scores = np.minimum(np.maximum(scores, -limit), limit)
        with np.errstate(over="ignore"):
            scores = 1 / (1 + np.exp(-scores))
    scores = np.where(allowed & ~np.isnan(scores), scores, _LOWEST)
    if scores.shape[1] == 1:
        best = scores[:, 0]
        return best, np.where(best > _LOWEST, 0, -1)
    classes = scores.argmax(axis=1)
    best = scores[np.arange(len(scores)), classes]
    return best, np.where(best > _LOWEST, classes, -1)


def anchor_array(anchors: list[Any]) -> Floats:
    """Return mediapipe.Anchor messages as (n, 4): y and x of the centre, height, width."""
    found = np.empty((len(anchors), 4), np.float32)
    for row, anchor in zip(found, anchors, strict=True):
        row[:] = anchor.y_center, anchor.x_center, anchor.h, anchor.w
    return found


def check_detector_options(contract: CalculatorContract, options: Any) -> None:
    """Refuse the options that MediaPipe refuses, and offsets beyond a box's numbers."""
    for name in ("num_classes", "num_coords"):
        contract.require(
            getattr(options, name) > 0, f"{name} is required: a number above 0, as of the model"
        )
    contract.require(
        options.num_values_per_keypoint == 2,
        f"num_values_per_keypoint can only be 2, not {options.num_values_per_keypoint}",
    )
    numbers = 4 + 2 * options.num_keypoints
    contract.require(
        numbers == options.num_coords,
        f"num_coords is 4 and 2 for each of num_keypoints, {numbers}, not {options.num_coords}",
    )
    ends = {"box_coord_offset": 4, "keypoint_coord_offset": 2 * options.num_keypoints}
    for name, length in ends.items():
        start = getattr(options, name)
        contract.require(
            0 <= start <= options.num_coords - length,
            f"{name} is {start}; it has to leave room for {length} of {options.num_coords} numbers",
        )


def allowed_classes(
    count: int, ignored: Collection[int], only: Collection[int] = ()
) -> npt.NDArray[np.bool_]:
    """Return (count,) truth values: classes in ``only`` or, if it is empty, not in ``ignored``."""
    classes = np.arange(count)
    if only:
        return np.isin(classes, list(only))
    return ~np.isin(classes, list(ignored))


def float_tensor(tensors: list[Any], index: int, name: str) -> Floats:
    """Return the tensor at ``index``, of float32.

    Raises:
        ImageError: it is of another type.
    """
    tensor: npt.NDArray[Any] = tensors[index]
    if tensor.dtype != np.float32:
        raise ImageError(
            f"tensor {index} of the list, the {name}, has elements of type {tensor.dtype}; "
            f"float32 is expected"
        )
    return tensor


def shaped(tensor: Floats, shape: tuple[int, ...], name: str) -> Floats:
    """Return the tensor reshaped to ``shape``; its own shape may have leading ones.

    Raises:
        ImageError: it has another shape.
    """
    own = tensor.shape
    leading = len(own) - len(shape)
    if leading < 0 or own[leading:] != shape or any(length != 1 for length in own[:leading]):
        raise ImageError(
            f"the tensor with the {name} has the shape {tuple(own[:8])}; "
            f"{(*((1,) * max(leading, 1)), *shape)} is expected"
        )
    return tensor.reshape(shape)


Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class DetectorTensors:
    """The place of each tensor in the list."""

    boxes: int = 0
    classes: int = 1
    #: None: 1 of two or three tensors, else 2.
    scores: int | None = None
    count: int = 3
    anchors: int = 2


@dataclass(slots=True)
class DetectorOutput:
    """Reads the tensors of one model.

    Two tensors are raw boxes and scores, a third the anchors; four are the finished boxes, classes,
    scores and their number.

    Attributes:
        options: mediapipe.TensorsToDetectionsCalculatorOptions, or OpenVINO's.
        decoding: the decoding of raw boxes.
        allowed: one truth value per class; True for the classes that count.
        order: the order of the tensors.
        corners: the places of ymin, xmin, ymax and xmax in a finished box.
        classes_per_box: the number of classes for which a finished box is repeated.
        max_results: maximum number of detections; -1 for all.
        is_filtered: apply ``allowed`` to finished boxes too, and drop boxes with NaN.
        anchors: mediapipe.Anchor messages; None if they come with the tensors.
    """

    options: Any
    decoding: BoxDecoding
    allowed: npt.NDArray[np.bool_]
    order: DetectorTensors
    corners: tuple[int, int, int, int]
    classes_per_box: int
    max_results: int
    is_filtered: bool
    anchors: list[Any] | None
    _anchors: Floats | None = None

    def detections(self, tensors: list[Any]) -> list[Any]:
        """Return the detections in the tensors, as mediapipe.Detection messages.

        Raises:
            ImageError: number, type or shape of the tensors differ from the options.
            GraphError: there are no anchors (UNAVAILABLE).
        """
        if len(tensors) in (2, 3):
            if self.corners != (0, 1, 2, 3):
                raise ImageError(
                    "box_boundaries_indices are for a model whose boxes are finished, which has 4 "
                    f"tensors; there are {len(tensors)}"
                )
            return self._of_raw(tensors)
        if len(tensors) == 4:
            return self._of_finished(tensors)
        raise ImageError(
            f"a detector has 2 tensors, raw boxes and scores, 3 with anchors, or 4, finished "
            f"boxes, classes, scores and their number; there are {len(tensors)}"
        )

    def _of_raw(self, tensors: list[Any]) -> list[Any]:
        options, order = self.options, self.order
        count, width = options.num_boxes, options.num_coords
        if count < 1:
            raise ImageError("num_boxes is required where a model's boxes are raw")
        scores_at = 1 if order.scores is None else order.scores
        raw = shaped(float_tensor(tensors, order.boxes, "boxes"), (count, width), "boxes")
        scores = float_tensor(tensors, scores_at, "scores")
        scores = shaped(scores, (count, options.num_classes), "scores")
        anchors = self._anchors_of(tensors)
        clipping = options.HasField("score_clipping_thresh")
        best, classes = top_classes(
            scores,
            self.allowed,
            sigmoid=options.sigmoid_score,
            clipping=options.score_clipping_thresh if clipping else None,
        )
        # Some ten boxes out of a thousand count; the others are not decoded.
        rows = np.flatnonzero(self._scored(best))
        boxes = self.decoding.boxes(raw, anchors, rows)
        return self._messages(boxes, best[rows, np.newaxis], classes[rows, np.newaxis])

    def _of_finished(self, tensors: list[Any]) -> list[Any]:
        order, per_box = self.order, self.classes_per_box
        scores_at = 2 if order.scores is None else order.scores
        boxes = float_tensor(tensors, order.boxes, "boxes")
        most = boxes.shape[1] if boxes.ndim == 3 else 0
        boxes = shaped(boxes, (most, self.options.num_coords), "boxes")
        classes = shaped(float_tensor(tensors, order.classes, "classes"), (most,), "classes")
        scores = shaped(float_tensor(tensors, scores_at, "scores"), (most,), "scores")
        found = shaped(float_tensor(tensors, order.count, "number of boxes"), (1,), "number")[0]
        if not 0 <= found * per_box <= most:  # false for NaN too
            raise ImageError(
                f"the model says that it found {found:g} boxes; its tensors have {most // per_box}"
            )
        count = int(found)
        used = count * per_box
        return self._messages(
            boxes[:used:per_box],
            scores[:used].reshape(count, per_box),
            classes[:used].astype(np.int64).reshape(count, per_box),
        )

    def _anchors_of(self, tensors: list[Any]) -> Floats:
        """Return the anchors of the first tensors, for the whole run, as in MediaPipe."""
        if self._anchors is None:
            if len(tensors) == 3:
                found = float_tensor(tensors, self.order.anchors, "anchors")
                self._anchors = shaped(found, (self.options.num_boxes, 4), "anchors").copy()
            elif self.anchors is not None:
                self._anchors = anchor_array(self.anchors)
            else:
                raise GraphError(
                    "there are no anchors: neither a third tensor nor a side packet ANCHORS",
                    code=Code.UNAVAILABLE,
                )
        return self._anchors

    def _messages(self, boxes: Floats, scores: Floats, classes: npt.NDArray[np.int64]) -> list[Any]:
        """One message per box whose score counts; ``scores`` and ``classes`` are (n, per box)."""
        options = self.options
        counts = self._scored(scores)
        if self.is_filtered:
            counts &= self._allowed(classes)
        is_ordered = self.corners == (0, 1, 2, 3)
        ordered = boxes[:, :4] if is_ordered else boxes[:, self.corners]
        kept = sensible(ordered, allows_nan=not self.is_filtered) & counts.any(axis=1)
        limit = self.max_results if self.max_results > 0 else None
        rows = np.flatnonzero(kept)[:limit]
        at, count = options.keypoint_coord_offset, options.num_keypoints
        if counts.shape[1] == 1:
            of_scores, of_classes = scores[rows].tolist(), classes[rows].tolist()
        else:
            of_scores = [scores[row][counts[row]].tolist() for row in rows]
            of_classes = [classes[row][counts[row]].tolist() for row in rows]
        return detections(
            of_scores,
            of_classes,
            ordered[rows],
            boxes[rows, at : at + 2 * count].reshape(len(rows), count, 2),
            flips=options.flip_vertically,
        )

    def _scored(self, scores: Floats) -> npt.NDArray[np.bool_]:
        """A mask of the scores that are high enough; NaN is, as in MediaPipe."""
        if not self.options.HasField("min_score_thresh"):
            return np.ones(scores.shape, bool)
        return np.logical_not(scores < np.float32(self.options.min_score_thresh))

    def _allowed(self, classes: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        if self.allowed.all():
            return np.ones(classes.shape, bool)
        known = (classes >= 0) & (classes < len(self.allowed))
        found: npt.NDArray[np.bool_] = known & self.allowed[np.where(known, classes, 0)]
        return found


class FixedOrderDetector(Calculator):
    """The older forms of TensorsToDetectionsCalculator; a subclass has `options` and their name.

    Attributes:
        options: a node's options, a message.
        is_filtered: ``ignore_classes`` count for finished boxes too, and boxes of NaN are left out.
    """

    options: ClassVar[Options[Any]]
    is_filtered: ClassVar[bool]

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["TENSORS"].set(TENSORS)
        contract.outputs["DETECTIONS"].set(list_of("Detection"))
        contract.input_side_packets["ANCHORS"].set(list_of("Anchor")).optional()
        check_detector_options(contract, contract.options(cls.options.options_type))
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        options, sides = self.options, cc.input_side_packets
        self._output = DetectorOutput(
            options=options,
            decoding=BoxDecoding.of(options, "XYWH" if options.reverse_output_order else "YXHW"),
            allowed=allowed_classes(options.num_classes, options.ignore_classes),
            order=DetectorTensors(),
            corners=(0, 1, 2, 3),
            classes_per_box=1,
            max_results=-1,
            is_filtered=self.is_filtered,
            anchors=sides["ANCHORS"].value if sides.has_tag("ANCHORS") else None,
        )

    def process(self, cc: CalculatorContext) -> None:
        shard = cc.inputs["TENSORS"]
        if not shard.is_empty():
            cc.outputs["DETECTIONS"].add(self._output.detections(shard.value), cc.time)
