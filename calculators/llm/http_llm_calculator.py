"""`HttpLLMCalculator`: the endpoints of language models over an engine."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from calculators.kit.requests.http_payload import ClientConnection, HttpPayload
from calculators.kit.requests.request_record import GenerationRecord, set_current_record
from calculators.kit.tasks.nodes import node_resource
from calculators.llm.endpoint import Counting
from calculators.llm.endpoints import endpoint_of
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, In, Out, SideIn

if TYPE_CHECKING:
    from calculators.llm.answers.answer import Answer
    from calculators.llm.servable import LlmServable


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
        # OVMS's graphs have this back edge, so a stream is a turn of the graph's loop per piece of
        # text (decision 0033).
        contract.set_apart("LOOPBACK")

    def open(self, cc: CalculatorContext) -> None:
        # They came with the model: a check of a graph needs the ports alone.
        from calculators.llm.answers.answer_writer import DeltaWriter
        from calculators.llm.api.whole_answer import answer_writer

        self._servable: LlmServable = node_resource(cc, self.resources, "LLM")
        self._writer: DeltaWriter = DeltaWriter(answer_writer)
        #: None until a request that generates has been submitted.
        self._answer: Answer | None = None
        self._client: ClientConnection | None = None
        self._time = 0

    async def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.request):
            from calculators.llm.pdf_files import with_documents

            payload = await with_documents(cc.take(self.request))
            begun = await self._begin(payload, cc.node_name)
            if isinstance(begun, str):
                cc.emit(self.response, begun, at=self._time)
                return
            self._answer = begun
        answer, client = self._answer, self._client
        if answer is None or client is None or answer.is_finished:
            return
        if not client.is_writable:
            # Text for a slow reader is made only when the reader has taken the last piece.
            await client.writable()
        events = self._writer.write(await answer.read())
        if events:
            cc.emit(self.response, events, at=self._time)
        if not answer.is_finished:
            cc.emit(self.next_turn, True, at=self._time)
            # A wall clock that steps back must not break the stream: each timestamp is later than
            # the last (decision 0028).
            self._time = max(time.time_ns() // 1000, self._time + 1)

    def close(self, cc: CalculatorContext) -> None:
        if self._answer is not None:
            # `close` is called for each end of a run, so a graph that fails stops its generation
            # too.
            self._answer.cancel()

    # Decision 0048: no coroutine of its own, the caller awaits the answer itself.
    def _begin(self, payload: HttpPayload, node: str) -> Awaitable[Answer | str]:
        """Parse and submit a request; return the answer of a stream, or the whole answer's text.

        Raises:
            RequestError: the request is invalid, or the model cannot answer it.
        """
        from calculators.llm.api.neutral_request import neutral_request

        # Questions to child processes wait in turns by client (decision 0019). The queue reads the
        # client from the record of the current task.
        set_current_record(payload.record)
        self._client = payload.client
        servable = self._servable
        endpoint = endpoint_of(payload.uri)
        body = endpoint.body(payload)
        handling = endpoint.handling()
        if isinstance(handling, Counting):
            counted = endpoint.parse(
                body, servable.limits.request, servable.defaults, payload.continued
            )
            return handling.answer(servable, counted)
        record: GenerationRecord | None = None
        if payload.record is not None:
            record = payload.record.begin_generation(node, endpoint.path[1:])
        # In one pass, so that the first of several errors is reported.
        checked = endpoint.parse(
            body, servable.limits.request, servable.defaults, payload.continued
        )
        request = neutral_request(
            checked,
            handling.api,
            body,
            payload.client,
            payload.record,
            payload.continued,
            has_prompt=False,
        )
        submitting = servable.submit(checked, request, record, logs_raw_text=True)
        return submitting if request.stream else self._whole(submitting)

    async def _whole(self, submitting: Awaitable[Answer]) -> str:
        self._answer = answer = await submitting
        body = ""
        while not answer.is_finished:
            body = self._writer.write(await answer.read())
        return body
