"""ClassificationsToTensorsCalculator: classes as arrays, which can be sent to clients."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from calculators.images.image.packet_types import message
from graph_runtime import Calculator, CalculatorContext, CalculatorContract

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
        contract.inputs["CLASSIFICATIONS"].set(message("ClassificationList"))
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
