"""`HttpLLMCalculator`: the endpoints of language models over an engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple

import numpy as np

from calculators.llm.answers.answer import Answer, parts_of
from calculators.llm.answers.choice_output import ChoiceOutput
from calculators.llm.answers.response import Verbose
from calculators.llm.endpoints import Counting, Generating, LlmEndpoint, endpoint_of
from calculators.llm.engine.engine import Part
from calculators.llm.requests.chat_request import ChatRequest
from calculators.llm.requests.completion_request import CompletionRequest
from calculators.llm.requests.generation_request import GenerationRequest
from calculators.llm.requests.model_length import fit_to_model
from calculators.llm.requests.truncation import Truncation
from calculators.llm.servable import LlmServable
from calculators.media.image import Image
from calculators.media.limits import MAX_REQUEST_PIXELS
from calculators.requests.http_payload import HttpPayload, RequestError
from calculators.requests.request_record import GenerationRecord, set_current_record
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Cancelled,
    Code,
    GraphError,
    In,
    Out,
    SideIn,
)


class HttpLLMCalculator(Calculator):
    """Answers one request; a streamed answer takes one turn of the loop per piece.

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
        servable = cc.side(self.resources).get(self._node)
        if servable is None:
            raise GraphError(
                f"Could not find initialized LLM node named: {self._node}",
                code=Code.FAILED_PRECONDITION,
            )
        self._servable: LlmServable = servable
        self._answer: Answer | None = None
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
            starting = self._start(endpoint, handling, payload, record)
            del payload
            is_stream, self._answer = await starting
            if not is_stream:
                cc.emit(self.response, await self._answer.whole(), at=self._time)
                self._end_turn()
                return
        answer = self._answer
        if answer is None:
            return
        if not self._client.is_writable:
            # Text for a slow reader is made only when the reader has taken the last piece.
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

    async def _start(
        self,
        endpoint: LlmEndpoint,
        handling: Generating[Any],
        payload: HttpPayload,
        record: GenerationRecord | None,
    ) -> tuple[bool, Answer]:
        """Parse, render, tokenize and submit a request; the first value: is it a stream?"""
        servable = self._servable
        limits = servable.limits.request
        client = payload.client
        request: GenerationRequest = endpoint.parse(payload.parsed_json, limits, servable.defaults)
        del payload
        servable.check_room()
        prompts = await self._prompts(request, handling.prompt_field)
        if request.truncation is not None:
            prompts = [self._cut(prompt, request, request.truncation) for prompt in prompts]
        verbose = Verbose(prompts[0].text) if servable.settings.verbose_response else None
        ids = None
        if request.returns_token_ids and not servable.sees_images:
            ids = [prompt.input_ids for prompt in prompts]
        writer = handling.writer(request, servable.fingerprint, verbose, ids)
        parts: list[Part] = []
        outputs: list[ChoiceOutput] = []
        prompt_tokens = 0
        keeps_texts = record is not None and record.keeps_texts
        written: list[Verbose] = []
        for prompt in prompts:
            count = servable.check_prompt(prompt.input_ids, param=prompt.param)
            settings = fit_to_model(
                request.settings,
                count,
                limits.max_model_length,
                param=prompt.param,
                has_images=bool(prompt.images),
                may_be_less=not request.limits_itself,
            )
            settings = servable.with_adapter(settings, request.model)
            settings = await servable.with_grammar(settings, request, prompt.text)
            prompt_tokens += count
            text = prompt.text if servable.sees_images else ""
            parts += parts_of(Part(prompt.input_ids, settings, text, prompt.images))
            for _ in range(settings.num_return_sequences):
                if keeps_texts:
                    verbose = verbose or Verbose(prompt.text)
                    written.append(verbose)
                # Prompt and raw text beside the answer are of the first choice.
                outputs.append(
                    servable.output(
                        request,
                        prompt.text,
                        count,
                        has_form=settings.grammar is not None,
                        verbose=verbose,
                    )
                )
                verbose = None
        if servable.sees_images:
            _check_pixels(parts)
        if client.is_disconnected:
            raise Cancelled
        generation = servable.engine.submit(parts)
        if record is not None:
            record.submitted = perf_counter_ns()
            record.prompt_tokens = prompt_tokens
            record.max_tokens = request.settings.max_new_tokens
            if keeps_texts:
                record.prompts = [prompt.text for prompt in prompts]
        client.on_disconnect(generation.cancel)
        answer = Answer(
            request,
            writer,
            generation,
            outputs,
            pieces=servable.tokens.pieces,
            prompt_tokens=prompt_tokens,
            record=record,
            written=written,
        )
        return request.stream, answer

    async def _prompts(self, request: GenerationRequest, field: str) -> list[_Prompt]:
        servable = self._servable
        will_be_cut = request.truncation is not None
        if isinstance(request, ChatRequest):
            try:
                prompt = await servable.chat_prompt(
                    request.messages,
                    request.images,
                    request.tools,
                    request.template,
                    will_be_cut=will_be_cut,
                )
            except RequestError as error:
                # A template fails with what is no JSON schema, whose own error says more.
                if error.code is Code.INVALID_ARGUMENT and request.tools.items:
                    await servable.with_grammar(request.settings, request, "")
                if type(request) is not ChatRequest:
                    # The template's messages do not correspond one by one to the client's.
                    error.param = field
                raise
            return [_Prompt(prompt.input_ids, prompt.text, field, prompt.images)]
        assert isinstance(request, CompletionRequest)
        if servable.sees_images:
            raise RequestError(
                "this model sees images and answers chats only: use /v3/chat/completions, "
                "/v3/responses or /v3/messages"
            )
        made: list[_Prompt] = []
        for number, text in enumerate(request.prompts):
            param = field if len(request.prompts) == 1 else f"{field}[{number}]"
            if isinstance(text, str):
                prompt = await servable.prompts.encode(
                    text, add_special_tokens=request.add_special_tokens, will_be_cut=will_be_cut
                )
                made.append(_Prompt(prompt.input_ids, text, param))
            else:
                shown = servable.tokens.decode(text, skip_special_tokens=False)
                made.append(_Prompt(servable.token_ids(text, param=param), shown, param))
        return made

    def _cut(self, prompt: _Prompt, request: GenerationRequest, truncation: Truncation) -> _Prompt:
        servable = self._servable
        # An answer needs a token at least; no limit of the client reserves more.
        asked = request.settings.max_new_tokens if request.limits_itself else None
        ids = servable.cut_prompt(prompt.input_ids, truncation, 1 if asked is None else asked)
        if len(ids) == len(prompt.input_ids):
            return prompt
        left = np.frombuffer(ids, dtype=np.int64).tolist()
        text = servable.tokens.decode(left, skip_special_tokens=False)
        return prompt._replace(input_ids=ids, text=text)


def _check_pixels(parts: Sequence[Part]) -> None:
    """Limit the pixels of all parts, each of which sends its images to the engine.

    Raises:
        RequestError: there are too many.
    """
    pixels = sum(image.width * image.height for part in parts for image in part.images)
    if pixels > MAX_REQUEST_PIXELS:
        raise RequestError(
            f"{len(parts)} answers are too many for these images: once for each answer they have "
            f"{pixels} pixels, and {MAX_REQUEST_PIXELS} are the maximum",
            param="n",
        )


class _Prompt(NamedTuple):
    """A prompt, and the member of the request with it."""

    input_ids: bytes
    text: str
    param: str
    images: tuple[Image, ...] = ()
