"""`FallbackCalculator`: another model is asked when one cannot answer."""

from __future__ import annotations

from calculators.language import (
    Begun,
    Delta,
    Deltas,
    Ended,
    Failed,
    Gained,
    GenerationRequest,
    Submitted,
)
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    In,
    Options,
    Out,
)

_OPTIONS = "graphrt.FallbackOptions"


class FallbackCalculator(Calculator):
    """Passes an answer on, or sends its request again if it fails before it has shown anything.

    Later a failure is a failure: two half answers do not make one. So is an error of the request
    (INVALID_ARGUMENT). Exactly one answer begins, because the beginning of an answer is held back
    until it has something to show.

    Inputs: DELTAS (Deltas): the answer of the first model.
    Outputs:
        DELTAS (Deltas): the same, at the same timestamps.
        REQUEST (GenerationRequest): the request, for the next model.
    Options (graphrt.FallbackOptions):
        on: failures after which the next model is asked: UNAVAILABLE, RESOURCE_EXHAUSTED,
            DEADLINE_EXCEEDED, OUT_OF_RANGE; by default all of them.
        model: the name of the next model in the answer; by default the client's word.

    ::

        node {
          calculator: "FallbackCalculator"
          input_stream: "DELTAS:small"
          output_stream: "DELTAS:answer"
          output_stream: "REQUEST:again"
          node_options { [type.googleapis.com/graphrt.FallbackOptions] { model: "large" } }
        }
    """

    answer = In[Deltas]("DELTAS")
    shown = Out[Deltas]("DELTAS")
    again = Out[GenerationRequest]("REQUEST")
    options = Options(_OPTIONS)
    chooses_output = True

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        contract.options(_OPTIONS)

    def open(self, cc: CalculatorContext) -> None:
        failures = type(self.options).Failure
        names = [failures.Name(each) for each in self.options.on] or failures.keys()
        self._codes = frozenset(Code(name) for name in names)
        self._model = self.options.model
        self._is_shown = False
        self._held: tuple[Delta, ...] = ()

    def process(self, cc: CalculatorContext) -> None:
        packet = cc.get(self.answer)
        if self._is_shown:
            self._is_shown = not isinstance(packet[-1], Ended | Failed) if packet else True
            cc.emit(self.shown, packet)
            return
        items: list[Delta] = []
        for item in packet:
            if self._is_shown:
                items.append(item)
                self._is_shown = not isinstance(item, Ended | Failed)
            elif isinstance(item, Begun) or (isinstance(item, Gained) and not item.events):
                self._held += (item,)
            elif isinstance(item, Failed):
                self._held = ()
                if not self._falls_back(cc, item):
                    items.append(item)
            else:
                items += self._held
                items.append(item)
                self._held = ()
                self._is_shown = not isinstance(item, Submitted | Ended)
        if items:
            cc.emit(self.shown, Deltas(items))

    def _falls_back(self, cc: CalculatorContext, failed: Failed) -> bool:
        request = failed.request
        if request is None or failed.error.code not in self._codes:
            return False
        if request.record is not None:
            request.record.note_route(self._model or cc.node_name, failed.error.code)
        cc.emit(self.again, request.answered_by(self._model))
        return True
