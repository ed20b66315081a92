"""`CacheAdmission`: admits requests to a pipeline whose cache has a fixed size."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from calculators.llm.engine.cache_capacity import CacheCapacity
from calculators.llm.engine.core import Refused
from calculators.llm.engine.messages import Add, Failed, Metrics, Ready, Tokens
from calculators.llm.engine.outer_pipeline import AdaptedPipeline, OuterPipeline

_TOKEN_BYTES: Final = np.dtype(np.int64).itemsize
#: The answer length of a request that names none: more than any cache holds.
_ENDLESS: Final = 2**62


class CacheAdmission(OuterPipeline):
    """A `Pipeline` around one that ends all its requests when one of them fills the cache.

    No request may fill it alone: a prompt that does not fit is refused, and an answer that would
    outgrow the cache ends with the reason "cache". Several requests may still need more than there
    is; the pipeline then evicts sequences and computes them again later. Where it must not
    (`CacheCapacity.is_reserved`), a request waits until all the room that it can need is free.

    Prompts with images are not counted: only the pipeline knows the number of their tokens.
    """

    def __init__(self, pipeline: AdaptedPipeline, room: CacheCapacity) -> None:
        super().__init__(pipeline)
        self._room = room
        #: Requests whose answers are limited by the cache.
        self._short: set[int] = set()
        #: Tokens that are reserved, by request.
        self._reserved: dict[int, int] = {}
        #: Unfinished sequences, by request.
        self._sequences: dict[int, int] = {}
        self._waiting: deque[tuple[Add, int]] = deque()

    def ready(self) -> Ready:
        return msgspec.structs.replace(self._pipeline.ready(), cache_tokens=self._room.tokens)

    def select(self, adapter: str) -> None:
        self._pipeline.select(adapter)

    @property
    def has_work(self) -> bool:
        return self._pipeline.has_work or bool(self._waiting)

    @property
    def has_news(self) -> bool:
        return self._pipeline.has_news or bool(self._waiting)

    def add(self, request: Add) -> None:
        settings = request.settings
        prompt = len(request.input_ids) // _TOKEN_BYTES
        beams = max(settings.num_beams, settings.num_return_sequences)
        if request.images:
            need = self._room.tokens
        else:
            request = self._fitted(request, prompt, beams)
            answer = request.settings.max_new_tokens
            need = self._room.need(prompt, _ENDLESS if answer is None else answer, beams)
        if self._room.is_reserved and (self._waiting or not self._has_room(need)):
            self._waiting.append((request, need))
            return
        self._begin(request, need)

    def _fitted(self, request: Add, prompt: int, beams: int) -> Add:
        settings = request.settings
        room = self._room.answer(prompt, beams)
        if room is None:
            return request
        if room < 1:
            raise Refused(
                f"the prompt has {prompt} tokens; the model's key-value cache holds "
                f"{self._room.tokens} (cache_size)",
                is_too_long=True,
            )
        if settings.max_new_tokens is not None and settings.max_new_tokens <= room:
            return request
        self._short.add(request.request_id)
        least = min(settings.min_new_tokens, room)
        settings = msgspec.structs.replace(settings, max_new_tokens=room, min_new_tokens=least)
        return msgspec.structs.replace(request, settings=settings)

    def _has_room(self, need: int) -> bool:
        return sum(self._reserved.values()) + need <= self._room.tokens

    def _begin(self, request: Add, need: int) -> None:
        try:
            self._pipeline.add(request)
        except Refused:
            self._short.discard(request.request_id)
            raise
        if self._room.is_reserved:
            self._reserved[request.request_id] = need
        self._sequences[request.request_id] = request.settings.num_return_sequences

    def cancel(self, request_id: int) -> None:
        self._forget(request_id)
        for entry in self._waiting:
            if entry[0].request_id == request_id:
                self._waiting.remove(entry)
                return
        self._pipeline.cancel(request_id)

    def step(self, *, reports_all: bool = True) -> Sequence[Tokens | Failed]:
        failed = self._begin_waiting()
        gained = self._pipeline.step(reports_all=reports_all) if self._pipeline.has_news else ()
        return [*failed, *map(self._finish, gained)]

    def _begin_waiting(self) -> list[Failed]:
        """Start waiting requests in order while there is room; return those that are refused."""
        failed: list[Failed] = []
        while self._waiting and self._has_room(self._waiting[0][1]):
            request, need = self._waiting.popleft()
            try:
                self._begin(request, need)
            except Refused as error:
                failed.append(error.failed(request.request_id))
        return failed

    def _finish(self, tokens: Tokens | Failed) -> Tokens | Failed:
        request_id = tokens.request_id
        if isinstance(tokens, Failed):
            self._forget(request_id)
            return tokens
        if tokens.finish_reason is None:
            return tokens
        is_short = request_id in self._short
        self._sequences[request_id] -= 1
        if not self._sequences[request_id]:
            self._forget(request_id)
        if is_short and tokens.finish_reason == "length":
            return msgspec.structs.replace(tokens, finish_reason="cache")
        return tokens

    def _forget(self, request_id: int) -> None:
        self._short.discard(request_id)
        self._reserved.pop(request_id, None)
        self._sequences.pop(request_id, None)

    def metrics(self) -> Metrics:
        metrics = self._pipeline.metrics()
        return msgspec.structs.replace(metrics, waiting=metrics.waiting + len(self._waiting))
