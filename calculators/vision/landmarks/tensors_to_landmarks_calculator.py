"""Landmarks of tensors and detections, and tensors of landmarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from calculators.images.image.packet_types import TENSORS, message_type
from calculators.vision.landmarks.landmarks import (
    PRESENCE,
    VISIBILITY,
    Landmarks,
    landmarks_of,
    take_one_of,
)
from calculators.vision.landmarks.scores_calculators import sigmoid
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)
from protos import messages


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


_TENSOR = messages.LandmarksToTensorCalculatorOptions


class LandmarksToTensorCalculator(Calculator):
    """Makes a tensor of a list of landmarks, for a model that reads landmarks.

    Inputs, one of the first two:
        LANDMARKS (`Landmarks`).
        NORM_LANDMARKS (`Landmarks`): x and z times the width, y times the height.
        IMAGE_SIZE (tuple): width and height, with NORM_LANDMARKS only.
    Outputs: TENSORS (list of one numpy.ndarray): float32, (1, landmarks, attributes).
    Options (mediapipe.LandmarksToTensorCalculatorOptions):
        attributes: at least one of X, Y, Z, VISIBILITY, PRESENCE, in this order.
        flatten: the shape is (1, landmarks * attributes).

    ::

        node {
          calculator: "LandmarksToTensorCalculator"
          input_stream: "NORM_LANDMARKS:landmarks"
          input_stream: "IMAGE_SIZE:size"
          output_stream: "TENSORS:tensors"
          options {
            [mediapipe.LandmarksToTensorCalculatorOptions.ext] { attributes: [X, Y] }
          }
        }

    Source: MediaPipe ``calculators/tensor/landmarks_to_tensor_calculator.cc``.
    """

    options = Options(_TENSOR)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        tag = take_one_of(contract, "LANDMARKS", "NORM_LANDMARKS")
        contract.require(
            contract.inputs.has_tag("IMAGE_SIZE") is (tag == "NORM_LANDMARKS"),
            "the input stream IMAGE_SIZE goes with NORM_LANDMARKS, and only with it",
        )
        contract.require(
            len(contract.options(_TENSOR).attributes) > 0,
            "attributes: at least one is needed: X, Y, Z, VISIBILITY or PRESENCE",
        )
        contract.inputs["IMAGE_SIZE"].set(tuple).optional()
        contract.outputs["TENSORS"].set(TENSORS)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        is_normalized = cc.inputs.has_tag("NORM_LANDMARKS")
        scales = np.ones(5, np.float32)
        if is_normalized:
            if cc.inputs["IMAGE_SIZE"].is_empty():
                raise GraphError("IMAGE_SIZE has no packet with the landmarks", code=Code.INTERNAL)
            width, height = cc.inputs["IMAGE_SIZE"].value
            scales[:3] = width, height, width
        given = cc.inputs["NORM_LANDMARKS" if is_normalized else "LANDMARKS"]
        if given.is_empty():
            return
        values = landmarks_of(given.value).values * scales
        tensor = values[:, list(self.options.attributes)][np.newaxis]
        if self.options.flatten:
            tensor = tensor.reshape(1, -1)
        cc.outputs["TENSORS"].add([tensor], cc.time)


class DetectionToLandmarksCalculator(Calculator):
    """Makes landmarks of the keypoints of a detection.

    Inputs: DETECTION (mediapipe.Detection).
    Outputs: LANDMARKS (`Landmarks`): normalized, with x and y.
    Options: none.

    ::

        node {
          calculator: "DetectionToLandmarksCalculator"
          input_stream: "DETECTION:detection"
          output_stream: "LANDMARKS:landmarks"
        }

    Source: MediaPipe ``calculators/util/detection_to_landmarks_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["DETECTION"].set(message_type("Detection"))
        contract.outputs["LANDMARKS"].set(Landmarks)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        points = cc.inputs["DETECTION"].value.location_data.relative_keypoints
        values = np.zeros((len(points), 5), np.float32)
        for row, point in zip(values, points, strict=True):
            row[:2] = point.x, point.y
        cc.outputs["LANDMARKS"].add(Landmarks(values), cc.time)


_OPTIONS = messages.TensorsToLandmarksCalculatorOptions
_TFLITE_OPTIONS = messages.TfLiteTensorsToLandmarksCalculatorOptions
_SIGMOID = 1
_FLIPS = ("FLIP_HORIZONTALLY", "FLIP_VERTICALLY")


class TensorsToLandmarksCalculator(Calculator):
    """Makes landmarks of the first tensor of each list.

    The tensor has 2 to 5 numbers per landmark or more: x, y, z, visibility, presence.

    Inputs:
        TENSORS (list of numpy.ndarray): float32.
        FLIP_HORIZONTALLY, FLIP_VERTICALLY (bool, optional): in place of the options.
    Outputs, at least one:
        LANDMARKS (`Landmarks`): the numbers as they are.
        NORM_LANDMARKS (`Landmarks`): x and y in fractions of the model's image, z of its width and
            divided by normalize_z.
    Input side packets: FLIP_HORIZONTALLY, FLIP_VERTICALLY (bool, optional): likewise.
    Options (mediapipe.TensorsToLandmarksCalculatorOptions):
        num_landmarks: required.
        input_image_width, input_image_height: of the model's image; for NORM_LANDMARKS and flips.
        flip_horizontally, flip_vertically: mirror the points in that image.
        normalize_z: default 1.
        visibility_activation, presence_activation: NONE or SIGMOID.

    ::

        node {
          calculator: "TensorsToLandmarksCalculator"
          input_stream: "TENSORS:tensors"
          output_stream: "NORM_LANDMARKS:landmarks"
          options {
            [mediapipe.TensorsToLandmarksCalculatorOptions.ext] {
              num_landmarks: 21
              input_image_width: 224
              input_image_height: 224
            }
          }
        }

    Source: MediaPipe ``calculators/tensor/tensors_to_landmarks_calculator.cc``.
    """

    options: ClassVar[Options[Any]] = Options(_OPTIONS)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, sides, outputs = contract.inputs, contract.input_side_packets, contract.outputs
        inputs["TENSORS"].set(TENSORS)
        for tag in _FLIPS:
            contract.require(
                not (inputs.has_tag(tag) and sides.has_tag(tag)),
                f"{tag} is an input stream or a side packet, not both",
            )
            inputs[tag].set(bool).optional()
            sides[tag].set(bool).optional()
        outputs["LANDMARKS"].set(Landmarks).optional()
        outputs["NORM_LANDMARKS"].set(Landmarks).optional()
        options = contract.options(cls.options.options_type)
        flips = options.flip_horizontally or options.flip_vertically
        flips = flips or any(inputs.has_tag(tag) or sides.has_tag(tag) for tag in _FLIPS)
        if outputs.has_tag("NORM_LANDMARKS") or flips:
            contract.require(
                options.input_image_width > 0 and options.input_image_height > 0,
                "input_image_width and input_image_height are needed for normalized or flipped "
                "landmarks",
            )
        contract.require(
            options.num_landmarks > 0, f"num_landmarks is above 0, not {options.num_landmarks}"
        )
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        options = self.options
        self._flips = {
            "FLIP_HORIZONTALLY": options.flip_horizontally,
            "FLIP_VERTICALLY": options.flip_vertically,
        }
        for tag in _FLIPS:
            if cc.input_side_packets.has_tag(tag):
                self._flips[tag] = cc.input_side_packets[tag].value

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["TENSORS"].is_empty():
            return
        for tag in _FLIPS:
            if cc.inputs.has_tag(tag) and not cc.inputs[tag].is_empty():
                self._flips[tag] = cc.inputs[tag].value
        options = self.options
        found = self._landmarks(cc.inputs["TENSORS"].value)
        width, height = options.input_image_width, options.input_image_height
        if self._flips["FLIP_HORIZONTALLY"]:
            found[:, 0] = width - found[:, 0]
        if self._flips["FLIP_VERTICALLY"]:
            found[:, 1] = height - found[:, 1]
        fields = {"has_visibility": self._numbers > 3, "has_presence": self._numbers > 4}
        if cc.outputs.has_tag("LANDMARKS"):
            plain = Landmarks(found, is_normalized=False, **fields)
            cc.outputs["LANDMARKS"].add(plain, cc.time)
        if cc.outputs.has_tag("NORM_LANDMARKS"):
            normalized = found.copy()
            # MediaPipe measures depth in widths of the image.
            normalized[:, :3] /= np.array([width, height, width], np.float32)
            normalized[:, 2] /= np.float32(options.normalize_z)
            cc.outputs["NORM_LANDMARKS"].add(Landmarks(normalized, **fields), cc.time)

    def _landmarks(self, tensors: list[npt.NDArray[Any]]) -> npt.NDArray[np.float32]:
        """(n, 5): what the first tensor says."""
        count = self.options.num_landmarks
        if not tensors or tensors[0].dtype != np.float32 or tensors[0].size < 2 * count:
            given = f"{tensors[0].size} of {tensors[0].dtype}" if tensors else "none"
            raise GraphError(
                f"{count} landmarks need {2 * count} numbers of float32 or more; there are {given}",
                code=Code.INVALID_ARGUMENT,
            )
        self._numbers = tensors[0].size // count
        raw = tensors[0].reshape(-1)[: count * self._numbers].reshape(count, self._numbers)
        values = np.zeros((count, 5), np.float32)
        used = min(self._numbers, 5)
        values[:, :used] = raw[:, :used]
        options = self.options
        for column, activation in (
            (VISIBILITY, options.visibility_activation),
            (PRESENCE, options.presence_activation),
        ):
            if column < used and activation == _SIGMOID:
                values[:, column] = sigmoid(values[:, column])
        return values


class TfLiteTensorsToLandmarksCalculator(TensorsToLandmarksCalculator):
    """Makes landmarks of tensors, as `TensorsToLandmarksCalculator`, under the name of old graphs.

    Inputs: TENSORS (list of numpy.ndarray): float32.
    Outputs: LANDMARKS, NORM_LANDMARKS (`Landmarks`).
    Input side packets: FLIP_HORIZONTALLY, FLIP_VERTICALLY (bool, optional).
    Options (mediapipe.TfLiteTensorsToLandmarksCalculatorOptions): the same.

    ::

        node {
          calculator: "TfLiteTensorsToLandmarksCalculator"
          input_stream: "TENSORS:tensors"
          output_stream: "NORM_LANDMARKS:landmarks"
          options {
            [mediapipe.TfLiteTensorsToLandmarksCalculatorOptions.ext] {
              num_landmarks: 5
              input_image_width: 64
              input_image_height: 64
            }
          }
        }

    Source: MediaPipe ``calculators/tflite/tflite_tensors_to_landmarks_calculator.cc``.
    """

    options = Options(_TFLITE_OPTIONS)


TENSORS_TO_LANDMARKS: tuple[type[Calculator], ...] = (
    DetectionToLandmarksCalculator,
    LandmarksToTensorCalculator,
    LandmarksToTensorsCalculator,
    TensorsToLandmarksCalculator,
    TfLiteTensorsToLandmarksCalculator,
)
