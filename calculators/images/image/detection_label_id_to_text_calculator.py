"""DetectionLabelIdToTextCalculator: labels for detections."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from calculators.images.image.label_map import Label, label_items, with_label_file
from calculators.images.image.packet_types import list_of, message
from calculators.kit.graph_directory import GRAPH_DIRECTORY
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options

_OPTIONS = "mediapipe.DetectionLabelIdToTextCalculatorOptions"


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
        found = message("Detection")()
        found.CopyFrom(detection)
        labels = [self._labels[number] for number in found.label_id if number in self._labels]
        for label in labels:
            found.label.append(label.name)
            if label.display_name is not None:
                found.display_name.append(label.display_name)
        if labels and not self.options.keep_label_id:
            del found.label_id[:]
        return found
