"""`AnswerCache`: whole answers by the digests of their requests, or by what the questions mean.

The key of an answer is the digest of the part of its request on which the answer depends
(`request_key`): not of who asks, or whether the answer streams. `AnswerRecorder` makes a
`KeptAnswer` of the deltas of an answer; a kept answer can be given to any later request with the
key. With an embedding model, `SimilarQuestions` finds answers to questions of nearly the same
meaning, among those whose requests differ in nothing else. A `Flight` is an answer that is being
made: equal requests that come meanwhile wait for it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import groupby, islice
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import orjson
from msgspec import structs
from numpy.typing import NDArray

from calculators.language import (
    Begun,
    Content,
    Delta,
    Deltas,
    Ended,
    Event,
    Failed,
    Finished,
    FinishReason,
    Gained,
    GenerationRequest,
    Reasoning,
    RequestError,
    Submitted,
    ToolCall,
    ToolRan,
)
from calculators.language.delta import ResolvedSampling, nothing
from calculators.language.events import new_call_id

if TYPE_CHECKING:
    from calculators.text.embeddings.servable import EmbeddingsServable

_OPTIONS: Final = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


def may_be_kept(request: GenerationRequest) -> bool:
    """Return True if the cache may keep the answer to a request.

    It may not if the request wants log-probabilities or token ids, which the cache does not keep;
    if it has images to download, which may change; or if it is refused anyway.
    """
    return (
        request.refusal is None
        and not request.wants_logprobs
        and not request.returns_token_ids
        and request.speech is None
        and all(image.url.startswith("data:") for image in request.images)
    )


def request_key(request: GenerationRequest) -> bytes:
    """Return the SHA-256 of a request. It costs time by the length of its content.

    Raises:
        ValueError: the request has content that JSON has no form for.
    """
    form = request.form.format if request.form is not None else None
    parts = (
        request.answer_model or request.model,
        request.api.value,
        request.n,
        request.messages,
        request.prompts,
        [image.url for image in request.images],
        [request.tools.items, request.tools.choice, request.parallel_tool_calls],
        form,
        [
            request.template.values,
            request.template.add_generation_prompt,
            request.template.continues,
        ],
        dict(request.sampling),
        [source.text for source in request.sources],
    )
    try:
        return hashlib.sha256(orjson.dumps(parts, option=_OPTIONS)).digest()
    except orjson.JSONEncodeError as error:
        raise ValueError("the request has content that is not JSON") from error


_log: Final = logging.getLogger("graphrt.answer_cache")
#: Characters of a question; a longer one is compared by its digest only.
MOST_CHARACTERS: Final = 4096
#: Questions of one kind that are compared, the newest.
MOST_COMPARED: Final = 1000
_BLANK: Final[dict[str, Any]] = {"role": "user", "content": ""}


class CacheQuestion(NamedTuple):
    """A question by its meaning.

    Attributes:
        context: the digest of the request without the question.
        vector: float32, of length 1.
    """

    context: bytes
    vector: NDArray[np.float32]


class SimilarQuestions:
    """Questions with kept answers, by the digests of their requests. Not safe for threads."""

    def __init__(self, embedder: EmbeddingsServable, least: float) -> None:
        """``least``: the cosine from which on two questions count as one."""
        self.embedder = embedder
        self.least = least
        self._by_context: dict[bytes, dict[bytes, NDArray[np.float32]]] = {}
        self._contexts: dict[bytes, bytes] = {}

    async def question_of(self, request: GenerationRequest) -> CacheQuestion | None:
        """Return the question of a request; None if it is not a single one, or cannot be embedded.

        A conversation, a question with images and one of more than `MOST_CHARACTERS` are compared
        by their digests only.
        """
        *before, last = request.messages or (None,)
        if last is None or last.get("role") != "user" or request.prompts:
            return None
        if request.images or request.sounds:
            return None
        text = last.get("content")
        if not isinstance(text, str) or not text.strip() or len(text) > MOST_CHARACTERS:
            return None
        if any(message.get("role") not in ("system", "developer") for message in before):
            return None
        try:
            context = request_key(replace(request, messages=(*before, _BLANK)))
            embedded = await self.embedder.embed([text])
        except ValueError:
            return None
        except RequestError as error:
            _log.warning("a question is not compared with others: %s", error.message)
            return None
        vector = np.asarray(embedded.vectors[0], np.float32)
        length = float(np.linalg.norm(vector))
        return CacheQuestion(context, vector / length) if length else None

    def nearest(self, question: CacheQuestion) -> tuple[bytes, float] | None:
        """Return the key of the nearest question and its cosine, if it is near enough."""
        kept = self._by_context.get(question.context)
        if not kept:
            return None
        keys = list(islice(reversed(kept), MOST_COMPARED))
        scores = np.stack([kept[key] for key in keys]) @ question.vector
        best = int(scores.argmax())
        score = float(scores[best])
        return (keys[best], score) if score >= self.least else None

    def add(self, key: bytes, question: CacheQuestion) -> None:
        """Remember a question whose answer is kept under ``key``."""
        self.forget(key)
        self._contexts[key] = question.context
        self._by_context.setdefault(question.context, {})[key] = question.vector

    def forget(self, key: bytes) -> None:
        """Forget the question whose answer was kept under ``key``, if there was one."""
        context = self._contexts.pop(key, None)
        if context is not None:
            kept = self._by_context[context]
            del kept[key]
            if not kept:
                del self._by_context[context]


#: Bytes of an object, roughly, beside its text.
_OBJECT: Final = 120
#: Bytes of a character, at most.
_CHARACTER: Final = 4


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """The answer of a model without anything of its request.

    Attributes:
        begun: without the request.
        items: ``Gained`` and ``Finished`` of all choices.
        size: bytes, roughly.
    """

    begun: Begun
    items: tuple[Gained | Finished, ...]
    end: Ended
    size: int

    def played_for(self, request: GenerationRequest) -> Deltas:
        """Return the answer to a request: one packet, with new ids of calls."""
        begun = structs.replace(self.begun, request=request, sources=request.sources)
        items: list[Delta] = [begun]
        for item in self.items:
            if isinstance(item, Gained):
                # Agents keep results by the ids of calls: two answers with one id would be mixed
                # up.
                items.append(structs.replace(item, events=tuple(map(_with_new_id, item.events))))
            else:
                items.append(item)
        return Deltas((*items, self.end))


class AnswerRecorder:
    """Records an answer as it passes.

    Attributes:
        kept: the answer, once it has ended well.
        begun: once it has begun.
        is_over: nothing follows.
    """

    def __init__(self, blank: GenerationRequest) -> None:
        """``blank``: stands for the request, which is not kept."""
        self._blank = blank
        self._gained: list[Gained] = []
        self._ends: list[Finished] = []
        self._is_fit = True
        self.begun: Begun | None = None
        self.kept: KeptAnswer | None = None
        self.is_over = False

    def feed(self, packet: Deltas) -> Deltas:
        """Record the items of a packet. Returns the packet that goes on."""
        is_watched = False
        for item in packet:
            if type(item) is Gained:  # nearly all items are
                self._gained.append(item)
            else:
                # `stop()` may come from any node of the graph, also from one after the cache
                # (decision 0057).
                is_watched |= isinstance(item, Begun | Submitted)
                self._record(item)
        return Deltas(map(self._with_watched_stop, packet)) if is_watched else packet

    def _with_watched_stop(self, item: Delta) -> Delta:
        if not isinstance(item, Begun | Submitted):
            return item
        stop = item.stop

        def stop_and_forget() -> None:
            # Half an answer looks like a whole one.
            self._is_fit = False
            stop()

        return structs.replace(item, stop=stop_and_forget)

    def _record(self, item: Delta) -> None:
        match item:
            case Begun():
                self.begun = item
            case Finished(choice, reason):
                self._is_fit &= reason is not FinishReason.CONTENT_FILTER
                self._ends.append(Finished(choice, reason, item.stop_string))
            case Ended():
                self.is_over = True
                if self._is_fit and self.begun is not None:
                    self.kept = self._whole(self.begun, item)
            case ToolRan():
                # An answer out of a cache does not do again what a tool did.
                self._is_fit = False
            case Failed():
                self.is_over = True
            case _:
                return

    def _whole(self, begun: Begun, end: Ended) -> KeptAnswer:
        by_choice: dict[int, list[Event]] = {}
        for gained in self._gained:
            by_choice.setdefault(gained.choice, []).extend(gained.events)
        items: list[Gained | Finished] = []
        size = _OBJECT * 8
        for finished in self._ends:
            events = _joined(by_choice.get(finished.choice, ()))
            if events:
                items.append(Gained(finished.choice, tuple(events)))
            items.append(finished)
            for event in events:
                texts = [part for part in structs.astuple(event) if isinstance(part, str)]
                size += _OBJECT + _CHARACTER * sum(map(len, texts))
        bare = structs.replace(
            begun, request=self._blank, sources=(), prompt_ids=None, stop=nothing
        )
        return KeptAnswer(bare, tuple(items), end, size)


def _joined(events: Iterable[Event]) -> list[Event]:
    """Return the events; texts of one kind in a row are one."""
    joined: list[Event] = []
    for kind, group in groupby(events, type):
        if kind is Content or kind is Reasoning:
            texts = [event.text for event in group if isinstance(event, Content | Reasoning)]
            joined.append(kind("".join(texts)))
        else:
            joined += group
    return joined


def _with_new_id(event: Event) -> Event:
    return structs.replace(event, call_id=new_call_id()) if isinstance(event, ToolCall) else event


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


class _CacheEntry(NamedTuple):
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
        self._entries: OrderedDict[bytes, _CacheEntry] = OrderedDict()
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

    def find_similar(self, question: CacheQuestion) -> tuple[KeptAnswer, float] | None:
        """Return the answer to the nearest question, and the cosine; None if none is near."""
        assert self.similar is not None
        with self._lock:
            nearest = self.similar.nearest(question)
        if nearest is None:
            return None
        key, score = nearest
        answer = self.find(key)
        return None if answer is None else (answer, score)

    def keep(self, key: bytes, answer: KeptAnswer, question: CacheQuestion | None = None) -> None:
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
            self._entries[key] = _CacheEntry(answer, monotonic())
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
        """Return True if the model would answer the request in the same way again.

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
