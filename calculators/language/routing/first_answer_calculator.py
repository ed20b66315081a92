"""`FirstAnswerCalculator`: joins branches of which one answers."""

from __future__ import annotations

from calculators.language import Deltas
from calculators.language.first_answer import FirstAnswer
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, In, Out


class FirstAnswerCalculator(Calculator):
    """Passes on the answer of the input that begins first; the others are stopped and dropped.

    So it joins the branches behind a router, of which one answers, and makes a race of models that
    read the same requests. A failure goes on only when no other branch can still begin: see
    `calculators.language.first_answer.FirstAnswer`. No branch waits for another, so a graph names
    no input stream handler. GenerationResponseWriterCalculator joins its inputs in the same way.

    Inputs: DELTAS:i (Deltas): at least one.
    Outputs: DELTAS (Deltas): at the timestamps of the packets, or the next free ones.
    Options: none.

    ::

        node {
          calculator: "FirstAnswerCalculator"
          input_stream: "DELTAS:0:small"
          input_stream: "DELTAS:1:large"
          output_stream: "DELTAS:answer"
        }
    """

    branches = In[Deltas]("DELTAS", multiple=True)
    answer = Out[Deltas]("DELTAS")
    timestamp_offset = None

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        contract.sync_sets = [[key] for key in contract.inputs]

    def open(self, cc: CalculatorContext) -> None:
        self._first = FirstAnswer(len(cc.input_list))
        self._next = 0

    def process(self, cc: CalculatorContext) -> None:
        for place, branch in enumerate(cc.input_list):
            if not branch.is_empty():
                self._send(cc, self._first.feed(place, branch.value), cc.time)

    def on_idle(self, cc: CalculatorContext) -> None:
        self._send(cc, self._first.on_idle(), self._next)

    def _send(self, cc: CalculatorContext, items: Deltas, time: int) -> None:
        if items:
            time = max(time, self._next)
            cc.emit(self.answer, items, at=time)
            self._next = time + 1
