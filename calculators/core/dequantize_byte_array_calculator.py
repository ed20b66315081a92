"""DequantizeByteArrayCalculator: bytes as numbers."""

from __future__ import annotations

from calculators.core.quantize_float_vector_calculator import quantized_limits
from graph_runtime import Calculator, CalculatorContext, In, Options, Out


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
    options = Options("mediapipe.DequantizeByteArrayCalculatorOptions")

    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        lowest, highest = quantized_limits(self.options)
        self._scale = (highest - lowest) / 255.0
        self._bias = (highest - lowest) / 512.0 + lowest

    def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.encoded):
            numbers = [byte * self._scale + self._bias for byte in cc.get(self.encoded)]
            cc.emit(self.numbers, numbers)
