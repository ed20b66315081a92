"""Calculators that move landmarks from a region to the image."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from calculators.images.image.image_tensors import Region
from calculators.images.image.packet_types import LETTERBOX_PADDING, message_type
from calculators.vision.landmarks.landmarks import Floats, Landmarks, landmarks_of, take_landmarks
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)
from protos import messages

_PROJECTION = messages.LandmarkProjectionCalculatorOptions


class LandmarkProjectionCalculator(Calculator):
    """Moves normalized landmarks of a region to the image.

    Inputs:
        NORM_LANDMARKS:i (`Landmarks`): x and y in fractions of the region.
        NORM_RECT (mediapipe.NormalizedRect) or PROJECTION_MATRIX (tuple of 16 floats): the region;
            the matrix is MATRIX of ImageToTensorCalculator.
        IMAGE_DIMENSIONS (tuple, optional): width and height. With it a NORM_RECT may have sides of
            different lengths; without it rotations are right for squares only.
    Outputs: NORM_LANDMARKS:i (`Landmarks`): in fractions of the image.
    Options (mediapipe.LandmarkProjectionCalculatorOptions): ignore_rotation.

    ::

        node {
          calculator: "LandmarkProjectionCalculator"
          input_stream: "NORM_LANDMARKS:landmarks"
          input_stream: "NORM_RECT:roi"
          output_stream: "NORM_LANDMARKS:landmarks_in_image"
        }

    Source: MediaPipe ``calculators/util/landmark_projection_calculator.cc``.
    """

    options = Options(_PROJECTION)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        count = inputs.num_entries("NORM_LANDMARKS")
        contract.require(
            0 < count == outputs.num_entries("NORM_LANDMARKS"),
            "each input stream NORM_LANDMARKS needs an output stream NORM_LANDMARKS",
        )
        contract.require(
            inputs.has_tag("NORM_RECT") is not inputs.has_tag("PROJECTION_MATRIX"),
            "exactly one of the input streams NORM_RECT and PROJECTION_MATRIX is needed",
        )
        for index in range(max(count, 1)):
            take_landmarks(inputs["NORM_LANDMARKS", index])
            outputs["NORM_LANDMARKS", index].set(Landmarks)
        inputs["NORM_RECT"].set(message_type("NormalizedRect")).optional()
        inputs["PROJECTION_MATRIX"].set(tuple).optional()
        inputs["IMAGE_DIMENSIONS"].set(tuple).optional()
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        inputs = cc.inputs
        for tag in ("NORM_RECT", "PROJECTION_MATRIX", "IMAGE_DIMENSIONS"):
            if inputs.has_tag(tag) and inputs[tag].is_empty():
                return
        matrix = self._matrix(cc)
        for shard, output in zip(
            inputs.all_of("NORM_LANDMARKS"), cc.outputs.all_of("NORM_LANDMARKS"), strict=True
        ):
            if shard.is_empty():
                continue
            found = landmarks_of(shard.value)
            points = found.values[:, :3] @ matrix[:, :3].T + matrix[:, 3]
            output.add(found.with_points(points), cc.time)

    def _matrix(self, cc: CalculatorContext) -> Floats:
        """(3, 4): from x, y, z in the region to those in the image."""
        inputs = cc.inputs
        ignores_rotation = self.options.ignore_rotation
        if inputs.has_tag("NORM_RECT") and not inputs.has_tag("IMAGE_DIMENSIONS"):
            return _square_matrix(inputs["NORM_RECT"].value, ignores_rotation)
        if inputs.has_tag("PROJECTION_MATRIX"):
            rows = inputs["PROJECTION_MATRIX"].value
        else:
            rows = _region_matrix(
                inputs["NORM_RECT"].value, inputs["IMAGE_DIMENSIONS"].value, ignores_rotation
            )
        matrix = np.array(rows, np.float32).reshape(4, 4)[:3].copy()
        # z grows as the x axis does.
        matrix[2] = 0, 0, math.hypot(matrix[0, 0], matrix[1, 0]), 0
        return matrix


def _square_matrix(rect: Any, ignores_rotation: bool) -> Floats:
    angle = 0.0 if ignores_rotation else rect.rotation
    width, height = rect.width, rect.height
    a, b = math.cos(angle) * width, -math.sin(angle) * width
    c, d = math.sin(angle) * height, math.cos(angle) * height
    return np.array(
        [
            [a, b, 0, rect.x_center - (a + b) / 2],
            [c, d, 0, rect.y_center - (c + d) / 2],
            [0, 0, width, 0],
        ],
        np.float32,
    )


def _region_matrix(rect: Any, size: tuple[int, int], ignores_rotation: bool) -> tuple[float, ...]:
    width, height = size
    region = Region(
        rect.x_center * width,
        rect.y_center * height,
        rect.width * width,
        rect.height * height,
        0.0 if ignores_rotation else rect.rotation,
    )
    return region.matrix(width, height)


class WorldLandmarkProjectionCalculator(Calculator):
    """Turns landmarks in meters as their region is turned in the image.

    Inputs:
        LANDMARKS (`Landmarks`).
        NORM_RECT (mediapipe.NormalizedRect, optional): the region; landmarks pass without one.
    Outputs: LANDMARKS (`Landmarks`).
    Options: none.

    ::

        node {
          calculator: "WorldLandmarkProjectionCalculator"
          input_stream: "LANDMARKS:landmarks"
          input_stream: "NORM_RECT:roi"
          output_stream: "LANDMARKS:turned_landmarks"
        }

    Source: MediaPipe ``calculators/util/world_landmark_projection_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        take_landmarks(contract.inputs["LANDMARKS"])
        contract.inputs["NORM_RECT"].set(message_type("NormalizedRect")).optional()
        contract.outputs["LANDMARKS"].set(Landmarks)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        inputs = cc.inputs
        if inputs["LANDMARKS"].is_empty():
            return
        found = landmarks_of(inputs["LANDMARKS"].value)
        if inputs.has_tag("NORM_RECT"):
            if inputs["NORM_RECT"].is_empty():
                return
            angle = inputs["NORM_RECT"].value.rotation
            cos, sin = math.cos(angle), math.sin(angle)
            turn = np.array([[cos, sin], [-sin, cos]], np.float32)
            found = found.with_points(found.values[:, :2] @ turn)
        cc.outputs["LANDMARKS"].add(found, cc.time)


class LandmarkLetterboxRemovalCalculator(Calculator):
    """Moves normalized landmarks of a padded image to the image without the padding.

    Inputs:
        LANDMARKS:i (`Landmarks`).
        LETTERBOX_PADDING (tuple of 4 floats): left, top, right and bottom, in fractions of the
            image with padding.
    Outputs: LANDMARKS:i (`Landmarks`).
    Options: none.

    ::

        node {
          calculator: "LandmarkLetterboxRemovalCalculator"
          input_stream: "LANDMARKS:landmarks"
          input_stream: "LETTERBOX_PADDING:padding"
          output_stream: "LANDMARKS:landmarks_in_region"
        }

    Source: MediaPipe ``calculators/util/landmark_letterbox_removal_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        count = inputs.num_entries("LANDMARKS")
        contract.require(
            0 < count == outputs.num_entries("LANDMARKS"),
            "each input stream LANDMARKS needs an output stream LANDMARKS",
        )
        for index in range(max(count, 1)):
            take_landmarks(inputs["LANDMARKS", index])
            outputs["LANDMARKS", index].set(Landmarks)
        inputs["LETTERBOX_PADDING"].set(LETTERBOX_PADDING)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["LETTERBOX_PADDING"].is_empty():
            return
        left, top, right, bottom = cc.inputs["LETTERBOX_PADDING"].value
        width, height = 1 - (left + right), 1 - (top + bottom)
        if width <= 0 or height <= 0:
            raise GraphError(
                "LETTERBOX_PADDING leaves nothing of the image", code=Code.INVALID_ARGUMENT
            )
        shift = np.array([left, top, 0], np.float32)
        # Depth is measured in widths of the image, as x is.
        scale = np.array([width, height, width], np.float32)
        for shard, output in zip(
            cc.inputs.all_of("LANDMARKS"), cc.outputs.all_of("LANDMARKS"), strict=True
        ):
            if not shard.is_empty():
                found = landmarks_of(shard.value)
                output.add(found.with_points((found.values[:, :3] - shift) / scale), cc.time)


PROJECTIONS: tuple[type[Calculator], ...] = (
    LandmarkLetterboxRemovalCalculator,
    LandmarkProjectionCalculator,
    WorldLandmarkProjectionCalculator,
)
