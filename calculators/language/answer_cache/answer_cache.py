"""`AnswerCache`: whole answers by the digest of their requests."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from time import monotonic
from typing import NamedTuple

from calculators.language import GenerationRequest
from calculators.language.answer_cache.kept_answer import KeptAnswer
from calculators.language.answer_cache.similar_questions import Question, SimilarQuestions
from calculators.language.delta import ResolvedSampling


class Flight:
    """A request that a model is answering, for which equal requests wait.

    Any thread may land it; requests wait on event loops of their own.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._has_landed = False

    async def landed(self) -> None:
        """Wait until the request is answered, or given up."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            if self._has_landed:
                return
            self._waiting.append((loop, future))
        await future

    def land(self) -> None:
        """Wake all waiters. Landing again does nothing."""
        with self._lock:
            self._has_landed = True
            waiting, self._waiting = self._waiting, []
        for loop, future in waiting:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_set, future)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class _Entry(NamedTuple):
    answer: KeptAnswer
    kept_at: float


class AnswerCache:
    """Answers in the order of their last use, up to a number of bytes.

    A `graph_runtime.NodeResource`: all runs of a node share it, on any thread.

    Attributes:
        bytes: the size of all answers, roughly.
        similar: compares questions by meaning; None: only equal ones are known again.
    """

    unavailable_reason = ""

    def __init__(
        self,
        max_bytes: int,
        max_seconds: float,
        *,
        keeps_samples: bool,
        similar: SimilarQuestions | None = None,
    ) -> None:
        """``max_seconds``: the age up to which an answer is given again; 0 is without end.

        ``keeps_samples``: keep answers that are drawn at random, too.
        """
        self._max_bytes = max_bytes
        self._max_seconds = max_seconds
        self._keeps_samples = keeps_samples
        self.similar = similar
        self._lock = threading.Lock()
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._flights: dict[bytes, Flight] = {}
        #: The model answers greedily when a request does not say; None until it is known.
        self._is_greedy: bool | None = None
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: bytes) -> KeptAnswer | None:
        """Return the answer to a request, or None."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if self._max_seconds and monotonic() - entry.kept_at > self._max_seconds:
                self._drop(key)
                return None
            self._entries.move_to_end(key)
            return entry.answer

    def find_similar(self, question: Question) -> tuple[KeptAnswer, float] | None:
        """Return the answer to the nearest question, and the cosine; None if none is near."""
        assert self.similar is not None
        with self._lock:
            nearest = self.similar.nearest(question)
        if nearest is None:
            return None
        key, score = nearest
        answer = self.find(key)
        return None if answer is None else (answer, score)

    def keep(self, key: bytes, answer: KeptAnswer, question: Question | None = None) -> None:
        """Keep an answer; the ones that were not used for longest make room for it.

        ``question``: by which it is found for similar ones, too.
        """
        size = answer.size
        if size > self._max_bytes:
            return
        with self._lock:
            if key in self._entries:
                self._drop(key)
            while self.bytes + size > self._max_bytes:
                self._drop(next(iter(self._entries)))
            self._entries[key] = _Entry(answer, monotonic())
            self.bytes += size
            if self.similar is not None and question is not None:
                self.similar.add(key, question)

    def _drop(self, key: bytes) -> None:
        self.bytes -= self._entries.pop(key).answer.size
        if self.similar is not None:
            self.similar.forget(key)

    def depart(self, key: bytes) -> Flight | None:
        """Begin to answer a request; returns the flight to wait for if another one does so."""
        with self._lock:
            flight = self._flights.get(key)
            if flight is None:
                self._flights[key] = Flight()
            return flight

    def land(self, key: bytes) -> None:
        """End the flight of a request: it is answered, or given up."""
        with self._lock:
            flight = self._flights.pop(key, None)
        if flight is not None:
            flight.land()

    def is_repeatable(
        self, request: GenerationRequest, sampling: ResolvedSampling | None = None
    ) -> bool:
        """True if the model would answer the request in the same way again.

        ``sampling``: of the answer, once it has begun. Before, the defaults of the model are those
        that the last answer showed.
        """
        if self._keeps_samples or request.sampling.get("seed") is not None:
            return True
        temperature = request.sampling.get("temperature")
        if sampling is not None:
            if temperature is None:
                self._is_greedy = sampling.temperature == 0
            temperature = sampling.temperature
        if temperature is None:
            return self._is_greedy is True
        return bool(temperature == 0)

    async def close(self) -> None:
        """Forget everything."""
        if self.similar is not None:
            await self.similar.embedder.close()
        with self._lock:
            self._entries.clear()
            self.bytes = 0
