"""`FallbackCalculator` asks another model if one fails; `FirstAnswerCalculator` joins branches.

Both send one answer, of one model, from beginning to end. The fall-back holds back the beginning of
an answer until it has something to show; until then another model can answer in its place.
"""

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
from calculators.language.first_answer import FirstAnswer
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Code, In, Options, Out
from protos import messages


class FirstAnswerCalculator(Calculator):
    """Passes on the answer of the input that begins first; the others are stopped and dropped.

    It joins the branches after a router, of which one answers, or lets models that read the same
    requests race. A failure goes on only when no other branch can still begin: see
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


_OPTIONS = messages.FallbackOptions


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
