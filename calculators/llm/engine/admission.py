"""`Admission`: which requests run in a pipeline, and which wait.

A step computes one token of every running sequence and, with what is left of its budget
(``max_num_batched_tokens``), parts of new prompts in the order of their arrival. So a pipeline has
places for sequences; a request takes one for each of its sequences, with beam search one for each
beam. Clients get places in turns (`ClientOrder`): a client that has filled them with samples of
many answers gets the next one only after everybody else. The library generates every sequence to
its end, so a turn alone would not help while all places are taken: an eighth of them is kept for
clients that have none, and half of these for small requests of connections that have none, because
many users may share an address. The eighth also keeps room for prompts in every step.

Prompts wait here rather than in the library, which would compute all of one client's before
another's: it gets those of the next few steps. One long prompt is not divided.

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
from collections.abc import Sequence
from itertools import count
from typing import Final, TypeVar

import msgspec
import numpy as np

from calculators.kit.child_process.client_order import ClientOrder
from calculators.kit.requests.client_identity import ClientIdentity
from calculators.llm.engine.cache_capacity import CacheCapacity
from calculators.llm.engine.core import Refused
from calculators.llm.engine.messages import Add, Failed, Metrics, Ready, Tokens
from calculators.llm.engine.outer_pipeline import AdaptedPipeline, OuterPipeline

_TOKEN_BYTES: Final = np.dtype(np.int64).itemsize
#: The answer length of a request that names none: more than any cache holds.
_ENDLESS: Final = 2**62
#: The part of places, and of reserved tokens, that clients which have some already cannot get.
_KEPT_PART: Final = 8
#: The part of what is kept for connections that one of their requests may take.
_SMALL_PART: Final = 4
#: Steps whose prompts the library has.
_STEPS_AHEAD: Final = 4
#: A pipeline of fewer places keeps none: a client that is alone would miss it.
_LEAST_PLACES: Final = 4


class _Request(msgspec.Struct, eq=False):
    """A request that waits or runs.

    Attributes:
        number: requests are numbered as they arrive.
        rank: the sequences that its answer, and its connection, had with it when it arrived. So the
            first choice of each of a client's answers comes before the second choice of any, and a
            connection that asks for little before one that asks for much.
        places: the number of its sequences.
        prompt: its tokens that are to be computed before the first of the answer.
        need: tokens of the cache that are reserved for it; 0: none.
        unfinished: sequences that have not ended.
        is_short: its answer is limited by the cache.
    """

    number: int
    client: ClientIdentity
    rank: int
    add: Add
    places: int
    prompt: int
    need: int
    unfinished: int
    is_short: bool
    has_begun: bool = False


class _Room:
    """An amount of something, and its parts by client."""

    def __init__(self, amount: int, kept: int) -> None:
        """``kept``: the part for clients that have none."""
        self._amount = amount
        self._kept = kept
        self._used = 0
        self._of: Counter[str] = Counter()
        self._of_connection: Counter[ClientIdentity] = Counter()

    def has(self, amount: int, client: ClientIdentity, *, only_kept: bool) -> bool:
        """Return whether a client may have so much more.

        ``only_kept``: the rest is for somebody whose turn is earlier.
        """
        if not self._used:
            return True  # more than all of it is for whoever is alone
        free = self._amount - self._used - amount
        if free >= self._kept and not only_kept:
            return True
        if not self._of[client.name]:
            return free >= 0
        half = (self._kept + 1) // 2
        is_small = amount <= max(1, half // _SMALL_PART)
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
        self._places = _Room(places, kept)
        self._reserves = cache is not None and cache.is_reserved
        tokens = 0 if cache is None else cache.tokens
        self._tokens = _Room(tokens, tokens // _KEPT_PART)
        self._step_tokens = step_tokens
        #: Tokens of prompts that the library has and has not computed.
        self._prompts = 0
        self._numbers = count()
        #: Sequences that wait or run, by answer and by connection.
        self._of_group: Counter[int] = Counter()
        self._of_connection: Counter[ClientIdentity] = Counter()
        self._waiting: ClientOrder[_Request] = ClientOrder(lambda request: request.rank)
        self._running: dict[int, _Request] = {}

    def ready(self) -> Ready:
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

    def _checked(self, request: Add) -> _Request:
        """Return a request whose answer ends where the cache would.

        Raises:
            Refused: its prompt does not fit.
        """
        settings = request.settings
        beams = max(settings.num_beams, settings.num_return_sequences)
        prompt = len(request.input_ids) // _TOKEN_BYTES
        need, is_short = 0, False
        if self._cache is not None:
            if request.images:
                need = self._cache.tokens
            else:
                request, is_short = _fitted(request, self._cache, prompt, beams)
                answer = request.settings.max_new_tokens
                need = self._cache.need(prompt, _ENDLESS if answer is None else answer, beams)
        return _Request(
            next(self._numbers),
            request.client,
            self._rank(request) + beams,
            request,
            beams,
            _STEPS_AHEAD * self._step_tokens if request.images else prompt,
            need if self._reserves else 0,
            settings.num_return_sequences,
            is_short,
        )

    def _rank(self, request: Add) -> int:
        rank = self._of_group[request.group]
        if request.client.connection:
            rank = max(rank, self._of_connection[request.client])
        return rank

    def _cost(self, work: _Request) -> float:
        """Return the parts of a step's budget that a request takes, in places."""
        return work.places + work.prompt / self._step_tokens

    def _has_room(self, work: _Request, *, only_kept: bool = False) -> bool:
        if self._prompts and self._prompts + work.prompt > _STEPS_AHEAD * self._step_tokens:
            return False
        return self._places.has(work.places, work.client, only_kept=only_kept) and (
            not self._reserves or self._tokens.has(work.need, work.client, only_kept=only_kept)
        )

    def _begin(self, work: _Request) -> None:
        try:
            self._pipeline.add(work.add)
        except Refused:
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

    def step(self, *, reports_all: bool = True) -> Sequence[Tokens | Failed]:
        failed = self._begin_waiting() if len(self._waiting) else []
        gained = self._pipeline.step(reports_all=reports_all) if self._pipeline.has_news else ()
        return [*failed, *map(self._finish, gained)]

    def _begin_waiting(self) -> list[Failed]:
        """Start waiting requests while there is room; return those that are refused."""
        failed: list[Failed] = []
        while (work := self._next()) is not None:
            self._waiting.take(work, self._cost(work))
            try:
                self._begin(work)
            except Refused as error:
                failed.append(error.failed(work.add.request_id))
        return failed

    def _next(self) -> _Request | None:
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

    def _finish(self, tokens: Tokens | Failed) -> Tokens | Failed:
        request_id = tokens.request_id
        if isinstance(tokens, Failed):
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
        if work.is_short and tokens.finish_reason == "length":
            return msgspec.structs.replace(tokens, finish_reason="cache")
        return tokens

    def _note_begun(self, work: _Request) -> None:
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

    def _leave(self, work: _Request) -> None:
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
        raise Refused(
            f"the prompt has {prompt} tokens; the model's key-value cache holds "
            f"{cache.tokens} (cache_size)",
            is_too_long=True,
        )
    if settings.max_new_tokens is not None and settings.max_new_tokens <= room:
        return request, False
    least = min(settings.min_new_tokens, room)
    settings = msgspec.structs.replace(settings, max_new_tokens=room, min_new_tokens=least)
    return msgspec.structs.replace(request, settings=settings), True
