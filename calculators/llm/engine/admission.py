"""`Admission`: which requests run in a pipeline, and which wait.

A step computes one token of every running sequence and, with what is left of its budget
(``max_num_batched_tokens``), parts of new prompts in the order of their arrival. So a pipeline has
places for sequences; a request takes one for each of its sequences, with beam search one for each
beam. Clients get places in turns (`ClientOrder`): a client that has filled them with samples of
many answers gets the next one only after everybody else. The library generates every sequence to
its end, so a turn alone would not help while all places are taken: an eighth of them is kept for
clients that have none, and half of these for short answers of connections that have none, because
many users may share an address. Long answers would take these places for minutes, however many
there were. The eighth also keeps room for prompts in every step.

Prompts wait here rather than in the library, which would compute all of one client's before
another's: it gets the prompts of the next few steps. One long prompt is not divided.

Where the key-value cache has a fixed size, no request may fill it alone: a prompt that does not fit
is refused, and an answer that would outgrow the cache ends with the reason "cache". Several
requests may still need more than there is; the library then evicts sequences and computes them
again later. Where it must not (`CacheCapacity.is_reserved`), a request waits until the tokens that
it can need are free, and an eighth of these is kept in the same way.

Only the pipeline knows the number of tokens of a prompt with images. It may take all of a cache,
and counts as a long prompt: the library looks at its images before it returns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, Protocol, TypeVar

import msgspec
import numpy as np

from calculators.kit.child_process.fair_turns import ClientOrder
from calculators.kit.requests.client_identity import ClientIdentity
from calculators.llm.engine.core import GenerationRefused, Pipeline
from calculators.llm.engine.messages import Add, EngineReady, FailedGeneration, Metrics, NewTokens
from calculators.llm.engine.settings import EngineSettings
from calculators.llm.grammars.grammar import Grammar


class AdaptedPipeline(Pipeline, Protocol):
    """A pipeline that applies one adapter at a time, to all its requests."""

    def ready(self) -> EngineReady:
        """Return the message that the engine process sends once the model is loaded."""

    def select(self, adapter: str) -> None:
        """Apply the adapter of this name, "" is none; only while there is no work."""


class OuterPipeline:
    """The base of pipelines that queue requests in front of another: it forwards grammars."""

    def __init__(self, pipeline: AdaptedPipeline) -> None:
        self._pipeline = pipeline

    def is_compiled(self, grammar: Grammar) -> bool:
        return self._pipeline.is_compiled(grammar)

    def make_room(self) -> None:
        self._pipeline.make_room()

    def compile(self, grammar: Grammar) -> None:
        self._pipeline.compile(grammar)


#: Lengths of two prompts: the first takes one block, the second two blocks of 32 or three of 16.
_SHORT, _LONGER = 2, 40
_BLOCKS: Final = {2: 32, 3: 16}


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheCapacity:
    """A cache of ``tokens`` tokens in blocks of ``block``.

    Attributes:
        kept: tokens that eviction leaves of a sequence after its prompt; None without eviction.
        is_reserved: a sequence must keep its room: it cannot be evicted and recomputed.
    """

    tokens: int
    block: int
    kept: int | None = None
    is_reserved: bool = False

    def answer(self, prompt: int, beams: int = 1) -> int | None:
        """Return the number of new tokens that fit beside a prompt in an otherwise empty cache.

        Below 1 the prompt does not fit. None is no limit.
        """
        if self.kept is not None and beams * self._dropping(prompt) <= self.tokens:
            return None
        # The beams share the prompt's full blocks; the last token of an answer is not kept.
        blocks, rest = divmod(prompt, self.block)
        return (self.tokens // self.block - blocks) // beams * self.block - rest + 1

    def need(self, prompt: int, answer: int, beams: int = 1) -> int:
        """Return the tokens to reserve for a request, so that no other can take its room."""
        whole = prompt + answer
        if self.kept is not None:
            whole = min(whole, self._dropping(prompt))
        blocks = -(-whole // self.block)
        return min(beams * blocks * self.block, self.tokens)

    def _dropping(self, prompt: int) -> int:
        assert self.kept is not None
        # Eviction happens after a step, in whole blocks.
        return max(prompt, self.kept) + 2 * self.block


def find_cache_capacity(
    settings: EngineSettings, usage_of: Callable[[int], float | None]
) -> CacheCapacity | None:
    """Measure the capacity of an engine's cache; None where it grows or does not report its use.

    Args:
        usage_of: returns the part of the cache (0 to 1) that a prompt of so many tokens takes;
            None where it cannot be tried.
    """
    # Measured, not computed from the model's config: the library rounds the cache to blocks by
    # rules of its own (decision 0023).
    one = usage_of(_SHORT)
    more = usage_of(_LONGER)
    if not one or not more:
        return None
    ratio = more / one
    block = _BLOCKS.get(round(ratio))
    # Models with a state beside the cache report that instead.
    if block is None or abs(ratio - round(ratio)) > 0.01:
        return None
    speculates = settings.decoding_mode != "standard"
    eviction = settings.cache_eviction
    kept = None
    if eviction is not None:
        # KVCrush takes back so many of the blocks that were to be dropped.
        kept = eviction.max_cache_size + eviction.kv_crush_budget * block
    blocks = round(1 / one)
    return CacheCapacity(
        # Proposed tokens take room until they are rejected.
        tokens=(blocks - speculates) * block,
        block=block,
        kept=kept,
        # openvino-genai 2026.4 crashes when it recomputes such a sequence.
        is_reserved=eviction is not None or speculates,
    )


_TOKEN_BYTES: Final = np.dtype(np.int64).itemsize
#: The answer length of a request that names none: more than any cache holds.
_ENDLESS: Final = 2**62
#: The part of places, and of reserved tokens, that clients which have some already cannot get.
_KEPT_PART: Final = 8
#: The part of what is kept for connections that one of their requests may take, and the tokens of
#: its answer.
_SMALL_PART: Final = 4
_SHORT_ANSWER: Final = 128
#: Steps whose prompts the library has.
_STEPS_AHEAD: Final = 4
#: A pipeline of fewer places keeps none: a client that is alone would miss it.
_LEAST_PLACES: Final = 4


class _AdmittedRequest(msgspec.Struct, eq=False):
    """A request that waits or runs.

    Attributes:
        number: requests are numbered as they arrive.
        rank: the sequences that its answer, and its connection, had with it when it arrived, and a
            half more if its answer may be long. So the first choice of each of a client's answers
            comes before the second choice of any, and a connection that asks for little before one
            that asks for much.
        places: the number of its sequences.
        prompt: its tokens that are to be computed before the first of the answer.
        need: tokens of the cache that are reserved for it; 0: none.
        unfinished: sequences that have not ended.
        is_short: its answer is limited by the cache.
        asks_little: its answer has few tokens.
    """

    number: int
    client: ClientIdentity
    rank: float
    add: Add
    places: int
    prompt: int
    need: int
    unfinished: int
    is_short: bool
    asks_little: bool
    has_begun: bool = False


class _SharedAmount:
    """An amount of something, and its parts by client."""

    def __init__(self, amount: int, kept: int) -> None:
        """``kept``: the part for clients that have none."""
        self._amount = amount
        self._kept = kept
        self._used = 0
        self._of: Counter[str] = Counter()
        self._of_connection: Counter[ClientIdentity] = Counter()

    def has(self, amount: int, client: ClientIdentity, *, only_kept: bool, is_brief: bool) -> bool:
        """Return whether a client may have so much more.

        ``only_kept``: the rest is for somebody whose turn is earlier. ``is_brief``: it will be
        given back soon.
        """
        if not self._used:
            # An idle engine keeps nothing back, or a request larger than the shared part could
            # never begin.
            return True
        free = self._amount - self._used - amount
        if free >= self._kept and not only_kept:
            return True
        if not self._of[client.name]:
            return free >= 0
        half = (self._kept + 1) // 2
        is_small = is_brief and amount <= max(1, half // _SMALL_PART)
        return is_small and not self._of_connection[client] and free >= half > 0

    def take(self, amount: int, client: ClientIdentity) -> None:
        self._used += amount
        self._of[client.name] += amount
        self._of_connection[client] += amount

    def give_back(self, amount: int, client: ClientIdentity) -> None:
        self._used -= amount
        _count_down(self._of, client.name, amount)
        _count_down(self._of_connection, client, amount)


class Admission(OuterPipeline):
    """A `Pipeline` around the one that generates; it holds back what has no room yet."""

    def __init__(
        self,
        pipeline: AdaptedPipeline,
        places: int,
        *,
        step_tokens: int,
        cache: CacheCapacity | None = None,
    ) -> None:
        """``places``: sequences that run at a time; ``step_tokens``: the budget of a step;
        ``cache``: None if it grows.
        """
        super().__init__(pipeline)
        self._cache = cache
        kept = max(1, places // _KEPT_PART) if places >= _LEAST_PLACES else 0
        self._places = _SharedAmount(places, kept)
        self._reserves = cache is not None and cache.is_reserved
        tokens = 0 if cache is None else cache.tokens
        self._tokens = _SharedAmount(tokens, tokens // _KEPT_PART)
        self._step_tokens = step_tokens
        #: Tokens of prompts that the library has and has not computed.
        self._prompts = 0
        self._numbers = count()
        #: Sequences that wait or run, by answer and by connection.
        self._of_group: Counter[int] = Counter()
        self._of_connection: Counter[ClientIdentity] = Counter()
        # One order for all queues (decision 0091). Sixteen requests of 1.5 kB with `best_of` 16
        # used to fill all sequences and kept others waiting for 17 s.
        self._waiting: ClientOrder[_AdmittedRequest] = ClientOrder(lambda request: request.rank)
        self._running: dict[int, _AdmittedRequest] = {}

    def ready(self) -> EngineReady:
        ready = self._pipeline.ready()
        if self._cache is None:
            return ready
        return msgspec.structs.replace(ready, cache_tokens=self._cache.tokens)

    def select(self, adapter: str) -> None:
        self._pipeline.select(adapter)

    @property
    def has_work(self) -> bool:
        return self._pipeline.has_work or len(self._waiting) > 0

    @property
    def has_news(self) -> bool:
        return self._pipeline.has_news or len(self._waiting) > 0

    def add(self, request: Add) -> None:
        work = self._checked(request)
        self._of_group[request.group] += work.places
        self._of_connection[work.client] += work.places
        if len(self._waiting) or not self._has_room(work):
            self._waiting.put(work)
            return
        self._waiting.begin(work.client, self._cost(work))
        self._begin(work)

    def _checked(self, request: Add) -> _AdmittedRequest:
        """Return a request whose answer ends where the cache would.

        Raises:
            Refused: its prompt does not fit.
        """
        settings = request.settings
        # Beam search is one request of several sequences; samples are requests of their own
        # (decision 0010).
        beams = max(settings.num_beams, settings.num_return_sequences)
        prompt = len(request.input_ids) // _TOKEN_BYTES
        need, is_short = 0, False
        if self._cache is not None:
            # Only the library's tokenizer knows how many tokens the images take.
            if request.images:
                need = self._cache.tokens
            else:
                request, is_short = _fitted(request, self._cache, prompt, beams)
                answer = request.settings.max_new_tokens
                need = self._cache.need(prompt, _ENDLESS if answer is None else answer, beams)
        # Samples of one answer share a group: the first sample of everybody comes before anybody's
        # second.
        rank = self._of_group[request.group]
        if request.client.connection:
            rank = max(rank, self._of_connection[request.client])
        answer = request.settings.max_new_tokens
        asks_little = answer is not None and answer <= _SHORT_ANSWER
        return _AdmittedRequest(
            next(self._numbers),
            request.client,
            rank + beams + (0.0 if asks_little else 0.5),
            request,
            beams,
            _STEPS_AHEAD * self._step_tokens if request.images else prompt,
            need if self._reserves else 0,
            settings.num_return_sequences,
            is_short,
            asks_little,
        )

    def _cost(self, work: _AdmittedRequest) -> float:
        """Return the parts of a step's budget that a request takes, in places."""
        return work.places + work.prompt / self._step_tokens

    def _has_room(self, work: _AdmittedRequest, *, only_kept: bool = False) -> bool:
        # The library computes prompts in the order of arrival and takes none back, so it gets only
        # what the next steps compute (decision 0091).
        if self._prompts and self._prompts + work.prompt > _STEPS_AHEAD * self._step_tokens:
            return False
        how = {"only_kept": only_kept, "is_brief": work.asks_little}
        return self._places.has(work.places, work.client, **how) and (
            not self._reserves or self._tokens.has(work.need, work.client, **how)
        )

    def _begin(self, work: _AdmittedRequest) -> None:
        try:
            self._pipeline.add(work.add)
        except GenerationRefused:
            self._leave(work)
            raise
        self._places.take(work.places, work.client)
        self._tokens.take(work.need, work.client)
        self._prompts += work.prompt
        self._running[work.add.request_id] = work

    def cancel(self, request_id: int) -> None:
        if request_id not in self._running:
            for work in self._waiting:
                if work.add.request_id == request_id:
                    self._waiting.remove(work)
                    self._leave(work)
                    return
        self._end(request_id)
        self._pipeline.cancel(request_id)

    def step(self, *, reports_all: bool = True) -> Sequence[NewTokens | FailedGeneration]:
        failed = self._begin_waiting() if len(self._waiting) else []
        gained = self._pipeline.step(reports_all=reports_all) if self._pipeline.has_news else ()
        return [*failed, *map(self._finish, gained)]

    def _begin_waiting(self) -> list[FailedGeneration]:
        """Start waiting requests while there is room; return those that are refused."""
        failed: list[FailedGeneration] = []
        while (work := self._next()) is not None:
            self._waiting.take(work, self._cost(work))
            try:
                self._begin(work)
            except GenerationRefused as error:
                failed.append(error.failed(work.add.request_id))
        return failed

    def _next(self) -> _AdmittedRequest | None:
        """Return the request that begins now, if any.

        Where the one whose turn it is has no room, what becomes free is collected for it: only
        clients that have nothing begin before it, in the room that is kept for them.
        """
        only_kept = False
        for work in self._waiting.in_turn():
            if self._has_room(work, only_kept=only_kept):
                return work
            only_kept = True
        return None

    def _finish(self, tokens: NewTokens | FailedGeneration) -> NewTokens | FailedGeneration:
        request_id = tokens.request_id
        if isinstance(tokens, FailedGeneration):
            self._end(request_id)
            return tokens
        work = self._running.get(request_id)
        if work is None:
            return tokens
        self._note_begun(work)
        if tokens.finish_reason is None:
            return tokens
        work.unfinished -= 1
        if not work.unfinished:
            self._end(request_id)
        # The cache ended the answer, not the client's max_tokens: openvino-genai 2026.4 would have
        # ended all requests of the pipeline instead (decision 0023).
        if work.is_short and tokens.finish_reason == "length":
            return msgspec.structs.replace(tokens, finish_reason="cache")
        return tokens

    def _note_begun(self, work: _AdmittedRequest) -> None:
        if not work.has_begun:
            work.has_begun = True
            self._prompts -= work.prompt

    def _end(self, request_id: int) -> None:
        work = self._running.pop(request_id, None)
        if work is not None:
            self._note_begun(work)
            self._places.give_back(work.places, work.client)
            self._tokens.give_back(work.need, work.client)
            self._leave(work)

    def _leave(self, work: _AdmittedRequest) -> None:
        _count_down(self._of_group, work.add.group, work.places)
        _count_down(self._of_connection, work.client, work.places)

    def metrics(self) -> Metrics:
        metrics = self._pipeline.metrics()
        return msgspec.structs.replace(metrics, waiting=metrics.waiting + len(self._waiting))


_Key = TypeVar("_Key")


def _count_down(counter: Counter[_Key], key: _Key, amount: int) -> None:
    counter[key] -= amount
    if not counter[key]:
        del counter[key]


def _fitted(request: Add, cache: CacheCapacity, prompt: int, beams: int) -> tuple[Add, bool]:
    """Return a request whose answer fits the cache, and whether it was shortened for that."""
    settings = request.settings
    room = cache.answer(prompt, beams)
    if room is None:
        return request, False
    if room < 1:
        raise GenerationRefused(
            f"the prompt has {prompt} tokens; the model's key-value cache holds "
            f"{cache.tokens} (cache_size)",
            is_too_long=True,
        )
    if settings.max_new_tokens is not None and settings.max_new_tokens <= room:
        return request, False
    least = min(settings.min_new_tokens, room)
    settings = msgspec.structs.replace(settings, max_new_tokens=room, min_new_tokens=least)
    return msgspec.structs.replace(request, settings=settings), True
