"""MatrixMultiplyCalculator: a matrix times each packet."""

from __future__ import annotations

from typing import Any

from graph_runtime import Calculator, CalculatorContext, In, Out, SideIn


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
