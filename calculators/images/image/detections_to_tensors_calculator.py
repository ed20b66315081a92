"""DetectionsToTensorsCalculator: detections as arrays, which can be sent to clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from calculators.images.image.overlap import relative_box
from calculators.images.image.packet_types import list_of
from graph_runtime import Calculator, CalculatorContext, CalculatorContract


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
