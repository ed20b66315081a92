"""QuantizeFloatVectorCalculator: numbers as bytes."""

from __future__ import annotations

from typing import Any

from graph_runtime import Calculator, CalculatorContext, Code, GraphError, In, Options, Out


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
    options = Options("mediapipe.QuantizeFloatVectorCalculatorOptions")

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
    """The limits in the options of a node.

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
