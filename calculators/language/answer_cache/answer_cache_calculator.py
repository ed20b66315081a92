"""`AnswerCacheCalculator`: gives an answer again that a model has made before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Any, Final

from calculators.kit.model_initializer import cache_of, host_of
from calculators.kit.tasks.nodes import naming_node
from calculators.language import Api, Deltas, GenerationRequest
from calculators.language.answer_cache.answer_cache import (
    AnswerCache,
    AnswerRecorder,
    CacheQuestion,
    SimilarQuestions,
    may_be_kept,
    request_key,
)
from calculators.text.embeddings.servable import (
    OPTIONS_TYPE,
    EmbeddingsServable,
    read_embeddings_options,
)
from calculators.text.text_models.model_options import compiled_entry
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    In,
    NodePlan,
    Out,
    ResourceError,
    ResourceSettings,
    SideIn,
    has_options,
)
from graph_runtime.authoring.contract import options_of_node
from protos import messages

OPTIONS = messages.AnswerCacheOptions
TAG: Final = "ANSWER_CACHE"


class AnswerCacheInitializer:
    """Makes the cache of every AnswerCacheCalculator.

    A reload of the graph makes a new one, because the graph may have another model now.
    """

    tag: str = TAG
    context_tags: Sequence[str] = ()

    def matches(self, calculator: str) -> bool:
        return calculator == "AnswerCacheCalculator"

    def check(self, node: NodePlan, settings: ResourceSettings) -> Sequence[str]:
        if _similarity(node):
            return read_embeddings_options(node, settings).warnings
        return ()

    async def make(self, node: NodePlan, settings: ResourceSettings) -> AnswerCache:
        options = options_of_node(node.config, OPTIONS)
        similarity = _similarity(node)
        similar = None
        if similarity:
            similar = SimilarQuestions(await _embedder(node, settings), similarity)
        return AnswerCache(
            options.max_bytes,
            options.max_seconds,
            keeps_samples=options.samples,
            similar=similar,
        )


def _similarity(node: NodePlan) -> float:
    """Return the least cosine of similar questions; 0: they are not compared.

    Raises:
        ResourceError: it is not a cosine, or one of it and the embedding model is missing.
    """
    similarity: float = options_of_node(node.config, OPTIONS).similarity
    has_model = has_options(node.config, OPTIONS_TYPE)
    with naming_node(node):
        if not 0 <= similarity <= 1:
            raise ResourceError(f"similarity: {similarity:g} is not between 0 and 1")
        if similarity and not has_model:
            raise ResourceError(
                "similarity: add the model that compares questions: node_options { "
                "[type.googleapis.com/mediapipe.EmbeddingsCalculatorOVOptions] "
                '{ models_path: "..." } }'
            )
        if has_model and not similarity:
            raise ResourceError(
                "similarity: set it, such as 0.95; the node has a model that compares questions"
            )
    return similarity


async def _embedder(node: NodePlan, settings: ResourceSettings) -> EmbeddingsServable:
    options = await asyncio.to_thread(read_embeddings_options, node, settings)
    entry = await asyncio.to_thread(compiled_entry, options.model, cache_of(settings), options.head)
    embedder = EmbeddingsServable(options, host_of(node, settings, entry))
    with naming_node(node):
        await embedder.start(settings.progress)
    return embedder


#: Characters up to which a digest is made on the event loop.
_MOST_HASHED_AT_ONCE: Final = 65_536
_BLANK: Final = GenerationRequest(api=Api.CHAT, model="")


class AnswerCacheCalculator(Calculator):
    """Answers a request from its cache, or lets the next model answer and keeps the answer.

    A request is recognized by everything that its answer depends on: messages, images, tools,
    form, sampling, and the name of the model. Answers that the model would repeat are kept: greedy
    ones, and those with a seed; with the option ``samples``, all. Refusals, failures and answers
    with log-probabilities are not kept. An answer from the cache comes in one packet, with new ids
    and the usage that it had.

    Of equal requests at one time, one goes to the model, and the others wait for its answer.

    Inputs:
        REQUEST (GenerationRequest)
        DELTAS (Deltas): the model's answers.
    Outputs:
        REQUEST (GenerationRequest): the requests that no kept answer has, for the model.
        DELTAS (Deltas): the answers.
    Input side packets: ANSWER_CACHE: the cache, which all runs of the graph share. The node needs a
        name.
    Options:
        graphrt.AnswerCacheOptions: max_bytes, max_seconds, samples, similarity.
        mediapipe.EmbeddingsCalculatorOVOptions: the model that compares questions, with similarity.

    ::

        node {
          name: "cache"
          calculator: "AnswerCacheCalculator"
          input_stream: "REQUEST:request"
          input_stream: "DELTAS:made"
          output_stream: "REQUEST:missed"
          output_stream: "DELTAS:answer"
          input_side_packet: "ANSWER_CACHE:cache"
        }
        node {
          name: "LLMExecutor"
          calculator: "LLMCalculator"
          input_stream: "REQUEST:missed"
          output_stream: "DELTAS:made"
          ...
        }
    """

    request = In[GenerationRequest]("REQUEST")
    made = In[Deltas]("DELTAS")
    missed = Out[GenerationRequest]("REQUEST")
    answer = Out[Deltas]("DELTAS")
    caches = SideIn[dict[str, Any]](TAG)
    timestamp_offset = None

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        contract.options(OPTIONS)
        contract.sync_sets = [[key] for key in contract.inputs]

    def open(self, cc: CalculatorContext) -> None:
        cache = cc.side(self.caches).get(cc.node_name)
        if cache is None:
            raise GraphError(
                f"no cache for the node: {cc.node_name}", code=Code.FAILED_PRECONDITION
            )
        self._cache: AnswerCache = cache
        self._next = 0
        self._key: bytes | None = None
        self._recorder: AnswerRecorder | None = None
        self._has_departed = False
        self._question: CacheQuestion | None = None

    def process(self, cc: CalculatorContext) -> Awaitable[None] | None:
        if not cc.is_empty(self.made):
            self._pass(cc, cc.get(self.made))
        # A coroutine only where something has to be waited for: packets of answers are many.
        return None if cc.is_empty(self.request) else self._look_up(cc, cc.get(self.request))

    def close(self, cc: CalculatorContext) -> None:
        self._land()

    async def _look_up(self, cc: CalculatorContext, request: GenerationRequest) -> None:
        key = await self._key_of(request) if may_be_kept(request) else None
        self._question = None
        if key is not None and self._cache.similar is not None and self._cache.find(key) is None:
            self._question = await self._cache.similar.question_of(request)
            if self._question is not None and self._answers_similar(cc, request, self._question):
                return
        while key is not None:
            kept = self._cache.find(key)
            if kept is not None:
                if request.record is not None:
                    request.record.note_route(cc.node_name, "kept")
                self._send(cc, kept.played_for(request))
                return
            flight = None
            if self._cache.is_repeatable(request):
                flight = self._cache.depart(key)
                self._has_departed = flight is None
            if flight is None:
                break
            # It may have brought nothing that is kept: then one of those who waited departs.
            await flight.landed()
        self._key = key
        self._recorder = AnswerRecorder(_BLANK) if key is not None else None
        self._ask(cc, request)

    def _answers_similar(
        self, cc: CalculatorContext, request: GenerationRequest, question: CacheQuestion
    ) -> bool:
        """Give the kept answer to a similar question, if there is one."""
        found = self._cache.find_similar(question)
        if found is None:
            return False
        kept, score = found
        if request.record is not None:
            # Not the questions: no prompt is logged or traced.
            request.record.note_route(cc.node_name, f"similar by {score:.3f}")
        self._send(cc, kept.played_for(request))
        return True

    async def _key_of(self, request: GenerationRequest) -> bytes | None:
        try:
            if _size_of(request) <= _MOST_HASHED_AT_ONCE:
                return request_key(request)
            return await asyncio.to_thread(request_key, request)
        except ValueError:
            return None

    def _ask(self, cc: CalculatorContext, request: GenerationRequest) -> None:
        time = max(cc.time, self._next)
        cc.emit(self.missed, request, at=time)
        self._next = time + 1

    def _pass(self, cc: CalculatorContext, packet: Deltas) -> None:
        recorder = self._recorder
        if recorder is not None:
            packet = recorder.feed(packet)
            if recorder.is_over:
                self._keep(recorder)
        self._send(cc, packet)

    def _keep(self, recorder: AnswerRecorder) -> None:
        begun, key = recorder.begun, self._key
        if recorder.kept is not None and begun is not None and key is not None:
            sampling = begun.sampling
            if self._cache.is_repeatable(begun.request, sampling):
                self._cache.keep(key, recorder.kept, self._question)
        self._land()

    def _land(self) -> None:
        if self._has_departed and self._key is not None:
            self._cache.land(self._key)
        self._has_departed = False
        self._key = self._recorder = self._question = None

    def _send(self, cc: CalculatorContext, packet: Deltas) -> None:
        time = max(cc.time, self._next)
        cc.emit(self.answer, packet, at=time)
        self._next = time + 1


def _size_of(request: GenerationRequest) -> int:
    """Return the number of characters that a digest reads, roughly and at least."""
    size = sum(len(image.url) for image in request.images)
    for prompt in request.prompts:
        size += len(prompt)
    for message in request.messages:
        content = message.get("content")
        if isinstance(content, str):
            size += len(content)
        elif isinstance(content, list):
            size += sum(len(str(part.get("text", ""))) for part in content)
    return size
