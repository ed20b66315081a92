"""Calculators on matrices of regions: inverted, and images warped by them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from calculators.images.image.image_format import ImageFormat
from calculators.images.image.image_frame import ImageFrame
from calculators.images.image.opencv import opencv
from calculators.images.image.packet_types import check_image_tags
from calculators.images.image.scaling import check_size
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Options,
)

_WARP = "mediapipe.WarpAffineCalculatorOptions"
_ZERO, _CUBIC = 1, 2
#: Smaller determinants are taken for 0, as by Eigen.
_SMALLEST: Final = 2.220446049250313e-16


class InverseMatrixCalculator(Calculator):
    """Inverts matrices.

    Inputs: MATRIX (tuple of 16 floats): 4 rows.
    Outputs: MATRIX (tuple of 16 floats).
    Options: none.

    ::

        node {
          calculator: "InverseMatrixCalculator"
          input_stream: "MATRIX:to_image"
          output_stream: "MATRIX:to_region"
        }

    Source: MediaPipe ``calculators/util/inverse_matrix_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["MATRIX"].set(tuple)
        contract.outputs["MATRIX"].set(tuple)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["MATRIX"].is_empty():
            return
        matrix = np.array(cc.inputs["MATRIX"].value, np.float32).reshape(4, 4)
        if abs(np.linalg.det(matrix.astype(np.float64))) <= _SMALLEST:
            raise GraphError("the matrix cannot be inverted", code=Code.INTERNAL)
        inverse = np.linalg.inv(matrix.astype(np.float64)).astype(np.float32)
        cc.outputs["MATRIX"].add(tuple(inverse.reshape(-1).tolist()), cc.time)


class WarpAffineCalculator(Calculator):
    """Warps images by matrices.

    Inputs:
        IMAGE (`ImageFrame`).
        MATRIX (tuple of 16 floats): from points of the output to points of the input, in fractions.
        OUTPUT_SIZE (tuple): width and height in pixels.
    Outputs: IMAGE (`ImageFrame`): of the input's format.
    Options (mediapipe.WarpAffineCalculatorOptions):
        border_mode: pixels beyond the input: BORDER_REPLICATE, the default, or BORDER_ZERO.
        interpolation: INTER_LINEAR, the default, or INTER_CUBIC.

    ::

        node {
          calculator: "WarpAffineCalculator"
          input_stream: "IMAGE:mask_of_region"
          input_stream: "MATRIX:matrix"
          input_stream: "OUTPUT_SIZE:size"
          output_stream: "IMAGE:mask"
          options {
            [mediapipe.WarpAffineCalculatorOptions.ext] { border_mode: BORDER_ZERO }
          }
        }

    Source: MediaPipe ``calculators/images/image/warp_affine_calculator.cc``.
    """

    options = Options(_WARP)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        check_image_tags(contract)
        contract.inputs["IMAGE"].set(ImageFrame)
        contract.inputs["MATRIX"].set(tuple)
        contract.inputs["OUTPUT_SIZE"].set(tuple)
        contract.outputs["IMAGE"].set(ImageFrame)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if any(shard.is_empty() for shard in cc.input_list):
            return
        size: tuple[int, int] = cc.inputs["OUTPUT_SIZE"].value
        check_size(size)
        frame: ImageFrame = cc.inputs["IMAGE"].value
        matrix = np.array(cc.inputs["MATRIX"].value, np.float32).reshape(4, 4)
        cc.outputs["IMAGE"].add(_warped(frame, matrix, size, self.options), cc.time)


def _warped(frame: ImageFrame, matrix: Any, size: tuple[int, int], options: Any) -> ImageFrame:
    cv2 = opencv()
    to_input = np.array([[frame.width], [frame.height]], np.float32)
    to_output = np.array([size[0], size[1], 1], np.float32)
    in_pixels = to_input * matrix[:2][:, [0, 1, 3]] / to_output
    cubic = options.interpolation == _CUBIC
    border = cv2.BORDER_CONSTANT if options.border_mode == _ZERO else cv2.BORDER_REPLICATE
    found = cv2.warpAffine(
        frame.numpy_view(),
        in_pixels,
        size,
        flags=(cv2.INTER_CUBIC if cubic else cv2.INTER_LINEAR) | cv2.WARP_INVERSE_MAP,
        borderMode=border,
    )
    return ImageFrame.owning(frame.image_format, found)


class WarpAffineCalculatorCpu(WarpAffineCalculator):
    __doc__ = WarpAffineCalculator.__doc__


def mask_frame(mask: Any) -> ImageFrame:
    """Make the frame of a mask (height, width) of float32, which the caller does not write to."""
    return ImageFrame.owning(ImageFormat.VEC32F1, mask)


MATRIX_CALCULATORS: tuple[type[Calculator], ...] = (
    InverseMatrixCalculator,
    WarpAffineCalculator,
    WarpAffineCalculatorCpu,
)
