"""`HttpLLMCalculator`: OpenAI's chat and completion endpoints over an engine."""

from __future__ import annotations

import time
from typing import Any

from calculators.http_payload import HttpPayload, RequestError
from calculators.llm.answer import Answer, parts_of
from calculators.llm.answer_writers import AnswerWriter, ChatAnswerWriter, CompletionAnswerWriter
from calculators.llm.engine.engine import Part
from calculators.llm.openai.chat_request import ChatRequest, parse_chat_request
from calculators.llm.openai.completion_request import CompletionRequest, parse_completion_request
from calculators.llm.openai.endpoint import Endpoint, endpoint_of
from calculators.llm.openai.generation_request import GenerationRequest
from calculators.llm.openai.model_length import fit_to_model
from calculators.llm.servable import LlmServable
from graph_runtime import (
    Calculator,
    CalculatorContext,
    Cancelled,
    Code,
    GraphError,
    In,
    Out,
    SideIn,
)


class HttpLLMCalculator(Calculator):
    """Answers a chat or completion request; a stream goes round the loop once per piece.

    The first call parses the request, makes the prompt and gives it to the engine. A unary answer
    is one packet. A stream is one packet of events for what is new at each turn of the loop, and a
    ``LOOPBACK`` packet as long as more is to come, with the same timestamp: the time in
    microseconds at which the turn before ended, 0 in the first. No thread waits for a token.

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

    def open(self, cc: CalculatorContext) -> None:
        servable = cc.side(self.resources).get(cc.node_name)
        if servable is None:
            raise GraphError(
                f"Could not find initialized LLM node named: {cc.node_name}",
                code=Code.FAILED_PRECONDITION,
            )
        self._servable: LlmServable = servable
        self._answer: Answer | None = None
        self._client: Any = None
        self._time = 0

    async def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.request):
            payload = cc.get(self.request)
            self._client = payload.client
            request, self._answer = await self._start(payload)
            if not request.stream:
                cc.emit(self.response, await self._answer.whole(), at=self._time)
                self._end_turn()
                return
        answer = self._answer
        if answer is None:
            return
        if not self._client.is_writable:
            # What a slow reader has not taken is not made into more text.
            await self._client.writable()
        events = await answer.events()
        if events:
            cc.emit(self.response, events, at=self._time)
        if not answer.is_finished:
            cc.emit(self.next_turn, True, at=self._time)
        self._end_turn()

    def close(self, cc: CalculatorContext) -> None:
        if self._answer is not None:
            self._answer.cancel()

    def _end_turn(self) -> None:
        self._time = max(time.time_ns() // 1000, self._time + 1)

    async def _start(self, payload: HttpPayload) -> tuple[GenerationRequest, Answer]:
        """Parse, template, tokenize, schedule."""
        servable = self._servable
        endpoint = endpoint_of(payload.uri)
        if payload.parsed_json is None:
            raise RequestError("the body must be JSON, with Content-Type: application/json")
        request: ChatRequest | CompletionRequest
        writer: AnswerWriter
        limits = servable.limits.request
        if endpoint is Endpoint.CHAT_COMPLETIONS:
            request = parse_chat_request(payload.parsed_json, limits, servable.defaults)
            writer = ChatAnswerWriter(request, servable.fingerprint)
        else:
            request = parse_completion_request(payload.parsed_json, limits, servable.defaults)
            writer = CompletionAnswerWriter(request, servable.fingerprint)
        servable.check_room()
        parts: list[Part] = []
        counts: list[int] = []
        for input_ids, param in await self._prompts(request):
            count = servable.check_prompt(input_ids, param=param)
            settings = fit_to_model(request.settings, count, limits.max_model_length, param=param)
            counts.append(count)
            parts += parts_of(input_ids, settings)
        if payload.client.is_disconnected:
            raise Cancelled
        generation = servable.engine.submit(parts)
        payload.client.on_disconnect(generation.cancel)
        return request, Answer(request, servable, writer, generation, counts)

    async def _prompts(self, request: ChatRequest | CompletionRequest) -> list[tuple[bytes, str]]:
        """The token ids of every prompt, and the field each came from."""
        prompts = self._servable.prompts
        if isinstance(request, ChatRequest):
            arguments = {
                **request.template.values,
                "add_generation_prompt": request.template.add_generation_prompt,
            }
            tools = list(request.tools.items) or None
            prompt = await prompts.chat(request.messages, tools, arguments)
            return [(prompt.input_ids, "messages")]
        made: list[tuple[bytes, str]] = []
        for number, text in enumerate(request.prompts):
            param = "prompt" if len(request.prompts) == 1 else f"prompt[{number}]"
            if isinstance(text, str):
                made.append(((await prompts.encode(text)).input_ids, param))
            else:
                made.append((self._servable.token_ids(text, param=param), param))
        return made
