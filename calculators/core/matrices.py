"""Numbers: products and differences of matrices, matrices as lists, numbers as bytes and back."""

from __future__ import annotations

from typing import Any

from calculators.core.side_packets import require_one_place
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    In,
    Options,
    Out,
    SideIn,
)
from protos import messages


class MatrixMultiplyCalculator(Calculator):
    """Multiplies each matrix from the left: output = A @ input.

    A matrix is any object with the operator ``@``, such as a NumPy array.

    Inputs: #0: matrix of n rows.
    Outputs: #0: the product.
    Input side packets: #0: A, a matrix of n columns.
    Options: none.

    ::

        node {
          calculator: "MatrixMultiplyCalculator"
          input_stream: "samples"
          input_side_packet: "mixing_matrix"
          output_stream: "mixed_samples"
        }

    Source: MediaPipe ``calculators/core/matrix_multiply_calculator.cc``.
    """

    input = In[Any]()
    matrix = SideIn[Any]()
    output = Out[Any]()

    def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.input):
            cc.emit(self.output, cc.side(self.matrix) @ cc.get(self.input))


class MatrixSubtractCalculator(Calculator):
    """Sends MINUEND - SUBTRAHEND. One of them is a stream, the other a side packet.

    A matrix is any object with the operator ``-`` and a ``shape``, such as a NumPy array. Both
    have the same shape.

    Inputs: MINUEND or SUBTRAHEND.
    Outputs: #0: the difference.
    Input side packets: SUBTRAHEND or MINUEND, whichever is not the stream.
    Options: none.

    ::

        node {
          calculator: "MatrixSubtractCalculator"
          input_stream: "MINUEND:samples"
          input_side_packet: "SUBTRAHEND:mean"
          output_stream: "centred_samples"
        }

    Source: MediaPipe ``calculators/core/matrix_subtract_calculator.cc``.
    """

    minuend = In[Any]("MINUEND", optional=True)
    subtrahend = In[Any]("SUBTRAHEND", optional=True)
    minuend_side = SideIn[Any]("MINUEND", optional=True)
    subtrahend_side = SideIn[Any]("SUBTRAHEND", optional=True)
    output = Out[Any]()

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        require_one_place(contract, "MINUEND")
        require_one_place(contract, "SUBTRAHEND")
        contract.require(
            len(contract.inputs) == 1,
            "MatrixSubtractCalculator only accepts exactly one input stream and one input side "
            f"packet; there are {len(contract.inputs)} input streams",
        )

    def process(self, cc: CalculatorContext) -> None:
        if cc.input_list[0].is_empty():
            return
        if cc.is_connected(self.minuend):
            minuend, subtrahend = cc.get(self.minuend), cc.side(self.subtrahend_side)
        else:
            minuend, subtrahend = cc.side(self.minuend_side), cc.get(self.subtrahend)
        if minuend.shape != subtrahend.shape:
            raise GraphError(
                "Minuend and subtrahend must have the same dimensions. They have the shapes "
                f"{minuend.shape} and {subtrahend.shape}.",
                code=Code.INVALID_ARGUMENT,
            )
        cc.emit(self.output, minuend - subtrahend)


class MatrixToVectorCalculator(Calculator):
    """Sends the entries of each matrix as one list, column after column.

    A matrix is any object whose transpose ``T`` is iterable by rows, such as a NumPy array.

    Inputs: #0: matrix of m rows and n columns.
    Outputs: #0 (list[float]): m * n numbers.
    Options: none.

    ::

        node {
          calculator: "MatrixToVectorCalculator"
          input_stream: "matrix"
          output_stream: "numbers"
        }

    Source: MediaPipe ``calculators/core/matrix_to_vector_calculator.cc``.
    """

    matrix = In[Any]()
    numbers = Out[list[float]]()

    def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.matrix):
            columns = cc.get(self.matrix).T
            cc.emit(self.numbers, [float(entry) for column in columns for entry in column])


class QuantizeFloatVectorCalculator(Calculator):
    """Writes each number as one byte, linearly between two limits, and clips numbers outside.

    Inputs: FLOAT_VECTOR (list[float]).
    Outputs: ENCODED (bytes): one byte per number; 0 for the lower limit, 255 for the upper.
    Options (mediapipe.QuantizeFloatVectorCalculatorOptions):
        min_quantized_value, max_quantized_value: the limits; both must be given.

    ::

        node {
          calculator: "QuantizeFloatVectorCalculator"
          input_stream: "FLOAT_VECTOR:embedding"
          output_stream: "ENCODED:bytes"
          options {
            [mediapipe.QuantizeFloatVectorCalculatorOptions.ext] {
              min_quantized_value: -2
              max_quantized_value: 2
            }
          }
        }

    Source: MediaPipe ``calculators/core/quantize_float_vector_calculator.cc``.
    """

    numbers = In[list[float]]("FLOAT_VECTOR")
    encoded = Out[bytes]("ENCODED")
    options = Options(messages.QuantizeFloatVectorCalculatorOptions)

    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self._lowest, self._highest = quantized_limits(self.options)

    def process(self, cc: CalculatorContext) -> None:
        if cc.is_empty(self.numbers):
            return
        lowest, highest = self._lowest, self._highest
        scale = 255.0 / (highest - lowest)
        cc.emit(
            self.encoded,
            bytes(
                int((min(max(number, lowest), highest) - lowest) * scale)
                for number in cc.get(self.numbers)
            ),
        )


def quantized_limits(options: Any) -> tuple[float, float]:
    """Return the limits in the options of a node.

    Raises:
        GraphError: a limit is missing, or the lower is not below the upper.
    """
    name = type(options).DESCRIPTOR.name
    if not options.HasField("min_quantized_value") or not options.HasField("max_quantized_value"):
        raise GraphError(
            f"Both max_quantized_value and min_quantized_value must be provided in {name}.",
            code=Code.INVALID_ARGUMENT,
        )
    lowest, highest = options.min_quantized_value, options.max_quantized_value
    # FLT_EPSILON, as the limits are 32-bit floats.
    if highest < lowest + 1.1920929e-07:
        raise GraphError(
            "max_quantized_value must be greater than min_quantized_value. They are "
            f"{highest:g} and {lowest:g}.",
            code=Code.INVALID_ARGUMENT,
        )
    return lowest, highest


class DequantizeByteArrayCalculator(Calculator):
    """Reads each byte as a number, linearly between two limits.

    Undoes QuantizeFloatVectorCalculator, up to the rounding: a byte stands for the middle of the
    numbers it was made from.

    Inputs: ENCODED (bytes).
    Outputs: FLOAT_VECTOR (list[float]): one number per byte.
    Options (mediapipe.DequantizeByteArrayCalculatorOptions):
        min_quantized_value, max_quantized_value: the limits; both must be given.

    ::

        node {
          calculator: "DequantizeByteArrayCalculator"
          input_stream: "ENCODED:bytes"
          output_stream: "FLOAT_VECTOR:embedding"
          options {
            [mediapipe.DequantizeByteArrayCalculatorOptions.ext] {
              min_quantized_value: -2
              max_quantized_value: 2
            }
          }
        }

    Source: MediaPipe ``calculators/core/dequantize_byte_array_calculator.cc``.
    """

    encoded = In[bytes]("ENCODED")
    numbers = Out[list[float]]("FLOAT_VECTOR")
    options = Options(messages.DequantizeByteArrayCalculatorOptions)

    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        lowest, highest = quantized_limits(self.options)
        self._scale = (highest - lowest) / 255.0
        self._bias = (highest - lowest) / 512.0 + lowest

    def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.encoded):
            numbers = [byte * self._scale + self._bias for byte in cc.get(self.encoded)]
            cc.emit(self.numbers, numbers)
