"""Calculators on single scores: out of tensors and landmarks, compared with a threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from calculators.images.image.packet_types import TENSORS
from calculators.vision.landmarks.landmarks import (
    VISIBILITY,
    Landmarks,
    landmarks_of,
    take_landmarks,
)
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)
from protos import messages


def sigmoid(values: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return 1 / (1 + exp(-x)) in float32; large negative numbers give 0 without a warning."""
    with np.errstate(over="ignore"):
        exponential = np.exp(-values.astype(np.float32, copy=False))
    found: npt.NDArray[np.float32] = np.reciprocal(exponential + np.float32(1))
    return found


_FLOATS = messages.TensorsToFloatsCalculatorOptions
_THRESHOLD = messages.ThresholdingCalculatorOptions
_SIGMOID = 1


class TensorsToFloatsCalculator(Calculator):
    """Sends the numbers of the first tensor of each list.

    Inputs: TENSORS (list of numpy.ndarray): float32.
    Outputs, exactly one:
        FLOAT (float): the only number.
        FLOATS (list of float): all numbers.
    Options (mediapipe.TensorsToFloatsCalculatorOptions): activation: NONE or SIGMOID.

    ::

        node {
          calculator: "TensorsToFloatsCalculator"
          input_stream: "TENSORS:tensors"
          output_stream: "FLOAT:score"
          options { [mediapipe.TensorsToFloatsCalculatorOptions.ext] { activation: SIGMOID } }
        }

    Source: MediaPipe ``calculators/tensor/tensors_to_floats_calculator.cc``.
    """

    options = Options(_FLOATS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        outputs = contract.outputs
        contract.inputs["TENSORS"].set(TENSORS)
        contract.require(
            outputs.has_tag("FLOAT") is not outputs.has_tag("FLOATS"),
            "exactly one of the output streams FLOAT and FLOATS is needed",
        )
        outputs["FLOAT"].set(float).optional()
        outputs["FLOATS"].set(list).optional()
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        numbers = first_tensor(cc).reshape(-1)
        if self.options.activation == _SIGMOID:
            numbers = sigmoid(numbers)
        send_floats(cc, numbers)


def first_tensor(cc: CalculatorContext) -> npt.NDArray[np.float32]:
    """Return the first tensor of the list in TENSORS.

    Raises:
        GraphError: there is none, or it is not of float32 (INVALID_ARGUMENT).
    """
    tensors: list[npt.NDArray[Any]] = cc.inputs["TENSORS"].value
    if not tensors or tensors[0].dtype != np.float32:
        raise GraphError("a tensor of float32 is needed", code=Code.INVALID_ARGUMENT)
    return tensors[0]


def send_floats(cc: CalculatorContext, numbers: npt.NDArray[np.float32]) -> None:
    """Send the only number in FLOAT, and all in FLOATS, where the node has these outputs.

    Raises:
        GraphError: FLOAT is there, and not exactly one number (INVALID_ARGUMENT).
    """
    if cc.outputs.has_tag("FLOAT"):
        if numbers.size != 1:
            raise GraphError(
                f"FLOAT needs a tensor of one number; this one has {numbers.size}",
                code=Code.INVALID_ARGUMENT,
            )
        cc.outputs["FLOAT"].add(float(numbers[0]), cc.time)
    if cc.outputs.has_tag("FLOATS"):
        cc.outputs["FLOATS"].add(numbers.tolist(), cc.time)


class ThresholdingCalculator(Calculator):
    """Compares a number with a threshold.

    Inputs:
        FLOAT (float).
        THRESHOLD (float, optional): the threshold from now on.
    Outputs, each optional:
        FLAG (bool): True if the number is above the threshold; False for NaN.
        ACCEPT (bool): True, only where the flag is.
        REJECT (bool): False, only where the flag is not.
    Input side packets: THRESHOLD (float, optional): the first threshold.
    Options (mediapipe.ThresholdingCalculatorOptions): threshold.

    ::

        node {
          calculator: "ThresholdingCalculator"
          input_stream: "FLOAT:score"
          output_stream: "FLAG:is_present"
          options { [mediapipe.ThresholdingCalculatorOptions.ext] { threshold: 0.5 } }
        }

    Source: MediaPipe ``calculators/util/thresholding_calculator.cc``.
    """

    options = Options(_THRESHOLD)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, sides, outputs = contract.inputs, contract.input_side_packets, contract.outputs
        inputs["FLOAT"].set(float)
        inputs["THRESHOLD"].set(float).optional()
        sides["THRESHOLD"].set(float).optional()
        given = contract.options(_THRESHOLD).HasField("threshold")
        contract.require(
            given + inputs.has_tag("THRESHOLD") + sides.has_tag("THRESHOLD") <= 1,
            "the threshold comes from the option, the input stream or the side packet THRESHOLD",
        )
        for tag in ("FLAG", "ACCEPT", "REJECT"):
            outputs[tag].set(bool).optional()
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._threshold: float = self.options.threshold
        if cc.input_side_packets.has_tag("THRESHOLD"):
            self._threshold = cc.input_side_packets["THRESHOLD"].value

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs.has_tag("THRESHOLD") and not cc.inputs["THRESHOLD"].is_empty():
            self._threshold = cc.inputs["THRESHOLD"].value
        if cc.inputs["FLOAT"].is_empty():
            raise GraphError("there is no FLOAT at this timestamp", code=Code.INVALID_ARGUMENT)
        flag = bool(cc.inputs["FLOAT"].value > self._threshold)
        for tag in ("FLAG", "ACCEPT" if flag else "REJECT"):
            if cc.outputs.has_tag(tag):
                cc.outputs[tag].add(flag, cc.time)


class LandmarkVisibilityCalculator(Calculator):
    """Sends the visibility of a single landmark.

    Inputs: NORM_LANDMARKS (`Landmarks`): exactly one landmark.
    Outputs: VISIBILITY (float).
    Options: none.

    ::

        node {
          calculator: "LandmarkVisibilityCalculator"
          input_stream: "NORM_LANDMARKS:wrist"
          output_stream: "VISIBILITY:wrist_visibility"
        }

    Source: MediaPipe ``calculators/util/landmark_visibility_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        take_landmarks(contract.inputs["NORM_LANDMARKS"])
        contract.outputs["VISIBILITY"].set(float)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["NORM_LANDMARKS"].is_empty():
            return
        found = _single(landmarks_of(cc.inputs["NORM_LANDMARKS"].value))
        cc.outputs["VISIBILITY"].add(float(found.values[0, VISIBILITY]), cc.time)


class SetLandmarkVisibilityCalculator(Calculator):
    """Gives a single landmark another visibility.

    Inputs:
        NORM_LANDMARKS (`Landmarks`): exactly one landmark.
        VISIBILITY (float).
    Outputs: NORM_LANDMARKS (`Landmarks`).
    Options: none.

    ::

        node {
          calculator: "SetLandmarkVisibilityCalculator"
          input_stream: "NORM_LANDMARKS:wrist"
          input_stream: "VISIBILITY:visibility"
          output_stream: "NORM_LANDMARKS:seen_wrist"
        }

    Source: MediaPipe ``calculators/util/set_landmark_visibility_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        take_landmarks(contract.inputs["NORM_LANDMARKS"])
        contract.inputs["VISIBILITY"].set(float)
        contract.outputs["NORM_LANDMARKS"].set(Landmarks)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["NORM_LANDMARKS"].is_empty() or cc.inputs["VISIBILITY"].is_empty():
            return
        found = _single(landmarks_of(cc.inputs["NORM_LANDMARKS"].value))
        values = found.values.copy()
        values[0, VISIBILITY] = cc.inputs["VISIBILITY"].value
        changed = Landmarks(
            values,
            is_normalized=found.is_normalized,
            has_visibility=True,
            has_presence=found.has_presence,
        )
        cc.outputs["NORM_LANDMARKS"].add(changed, cc.time)


def _single(found: Landmarks) -> Landmarks:
    if len(found) != 1:
        raise GraphError(
            f"one landmark is needed; the list has {len(found)}", code=Code.INVALID_ARGUMENT
        )
    return found


SCORE_CALCULATORS: tuple[type[Calculator], ...] = (
    LandmarkVisibilityCalculator,
    SetLandmarkVisibilityCalculator,
    TensorsToFloatsCalculator,
    ThresholdingCalculator,
)
