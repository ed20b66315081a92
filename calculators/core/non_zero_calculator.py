"""NonZeroCalculator: zero, or not."""

from __future__ import annotations

from calculators.core.side_fallback import require_one_place
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, In, Out, SideIn, Stop


class NonZeroCalculator(Calculator):
    """Reports for each number whether it is zero.

    Inputs: INPUT (int).
    Outputs, at least one:
        OUTPUT (int): 0 for 0, else 1.
        OUTPUT_BOOL (bool): false for 0, else true.
    Input side packets: INPUT (int), in place of the stream: answered once, at timestamp 0.
    Options: none.

    ::

        node {
          calculator: "NonZeroCalculator"
          input_stream: "INPUT:face_count"
          output_stream: "OUTPUT_BOOL:has_faces"
        }

    Source: MediaPipe ``calculators/core/non_zero_calculator.cc``.
    """

    input = In[int]("INPUT", optional=True)
    input_side = SideIn[int]("INPUT", optional=True)
    output = Out[int]("OUTPUT", optional=True)
    output_bool = Out[bool]("OUTPUT_BOOL", optional=True)

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        require_one_place(contract, "INPUT")
        contract.require(
            len(contract.outputs) > 0,
            "At least one output stream is expected: OUTPUT or OUTPUT_BOOL.",
        )

    def process(self, cc: CalculatorContext) -> None:
        is_stream = cc.is_connected(self.input)
        number = cc.get(self.input, None) if is_stream else cc.side(self.input_side)
        if number is not None:
            cc.emit(self.output, int(number != 0))
            cc.emit(self.output_bool, number != 0)
        if not is_stream:
            raise Stop
