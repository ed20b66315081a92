"""`HttpLLMCalculator`: the endpoints of language models over an engine."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Any

from calculators.language.generation_request import GenerationRequest
from calculators.llm.answers.answer import Answer
from calculators.llm.answers.delta_writer import DeltaWriter
from calculators.llm.api.answer_writers import answer_writer
from calculators.llm.api.neutral_request import neutral_request
from calculators.llm.endpoints import Counting, Generating, LlmEndpoint, endpoint_of
from calculators.llm.servable import LlmServable
from calculators.requests.http_payload import HttpPayload, RequestError
from calculators.requests.request_record import GenerationRecord, set_current_record
from calculators.tasks.node_resource import node_resource
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, In, Out, SideIn


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
        self._node = cc.node_name
        self._servable: LlmServable = node_resource(cc, self.resources, "LLM")
        self._answer: Answer | None = None
        self._writer = DeltaWriter(answer_writer)
        self._client: Any = None
        self._time = 0

    async def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.request):
            payload = cc.take(self.request)
            # Child processes take turns by client, whom they find by the task's record.
            set_current_record(payload.record)
            self._client = payload.client
            endpoint = endpoint_of(payload.uri)
            if payload.parsed_json is None:
                raise RequestError("the body must be JSON, with Content-Type: application/json")
            handling = endpoint.handling()
            if isinstance(handling, Counting):
                servable = self._servable
                request = endpoint.parse(
                    payload.parsed_json, servable.limits.request, servable.defaults
                )
                cc.emit(self.response, await handling.answer(servable, request))
                return
            record: GenerationRecord | None = None
            if payload.record is not None:
                record = payload.record.begin_generation(self._node, endpoint.path[1:])
            is_stream, submitting = self._submit(endpoint, handling, payload, record)
            del payload
            self._answer = await submitting
            if not is_stream:
                cc.emit(self.response, await self._whole(self._answer), at=self._time)
                return
        answer = self._answer
        if answer is None:
            return
        if not self._client.is_writable:
            # Text for a slow reader is made only when the reader has taken the last piece.
            await self._client.writable()
        events = self._writer.write(await answer.read())
        if events:
            cc.emit(self.response, events, at=self._time)
        if not answer.is_finished:
            cc.emit(self.next_turn, True, at=self._time)
            self._time = max(time.time_ns() // 1000, self._time + 1)

    def close(self, cc: CalculatorContext) -> None:
        if self._answer is not None:
            self._answer.cancel()

    async def _whole(self, answer: Answer) -> str:
        body = ""
        while not answer.is_finished:
            body = self._writer.write(await answer.read())
        return body

    def _submit(
        self,
        endpoint: LlmEndpoint,
        handling: Generating[Any],
        payload: HttpPayload,
        record: GenerationRecord | None,
    ) -> tuple[bool, Awaitable[Answer]]:
        """Parse a request, then render, tokenize and submit it; the first value: is it a stream?"""
        servable = self._servable
        # In one pass, so that the first of several errors is reported.
        checked = endpoint.parse(payload.parsed_json, servable.limits.request, servable.defaults)
        request: GenerationRequest = neutral_request(
            checked,
            handling.api,
            payload.parsed_json,
            payload.client,
            payload.record,
            has_prompt=False,
        )
        return request.stream, servable.submit(checked, request, record, logs_raw_text=True)
