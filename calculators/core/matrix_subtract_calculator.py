"""MatrixSubtractCalculator: the difference from a fixed matrix."""

from __future__ import annotations

from typing import Any

from calculators.core.side_fallback import require_one_place
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    In,
    Out,
    SideIn,
)


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
