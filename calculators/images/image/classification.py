"""Classification: a classifier's tensor as classes with scores and names, or as arrays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.images.image.image_frame import ImageError
from calculators.images.image.label_map import Label, label_items, with_label_file
from calculators.images.image.packet_types import TENSORS, message_type
from calculators.kit.graph_directory import GRAPH_DIRECTORY
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options
from protos import messages

Floats = npt.NDArray[np.float32]


def only_tensor(tensors: list[Any]) -> Floats:
    """Return the one tensor of a classifier.

    Raises:
        ImageError: there is not exactly one, or its elements are not float32.
    """
    if len(tensors) != 1:
        raise ImageError(f"a classifier has one tensor, the scores; there are {len(tensors)}")
    tensor: npt.NDArray[Any] = tensors[0]
    if tensor.dtype != np.float32:
        raise ImageError(
            f"the tensor with the scores has elements of type {tensor.dtype}; float32 is expected"
        )
    return tensor


def classification_list(
    scores: Floats,
    labels: Mapping[int, Label],
    *,
    is_binary: bool,
    threshold: float | None,
    is_allowed: Callable[[int], bool],
    top_k: int,
    is_sorted: bool,
) -> Any:
    """Return the classes with their scores.

    Args:
        scores: one per class, or with ``is_binary`` the probability of the first of two.
        labels: by class; empty for none.
        threshold: classes with a lower score are left out, unless ``is_binary``.
        is_allowed: one truth value per class, ignored with ``is_binary``.
        top_k: keep only that many classes with the highest scores, sorted; 0 or less keeps all.
        is_sorted: sort by score, the highest first.

    Raises:
        ImageError: the number of scores is not that of the labels, or not 1 with ``is_binary``.
    """
    if is_binary:
        if len(scores) != 1:
            raise ImageError(f"binary_classification needs a tensor of 1 score, not {len(scores)}")
        scores = np.array([scores[0], 1 - scores[0]], np.float32)
    if labels and sorted(labels) != list(range(len(scores))):
        raise ImageError(
            f"the model has {len(scores)} classes, and there are {len(labels)} labels; each class "
            f"needs one, with ids from 0 on"
        )
    # As MediaPipe compares, in float32: 0.3 is another number in float64.
    kept = [
        number
        for number, score in enumerate(scores)
        if is_binary
        or (is_allowed(number) and not (threshold is not None and score < np.float32(threshold)))
    ]
    if is_sorted or top_k > 0:
        kept.sort(key=lambda number: -scores[number])
    found = message_type("ClassificationList")()
    for number in kept[: top_k if top_k > 0 else None]:
        entry = found.classification.add(index=number, score=float(scores[number]))
        if labels:
            label = labels[number]
            entry.label = label.name
            if label.display_name is not None:
                entry.display_name = label.display_name
    return found


_OPTIONS = messages.TensorsToClassificationCalculatorOptions


class TensorsToClassificationCalculator(Calculator):
    """Makes a list of classes with scores of the tensor of a classifier.

    Inputs: TENSORS (list of one numpy.ndarray): float32, one score per class, of any shape.
    Outputs: CLASSIFICATIONS (mediapipe.ClassificationList).
    Options (mediapipe.TensorsToClassificationCalculatorOptions):
        min_score_threshold: classes with a lower score are left out.
        top_k: keep only that many classes with the highest scores, the highest first.
        sort_by_descending_score: the highest first.
        label_map_path: a file with one label per line, searched beside the graph, then in the
            working directory. Or ``label_items``, or ``label_map``: labels by id.
        binary_classification: the tensor is one number, the probability of class 0.
        ignore_classes or allow_classes: which classes count.

    ::

        node {
          calculator: "TensorsToClassificationCalculator"
          input_stream: "TENSORS:tensors"
          output_stream: "CLASSIFICATIONS:classifications"
          node_options {
            [type.googleapis.com/mediapipe.TensorsToClassificationCalculatorOptions] {
              top_k: 5
              label_map_path: "labels.txt"
            }
          }
        }

    Source: MediaPipe ``calculators/tensor/tensors_to_classification_calculator.cc``.
    """

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["TENSORS"].set(TENSORS)
        contract.outputs["CLASSIFICATIONS"].set(message_type("ClassificationList"))
        options = contract.options(_OPTIONS)
        contract.require(
            not (options.allow_classes and options.ignore_classes),
            "allow_classes and ignore_classes exclude each other",
        )
        contract.require(
            not (
                options.binary_classification and (options.allow_classes or options.ignore_classes)
            ),
            "binary_classification excludes allow_classes and ignore_classes",
        )
        ids = [entry.id for entry in options.label_map.entries]
        twice = next((number for number in ids if ids.count(number) > 1), None)
        contract.require(twice is None, f"label_map: the id {twice} is there twice")
        contract.use_service(GRAPH_DIRECTORY)
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> Awaitable[None] | None:
        options = self.options
        if options.HasField("label_map_path"):
            return with_label_file(cc, options.label_map_path, self._label)
        if options.label_items:
            self._label(label_items(options.label_items))
        else:
            self._label({entry.id: Label(entry.label) for entry in options.label_map.entries})
        return None

    def _label(self, labels: dict[int, Label]) -> None:
        self._labels = labels

    def process(self, cc: CalculatorContext) -> None:
        options = self.options
        has_threshold = options.HasField("min_score_threshold")
        found = classification_list(
            only_tensor(cc.inputs["TENSORS"].value).reshape(-1),
            self._labels,
            is_binary=options.binary_classification,
            threshold=options.min_score_threshold if has_threshold else None,
            is_allowed=self._is_allowed,
            top_k=options.top_k,
            is_sorted=options.sort_by_descending_score,
        )
        cc.outputs["CLASSIFICATIONS"].add(found, cc.time)

    def _is_allowed(self, number: int) -> bool:
        if self.options.allow_classes:
            return number in self.options.allow_classes
        return number not in self.options.ignore_classes


_OPENVINO_OPTIONS = messages.OpenVINOTensorsToClassificationCalculatorOptions


class OpenVINOTensorsToClassificationCalculator(Calculator):
    """Makes a list of classes with scores of the tensor of a classifier.

    Inputs: TENSORS (list of one numpy.ndarray): float32 of shape (1, classes).
    Outputs: CLASSIFICATIONS (mediapipe.ClassificationList).
    Options (mediapipe.OpenVINOTensorsToClassificationCalculatorOptions):
        min_score_threshold: classes with a lower score are left out.
        top_k: keep only that many classes with the highest scores, the highest first. If there are
            fewer, all are kept; OpenVINO Model Server crashes then.
        label_map_path: a file with one label per line, searched beside the graph, then in the
            working directory.
        binary_classification: the tensor is one number, the probability of class 0.

    ::

        node {
          calculator: "OpenVINOTensorsToClassificationCalculator"
          input_stream: "TENSORS:tensors"
          output_stream: "CLASSIFICATIONS:classifications"
          node_options {
            [type.googleapis.com/mediapipe.OpenVINOTensorsToClassificationCalculatorOptions] {
              top_k: 5
              label_map_path: "labels.txt"
            }
          }
        }

    Source: OpenVINO's fork of MediaPipe,
    ``calculators/tensors/openvino/openvino_tensors_to_classification_calculator.cc``.
    """

    options = Options(_OPENVINO_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["TENSORS"].set(TENSORS)
        contract.outputs["CLASSIFICATIONS"].set(message_type("ClassificationList"))
        contract.use_service(GRAPH_DIRECTORY)
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> Awaitable[None] | None:
        self._label({})
        if self.options.HasField("label_map_path"):
            return with_label_file(cc, self.options.label_map_path, self._label)
        return None

    def _label(self, labels: dict[int, Label]) -> None:
        self._labels = labels

    def process(self, cc: CalculatorContext) -> None:
        options = self.options
        tensor = only_tensor(cc.inputs["TENSORS"].value)
        if tensor.ndim != 2 or len(tensor) == 0:
            raise ImageError(
                f"the tensor with the scores has the shape {tuple(tensor.shape[:8])}; two "
                f"dimensions are expected, (1, classes)"
            )
        has_threshold = options.HasField("min_score_threshold")
        found = classification_list(
            tensor[0],
            self._labels,
            is_binary=options.binary_classification,
            threshold=options.min_score_threshold if has_threshold else None,
            is_allowed=lambda number: True,
            top_k=options.top_k,
            is_sorted=False,
        )
        cc.outputs["CLASSIFICATIONS"].add(found, cc.time)


#: The outputs, with the type and shape that the model's metadata shows to clients.
_TYPES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "SCORES": np.ndarray[tuple[int], np.dtype[np.float32]],
        "LABEL_IDS": np.ndarray[tuple[int], np.dtype[np.int32]],
        "LABELS": np.ndarray[tuple[int], np.dtype[np.object_]],
    }
)


class ClassificationsToTensorsCalculator(Calculator):
    """Makes arrays of a list of n classes, in its order.

    Only graphrt has it: in OpenVINO Model Server classifications cannot leave the graph.

    Inputs: CLASSIFICATIONS (mediapipe.ClassificationList).
    Outputs (numpy.ndarray), at least one:
        SCORES: (n,) float32.
        LABEL_IDS: (n,) int32.
        LABELS: (n,) bytes, UTF-8; empty where a class has no label.
    Options: none.

    ::

        node {
          calculator: "ClassificationsToTensorsCalculator"
          input_stream: "CLASSIFICATIONS:classes"
          output_stream: "SCORES:scores"
          output_stream: "LABELS:labels"
        }
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["CLASSIFICATIONS"].set(message_type("ClassificationList"))
        contract.require(
            len(contract.outputs) > 0, f"it needs an output stream: {', '.join(_TYPES)}"
        )
        for tag, spec in _TYPES.items():
            contract.outputs[tag].set(spec).optional()
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        classes = cc.inputs["CLASSIFICATIONS"].value.classification
        labels = np.empty(len(classes), object)
        labels[:] = [each.label.encode() for each in classes]
        arrays = {
            "SCORES": np.array([each.score for each in classes], np.float32),
            "LABEL_IDS": np.array([each.index for each in classes], np.int32),
            "LABELS": labels,
        }
        for tag in cc.outputs.tags():
            cc.outputs[tag].add(arrays[tag], cc.time)
