"""LandmarksToTensorsCalculator: landmarks as arrays, which can be sent to clients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.vision.landmarks.landmarks import Landmarks, landmarks_of
from graph_runtime import Calculator, CalculatorContext, CalculatorContract


class LandmarksToTensorsCalculator(Calculator):
    """Makes arrays of landmarks, empty ones where nobody was found.

    Only graphrt has it. At every packet of TICK there is an array, so that every answer to a client
    has all its outputs.

    Inputs:
        LANDMARKS:i (`Landmarks`, its messages, or a list of them).
        TICK (any type): such as the image.
    Outputs:
        TENSOR:i (numpy.ndarray): (people, landmarks, 5) float32: x, y, z, visibility, presence.
            x and y of normalized landmarks are fractions of the image's width and height. Without
            a person (0, 0, 5).
    Options: none.

    ::

        node {
          calculator: "LandmarksToTensorsCalculator"
          input_stream: "TICK:image"
          input_stream: "LANDMARKS:pose_landmarks"
          output_stream: "TENSOR:pose"
        }
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        count = inputs.num_entries("LANDMARKS")
        contract.require(
            count > 0 and outputs.num_entries("TENSOR") == count,
            "it needs an input stream LANDMARKS:i, and an output stream TENSOR:i for each",
        )
        inputs["TICK"].set_any()
        for index in range(count):
            inputs["LANDMARKS", index].set_any()
            outputs["TENSOR", index].set(np.ndarray[tuple[int, int, int], np.dtype[np.float32]])
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["TICK"].is_empty():
            return
        pairs = zip(cc.inputs.all_of("LANDMARKS"), cc.outputs.all_of("TENSOR"), strict=True)
        for shard, output in pairs:
            output.add(_array([] if shard.is_empty() else shard.value), cc.time)


def _array(value: Any) -> npt.NDArray[np.float32]:
    lists: Sequence[Any] = value if isinstance(value, list) else [value]
    found: list[Landmarks] = [landmarks_of(each) for each in lists]
    if not found:
        return np.zeros((0, 0, 5), np.float32)
    return np.stack([each.values for each in found])
