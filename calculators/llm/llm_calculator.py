"""`LLMCalculator`: the language model among the three nodes of a language model."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.requests.request_record import set_current_record
from calculators.kit.tasks.node_resource import node_resource
from calculators.language.delta import Deltas, Failed, Submitted, refusal_deltas
from calculators.language.generation_request import GenerationRequest
from calculators.language.language_model import DeltaSource, LanguageModel
from calculators.llm.endpoints import Counting, endpoint_of
from calculators.llm.options import OPTIONS_TYPE
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    In,
    Out,
    SideIn,
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

    Options are those of `HttpLLMCalculator`, and ``first_token_seconds``.

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
        self._first_token_seconds: float = cc.options(OPTIONS_TYPE).first_token_seconds
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
        # Child processes take turns by client, whom they find by the task's record.
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
            return Deltas((Failed(error.with_traceback(None), request),))
        except TimeoutError:
            self._release()
            late = RequestError(
                f'the model of node "{self._node}" has not begun within {limit:g} s',
                code=Code.DEADLINE_EXCEEDED,
            )
            return Deltas((Failed(late, request),))

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
        request = endpoint.parse(payload.parsed_json, model.limits.request, model.defaults)
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
