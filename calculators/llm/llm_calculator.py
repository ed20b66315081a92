"""The three nodes of a language model: reader of requests, model, writer of responses.

`GenerationRequestReaderCalculator`, `LLMCalculator` and `GenerationResponseWriterCalculator`
exchange packets of `calculators.language`, so that a graph can have other nodes between them.
`HttpLLMCalculator` is all three in one node.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.requests.request_record import RequestRecord, set_current_record
from calculators.kit.tasks.nodes import node_resource
from calculators.language.delta import (
    Begun,
    Deltas,
    DeltaSource,
    Failed,
    Gained,
    LanguageModel,
    Submitted,
    refusal_deltas,
)
from calculators.language.events import Arguments, Content, Reasoning, ToolCall
from calculators.language.first_answer import FirstAnswer
from calculators.language.generation_request import GenerationRequest
from calculators.llm.endpoint import Counting
from calculators.llm.endpoints import ENDPOINTS, endpoint_of
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Code, In, Out, SideIn
from protos import messages


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


class GenerationRequestReaderCalculator(Calculator):
    """Reads requests to language models, whichever API they came by.

    Requests that no model takes are refused here; `LLMCalculator` checks the limits of its model.
    Requests to count tokens (``/tokenize``, ``/messages/count_tokens``) go to ``COUNT``; without
    it they are answered with 404.

    ::

        node {
          calculator: "GenerationRequestReaderCalculator"
          input_stream: "HTTP_REQUEST_PAYLOAD:input"
          output_stream: "REQUEST:request"
        }
    """

    payload = In[HttpPayload]("HTTP_REQUEST_PAYLOAD")
    request = Out[GenerationRequest]("REQUEST")
    count = Out[HttpPayload]("COUNT", optional=True)

    async def process(self, cc: CalculatorContext) -> None:
        # Here, as in `endpoints`: a check of a graph needs the ports alone.
        from calculators.llm.api.neutral_request import (
            OPEN_DEFAULTS,
            OPEN_LIMITS,
            neutral_request,
            without_model_dependent,
        )
        from calculators.llm.pdf_files import with_documents

        # Taken, so that the body is free once it is read.
        payload = await with_documents(cc.take(self.payload))
        set_current_record(payload.record)
        endpoint = endpoint_of(payload.uri)
        body = endpoint.body(payload)
        handling = endpoint.handling()
        if isinstance(handling, Counting):
            if not cc.is_connected(self.count):
                raise _not_counted(endpoint.paths()[0])
            cc.emit(self.count, payload)
            return
        checked = endpoint.parse(
            without_model_dependent(body), OPEN_LIMITS, OPEN_DEFAULTS, payload.continued
        )
        read = neutral_request(
            checked, handling.api, body, payload.client, payload.record, payload.continued
        )
        cc.emit(self.request, read.as_asked())


def _not_counted(path: str) -> RequestError:
    answered = [each.paths()[0] for each in ENDPOINTS if not isinstance(each.handling(), Counting)]
    return RequestError(
        f'This graph does not answer "{path}"; it answers {", ".join(answered)}; /v3 may be /v1',
        code=Code.NOT_FOUND,
    )


class LLMCalculator(Calculator):
    """Generates answers: a `GenerationRequest` in, a packet of `Deltas` out for each turn.

    Requests may come on several inputs and any number of times in a run, as from a router, a
    fall-back or a loop through tools; they are answered one after the other. A request that cannot
    be answered becomes `Failed`, and does not end the run: another model may answer it.

    A turn of the loop waits until a slow client has read the last piece, then for tokens. The
    timestamp of a packet is the monotonic time in microseconds at which it was begun. The graph
    needs neither an input stream handler nor a back edge for ``LOOPBACK``: the contract has them.

    ``COUNT`` takes requests to count tokens, which are answered on ``HTTP_RESPONSE_PAYLOAD``.

    Options: as `HttpLLMCalculator`, and ``first_token_seconds``.

    ::

        node {
          name: "LLMExecutor"
          calculator: "LLMCalculator"
          input_stream: "REQUEST:request"
          input_stream: "LOOPBACK:loopback"
          input_side_packet: "LLM_NODE_RESOURCES:llm"
          output_stream: "LOOPBACK:loopback"
          output_stream: "DELTAS:deltas"
          node_options {
            [type.googleapis.com/mediapipe.LLMCalculatorOptions] { models_path: "./" }
          }
        }
    """

    requests = In[GenerationRequest]("REQUEST", multiple=True)
    turn = In[bool]("LOOPBACK")
    count = In[HttpPayload]("COUNT", optional=True)
    deltas = Out[Deltas]("DELTAS")
    next_turn = Out[bool]("LOOPBACK")
    response = Out[str]("HTTP_RESPONSE_PAYLOAD", optional=True)
    resources = SideIn[dict[str, Any]]("LLM_NODE_RESOURCES")
    contexts = SideIn[dict[str, Any]]("LLM_NODE_EXECUTION_CONTEXTS", optional=True)
    timestamp_offset = None

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        contract.sync_sets = [[key] for key in contract.inputs]

    def open(self, cc: CalculatorContext) -> None:
        self._node = cc.node_name
        self._model: LanguageModel = node_resource(cc, self.resources, "LLM")
        self._first_token_seconds: float = cc.options(
            messages.LLMCalculatorOptions
        ).first_token_seconds
        #: Requests that wait for the end of the answer before theirs.
        self._waiting: deque[GenerationRequest] = deque()
        self._request: GenerationRequest | None = None
        self._answer: DeltaSource | None = None
        self._has_begun = False
        self._time = 0

    async def process(self, cc: CalculatorContext) -> None:
        if not cc.is_empty(self.count):
            await self._count(cc, cc.take(self.count))
            return
        is_turn = not cc.is_empty(self.turn)
        if not is_turn:
            self._waiting += [each for each in cc.get_all(self.requests) if each is not None]
            if self._request is not None:
                return  # the turns of the answer before come back here
        if self._request is None:
            if not self._waiting:
                return
            items = await self._begin(cc, self._waiting.popleft())
        else:
            items = await self._go_on(self._request)
        if items:
            cc.emit(self.deltas, items, at=self._time)
        if self._request is not None or self._waiting:
            cc.emit(self.next_turn, True, at=self._time)
        self._end_turn()

    def close(self, cc: CalculatorContext) -> None:
        self._release()

    def _end_turn(self) -> None:
        self._time = max(time.monotonic_ns() // 1000, self._time + 1)

    def _release(self) -> None:
        """Forget the answer. One that has not ended is cancelled."""
        self._request = None
        answer, self._answer = self._answer, None
        if answer is not None:
            answer.cancel()

    async def _begin(self, cc: CalculatorContext, request: GenerationRequest) -> Deltas:
        """Submit a request, and return the first items of its answer."""
        if request.refusal is not None:
            return refusal_deltas(request, request.refusal.text, request.refusal.category)
        # Questions to child processes wait in turns by client (decision 0019). The queue reads the
        # client from the record of the current task.
        set_current_record(request.record)
        stopping = _Stopping()
        cc.emit(self.deltas, Deltas((Submitted(stopping.stop, self._node),)), at=self._time)
        cc.flush()
        self._end_turn()
        # Every model that was asked has said so before one of them fails.
        await asyncio.sleep(0)
        limit = self._first_token_seconds or None
        try:
            async with asyncio.timeout(limit):
                self._answer = await self._model.generate(request, self._node)
                stopping.is_for(self._answer.stop)
                self._request = request
                return await self._go_on(request)
        except RequestError as error:
            self._release()
            error = self._attributed(error.with_traceback(None), request)
            return Deltas((Failed(error, request),))
        except TimeoutError:
            self._release()
            late = RequestError(
                f'the model of node "{self._node}" has not begun within {limit:g} s',
                code=Code.DEADLINE_EXCEEDED,
            )
            return Deltas((Failed(late, request),))

    def _attributed(self, error: RequestError, request: GenerationRequest) -> RequestError:
        """Return the error of a value; of one that a node before this one set, that node's."""
        if error.code is not Code.INVALID_ARGUMENT or error.param is None:
            return error
        setter = request.setter_of(error.param)
        if setter is None:
            return error
        who = setter.code or f'a node before "{self._node}"'
        return RequestError(
            f"{who} set a value that the model does not take: {error}",
            code=Code.INTERNAL,
            node=setter.node or self._node,
        )

    async def _go_on(self, request: GenerationRequest) -> Deltas:
        """Return the next items of the answer."""
        assert self._answer is not None
        if not request.client.is_writable:
            # Text for a slow reader is made only when the reader has taken the last piece.
            await request.client.writable()
        items = await self._answer.read()
        if self._answer.is_finished:
            self._release()
        return items

    async def _count(self, cc: CalculatorContext, payload: HttpPayload) -> None:
        from calculators.llm.servable import LlmServable

        set_current_record(payload.record)
        endpoint = endpoint_of(payload.uri)
        handling = endpoint.handling()
        model = self._model
        if not isinstance(handling, Counting) or not isinstance(model, LlmServable):
            raise RequestError("this model does not count tokens", code=Code.UNIMPLEMENTED)
        request = endpoint.parse(
            endpoint.body(payload), model.limits.request, model.defaults, payload.continued
        )
        cc.emit(self.response, await handling.answer(model, request), at=self._time)
        self._end_turn()


class _Stopping:
    """The ``stop`` of an answer that may not be submitted yet."""

    def __init__(self) -> None:
        self._is_stopped = False
        self._stop: Callable[[], None] | None = None

    def stop(self) -> None:
        self._is_stopped = True
        if self._stop is not None:
            self._stop()

    def is_for(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        if self._is_stopped:
            stop()
