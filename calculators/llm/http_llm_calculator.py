"""`HttpLLMCalculator`: the endpoints of language models over an engine."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from calculators.kit.requests.http_payload import HttpPayload
from calculators.kit.tasks.node_resource import node_resource
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, In, Out, SideIn

if TYPE_CHECKING:
    from calculators.llm.http_answering import HttpAnswering


class HttpLLMCalculator(Calculator):
    """Answers one request; a streamed answer takes one turn of the loop per piece.

    It is `GenerationRequestReaderCalculator`, `LLMCalculator` and
    `GenerationResponseWriterCalculator` in one node, for graphs without nodes between them.

    The first call parses the request, makes the prompt and submits it to the engine. A unary answer
    is one packet. A stream is a packet of new events at each turn of the loop, and a ``LOOPBACK``
    packet with the same timestamp while more is to come. The timestamp is the time in microseconds
    at which the turn before ended, 0 in the first turn. No thread waits for a token.

    ::

        node {
          name: "LLMExecutor"
          calculator: "HttpLLMCalculator"
          input_stream: "LOOPBACK:loopback"
          input_stream: "HTTP_REQUEST_PAYLOAD:input"
          input_side_packet: "LLM_NODE_RESOURCES:llm"
          output_stream: "LOOPBACK:loopback"
          output_stream: "HTTP_RESPONSE_PAYLOAD:output"
          input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
          node_options {
            [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./" }
          }
          input_stream_handler {
            input_stream_handler: "SyncSetInputStreamHandler"
            options {
              [mediapipe.SyncSetInputStreamHandlerOptions.ext] {
                sync_set { tag_index: "LOOPBACK:0" }
              }
            }
          }
        }
    """

    request = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    turn = In[bool]("LOOPBACK")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD")
    next_turn = Out[bool]("LOOPBACK")
    resources = SideIn[dict[str, Any]]("LLM_NODE_RESOURCES")
    contexts = SideIn[dict[str, Any]]("LLM_NODE_EXECUTION_CONTEXTS", optional=True)
    timestamp_offset = None

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        contract.set_apart("LOOPBACK")

    def open(self, cc: CalculatorContext) -> None:
        # It came with the model: a check of a graph needs the ports alone.
        from calculators.llm.answers.answer_writer import DeltaWriter
        from calculators.llm.api.whole_answer import answer_writer
        from calculators.llm.http_answering import HttpAnswering

        servable = node_resource(cc, self.resources, "LLM")
        self._answering: HttpAnswering = HttpAnswering(
            cc.node_name, servable, DeltaWriter(answer_writer)
        )
        self._time = 0

    async def process(self, cc: CalculatorContext) -> None:
        answering = self._answering
        if not cc.is_empty(self.request):
            from calculators.llm.pdf_files import with_pdf_texts

            begun = await answering.begin(await with_pdf_texts(cc.take(self.request)))
            if isinstance(begun, str):
                cc.emit(self.response, begun, at=self._time)
                return
            answering.answer = begun
        answer, client = answering.answer, answering.client
        if answer is None or client is None or answer.is_finished:
            return
        if not client.is_writable:
            # Text for a slow reader is made only when the reader has taken the last piece.
            await client.writable()
        events = answering.writer.write(await answer.read())
        if events:
            cc.emit(self.response, events, at=self._time)
        if not answer.is_finished:
            cc.emit(self.next_turn, True, at=self._time)
            self._time = max(time.time_ns() // 1000, self._time + 1)

    def close(self, cc: CalculatorContext) -> None:
        if self._answering.answer is not None:
            self._answering.answer.cancel()
