"""`GenerationResponseWriterCalculator`: the last of the three nodes of a language model."""

from __future__ import annotations

from typing import Any

from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import RequestRecord
from calculators.language.delta import Begun, Deltas, Failed, Gained
from calculators.language.events import Arguments, Content, Reasoning, ToolCall
from calculators.language.first_answer import FirstAnswer
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Code, In, Out


class GenerationResponseWriterCalculator(Calculator):
    """Writes the answer of the API that was asked, whole or as events, from deltas.

    With several ``DELTAS`` inputs the first answer that begins is written, as
    `FirstAnswerCalculator` chooses it, so that most graphs need no node that joins branches.

    A failure before anything was sent is the request's error, with its status; a later one ends the
    events as the API has it. Packets on the optional ``HTTP_RESPONSE_PAYLOAD`` input, such as
    counts of tokens by `LLMCalculator`, pass unchanged.

    ::

        node {
          calculator: "GenerationResponseWriterCalculator"
          input_stream: "DELTAS:deltas"
          output_stream: "HTTP_RESPONSE_PAYLOAD:output"
        }
    """

    deltas = In[Deltas]("DELTAS", multiple=True)
    written = In[Any]("HTTP_RESPONSE_PAYLOAD", optional=True)
    response = Out[Any]("HTTP_RESPONSE_PAYLOAD")

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        # One input is the runtime's fast path.
        if len(contract.inputs) > 1:
            contract.sync_sets = [[key] for key in contract.inputs]
            contract.timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        # Here: a check of a graph needs the ports alone.
        from calculators.llm.answers.answer_writer import DeltaWriter
        from calculators.llm.api.whole_answer import answer_writer

        inputs = cc.inputs.num_entries("DELTAS")
        self._is_single = inputs == len(cc.input_list) == 1
        self._shards = cc.inputs.all_of("DELTAS")
        self._first = FirstAnswer(inputs)
        self._writer = DeltaWriter(answer_writer)
        self._texts: _Texts | None = None
        self._time = 0

    def process(self, cc: CalculatorContext) -> None:
        if self._is_single:
            self._write(cc, self._shards[0].packet.payload, cc.time)
            return
        at = self._time = max(cc.time, self._time + 1)
        if not cc.is_empty(self.written):
            cc.emit(self.response, cc.get(self.written), at=at)
        for place, shard in enumerate(self._shards):
            if not shard.is_empty():
                self._write(cc, self._first.feed(place, shard.packet.payload), at)

    def on_idle(self, cc: CalculatorContext) -> None:
        """End an answer that no other node ends: all of them are idle."""
        items = self._first.on_idle()
        if not items and self._writer.has_begun and not self._writer.is_done:
            error = RequestError("the answer ended without its end", code=Code.INTERNAL)
            items = Deltas((Failed(error),))
        if items:
            self._time += 1
            self._write(cc, items, max(self._time, self._next_time(cc)))

    def close(self, cc: CalculatorContext) -> None:
        if self._texts is not None:
            self._texts.keep()

    def _next_time(self, cc: CalculatorContext) -> int:
        return cc.outputs["HTTP_RESPONSE_PAYLOAD"].next_timestamp_bound.value

    def _write(self, cc: CalculatorContext, items: Deltas, at: int) -> None:
        text = self._writer.write(items)
        if text:
            cc.emit(self.response, text, at=at)
        if items and isinstance(items[0], Begun):
            self._begin_texts(items[0])
        if self._texts is not None:
            self._texts.add(items)

    def _begin_texts(self, begun: Begun) -> None:
        record = begun.request.record
        if record is not None and record.keeps_texts and self._texts is None:
            self._texts = _Texts(record, begun.choices)


class _Texts:
    """The texts that were written, for the log: what a node has taken out stays out."""

    def __init__(self, record: RequestRecord, choices: int) -> None:
        self._record = record
        self._pieces: list[list[str]] = [[] for _ in range(choices)]

    def add(self, items: Deltas) -> None:
        for item in items:
            if not isinstance(item, Gained):
                continue
            for event in item.events:
                match event:
                    case Content(text) | Reasoning(text) | Arguments(text) | ToolCall(text, _):
                        self._pieces[item.choice].append(text)
                    case _:
                        pass

    def keep(self) -> None:
        if self._record.generations:
            self._record.generations[-1].answers = ["".join(each) for each in self._pieces]
