"""MatrixToVectorCalculator: a matrix as a list."""

from __future__ import annotations

from typing import Any

from graph_runtime import Calculator, CalculatorContext, In, Out


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
