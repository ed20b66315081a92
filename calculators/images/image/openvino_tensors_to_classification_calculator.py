"""OpenVINOTensorsToClassificationCalculator: a classifier's tensor as classes, for OpenVINO."""

from __future__ import annotations

from collections.abc import Awaitable

from calculators.images.image.class_scores import classification_list, only_tensor
from calculators.images.image.image_error import ImageError
from calculators.images.image.label_map import Label, with_label_file
from calculators.images.image.packet_types import TENSORS, message
from calculators.kit.graph_directory import GRAPH_DIRECTORY
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

_OPTIONS = "mediapipe.OpenVINOTensorsToClassificationCalculatorOptions"


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

    options = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["TENSORS"].set(TENSORS)
        contract.outputs["CLASSIFICATIONS"].set(message("ClassificationList"))
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
