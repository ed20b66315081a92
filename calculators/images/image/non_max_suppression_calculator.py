"""NonMaxSuppressionCalculator: the best of the boxes that overlap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.images.image.detections import overlaps, relative_box
from calculators.images.image.image_frame import ImageError, ImageFrame
from calculators.images.image.packet_types import list_of, message_type
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options
from protos import messages

Floats = npt.NDArray[np.float32]


def overlapping(
    boxes: Floats, kind: int, threshold: np.float32
) -> Iterator[tuple[int, npt.NDArray[np.int64]]]:
    """Yield the place of each box that overlaps no better one, and of all boxes that it overlaps.

    Args:
        boxes: (n, 4): xmin, ymin, xmax, ymax, in fractions of the image, the best first.
        kind: the measure of overlap, see `overlaps`.
        threshold: the overlap above which boxes become one.

    Source: MediaPipe ``calculators/util/non_max_suppression_calculator.cc``.
    """
    left = np.arange(len(boxes))
    while len(left):
        best = int(left[0])
        alike = overlaps(boxes[left], boxes[best], kind) > threshold
        yield best, left[alike]
        if not alike.any():
            break  # as MediaPipe: the box does not even overlap itself enough
        left = left[~alike]


def set_mean(found: Any, detections: Sequence[Any], boxes: Floats, scores: Floats) -> None:
    """Give a detection the mean box and keypoints of others, weighted by their scores.

    Args:
        found: a mediapipe.Detection, with a relative box; it is changed.
        detections: with as many keypoints, or more.
        boxes: (n, 4), of ``detections``: xmin, ymin, xmax, ymax.
        scores: (n,), likewise.

    Raises:
        ImageError: a detection has fewer keypoints.
    """
    weights = scores / scores.sum()
    xmin, ymin, xmax, ymax = (weights @ boxes).tolist()
    location = found.location_data
    box = location.relative_bounding_box
    box.xmin, box.ymin = xmin, ymin
    box.width, box.height = xmax - xmin, ymax - ymin
    all_points = [detection.location_data.relative_keypoints for detection in detections]
    if any(len(points) < len(location.relative_keypoints) for points in all_points):
        raise ImageError("detections that overlap have different numbers of keypoints")
    shares: list[float] = weights.tolist()  # a message takes Python's numbers much faster
    for place, keypoint in enumerate(location.relative_keypoints):
        weighed = [(w, points[place]) for w, points in zip(shares, all_points, strict=True)]
        keypoint.x = sum(w * point.x for w, point in weighed)
        keypoint.y = sum(w * point.y for w, point in weighed)


_OPTIONS = messages.NonMaxSuppressionCalculatorOptions
# NonMaxSuppressionCalculatorOptions.NmsAlgorithm
_WEIGHTED = 1


class NonMaxSuppressionCalculator(Calculator):
    """Keeps detections in the order of their scores, and drops those that overlap better ones.

    Of each detection only the label with the highest score stays; one without labels is dropped.

    Inputs:
        #0 to #(num_detection_streams - 1): list of mediapipe.Detection.
        IMAGE (`ImageFrame`, optional): gives the size for detections whose boxes are in pixels.
    Outputs: #0: list of mediapipe.Detection.
    Options (mediapipe.NonMaxSuppressionCalculatorOptions):
        num_detection_streams: default 1.
        max_num_detections: the maximum; -1, the default, for all. Ignored with WEIGHTED.
        min_score_threshold: detections with a lower score are dropped, if it is above 0. With
            WEIGHTED they still weigh in those that they overlap.
        min_suppression_threshold: how much two boxes may overlap; default 1, which drops nothing.
        overlap_type: the shared area as a fraction of the smallest box around both (JACCARD, the
            default), of the worse box (MODIFIED_JACCARD), or of the area of both together
            (INTERSECTION_OVER_UNION).
        return_empty_detections: send an empty list for an empty input.
        algorithm: WEIGHTED: boxes that overlap become one, their mean weighted by the scores.
        multiclass_nms: only boxes of the same label_id count as overlapping.

    ::

        node {
          calculator: "NonMaxSuppressionCalculator"
          input_stream: "detections"
          output_stream: "best_detections"
          node_options {
            [type.googleapis.com/mediapipe.NonMaxSuppressionCalculatorOptions] {
              min_suppression_threshold: 0.4
              min_score_threshold: 0.6
              max_num_detections: 5
              overlap_type: INTERSECTION_OVER_UNION
            }
          }
        }

    Source: MediaPipe ``calculators/util/non_max_suppression_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        options = contract.options(_OPTIONS)
        streams = options.num_detection_streams
        contract.require(streams > 0, f"num_detection_streams is at least 1, not {streams}")
        contract.require(
            options.max_num_detections != 0, "max_num_detections is above 0, or -1 for all"
        )
        contract.require(options.overlap_type != 0, "overlap_type is not to be unspecified")
        for index in range(streams):
            contract.inputs[index].set(list_of("Detection"))
        contract.inputs["IMAGE"].set(ImageFrame).optional()
        contract.outputs[0].set(list_of("Detection"))
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        options = self.options
        detections: list[Any] = []
        for shard in cc.inputs.all_of(""):
            if not shard.is_empty():
                detections += shard.value
        if not detections:
            if options.return_empty_detections:
                cc.outputs[0].add([], cc.time)
            return
        size = None
        if cc.inputs.has_tag("IMAGE") and not cc.inputs["IMAGE"].is_empty():
            frame: ImageFrame = cc.inputs["IMAGE"].value
            size = (frame.width, frame.height)
        found = (
            self._by_class(detections, size)
            if options.multiclass_nms
            else self._best(detections, size)
        )
        cc.outputs[0].add(found, cc.time)

    def _by_class(self, detections: list[Any], size: tuple[int, int] | None) -> list[Any]:
        classes: dict[int, list[Any]] = {}
        for detection in detections:
            for label_id in detection.label_id:
                classes.setdefault(label_id, []).append(detection)
        found = [best for label_id in classes for best in self._best(classes[label_id], size)]
        found.sort(key=lambda detection: -detection.score[0])
        return found[: self._limit(len(found))]

    def _best(self, detections: list[Any], size: tuple[int, int] | None) -> list[Any]:
        """Return the detections without those that overlap better ones."""
        options = self.options
        tops = [(_top(detection), detection) for detection in detections if _is_labelled(detection)]
        scores = np.array([detection.score[top] for top, detection in tops], np.float32)
        order = np.argsort(-scores, kind="stable")
        is_weighted = options.algorithm == _WEIGHTED
        is_low = np.zeros(len(order), np.bool_)
        if options.min_score_threshold > 0:
            is_low = scores[order] < np.float32(options.min_score_threshold)
        if not is_weighted:
            order = order[~is_low]
        if len(order) == 0:
            return []
        chosen = [tops[index] for index in order]
        if is_weighted:
            size = None  # a mean has to be a relative box
        boxes = np.array([relative_box(detection, size) for _, detection in chosen], np.float32)
        if not is_weighted:
            places = self._apart(boxes, self._limit(len(boxes)))
            return [_with_top_label(*chosen[place]) for place in places]
        found = []
        threshold = np.float32(options.min_suppression_threshold)
        for best, group in overlapping(boxes, options.overlap_type, threshold):
            if is_low[best]:
                break  # a box of a lower score is not a detection, but weighs in others
            one = _with_top_label(*chosen[best])
            if len(group):
                alike = [chosen[place][1] for place in group]
                set_mean(one, alike, boxes[group], scores[order[group]])
            found.append(one)
        return found

    def _apart(self, boxes: npt.NDArray[np.float32], limit: int) -> list[int]:
        """Return the places of the boxes that stay, the best first."""
        options = self.options
        kept: list[int] = []
        most = np.float32(options.min_suppression_threshold)
        for index, box in enumerate(boxes):
            if len(kept) >= limit:
                break
            if not kept or overlaps(boxes[kept], box, options.overlap_type).max() <= most:
                kept.append(index)
        return kept

    def _limit(self, count: int) -> int:
        most: int = self.options.max_num_detections
        return most if most > -1 else count


def _is_labelled(detection: Any) -> bool:
    ids, labels, scores = map(len, (detection.label_id, detection.label, detection.score))
    if ids == 0 and labels == 0:
        return False
    if scores not in (ids, labels) or scores == 0:
        raise ImageError(
            f"a detection has {scores} scores for {ids} label_ids and {labels} labels; each label "
            f"needs one"
        )
    return True


def _top(detection: Any) -> int:
    """Return the place of the highest score."""
    scores = list(detection.score)
    return scores.index(max(scores))


def _with_top_label(top: int, detection: Any) -> Any:
    """A copy with the label of the highest score only."""
    found = message_type("Detection")()
    found.CopyFrom(detection)
    found.score[:] = [detection.score[top]]
    if len(detection.label_id) > top:
        found.label_id[:] = [detection.label_id[top]]
    else:
        found.label[:] = [detection.label[top]]
    return found
