"""`DetectorOutput`: detections from a detector's tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.images.image.box_decoding import BoxDecoding, anchor_array, top_classes
from calculators.images.image.detection_list import detections, sensible
from calculators.images.image.image_error import ImageError
from graph_runtime import Code, GraphError


def float_tensor(tensors: list[Any], index: int, name: str) -> Floats:
    """The tensor at ``index``, of float32.

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
    """The tensor reshaped to ``shape``; its own shape may have leading ones.

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
class TensorOrder:
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
    order: TensorOrder
    corners: tuple[int, int, int, int]
    classes_per_box: int
    max_results: int
    is_filtered: bool
    anchors: list[Any] | None
    _anchors: Floats | None = None

    def detections(self, tensors: list[Any]) -> list[Any]:
        """The detections in the tensors, as mediapipe.Detection messages.

        Raises:
            ImageError: number, type or shape of the tensors differ from those of the options.
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
        """The anchors of the first tensors, for the whole run, as in MediaPipe."""
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
