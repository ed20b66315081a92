"""TensorsToClassificationCalculator: a classifier's tensor as classes with scores."""

from __future__ import annotations

from collections.abc import Awaitable

from calculators.images.image.class_scores import classification_list, only_tensor
from calculators.images.image.label_map import Label, label_items, with_label_file
from calculators.images.image.packet_types import TENSORS, message
from calculators.kit.graph_directory import GRAPH_DIRECTORY
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

_OPTIONS = "mediapipe.TensorsToClassificationCalculatorOptions"


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
        contract.outputs["CLASSIFICATIONS"].set(message("ClassificationList"))
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
