"""The server's side of an engine: `Engine`, and `ProcessEngine`, one in a supervised child process.

A request is one `Add` per prompt and sample. Its tokens come back in `Step`s, which `Requests.take`
gives to the request's `EngineGeneration`; the task that reads that is woken. `SharedPrefixes`
counts what the engine has of a prompt already, and `watch_engine` publishes an engine's metrics.
"""

from __future__ import annotations

import asyncio
import itertools
from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from calculators.kit.child_process.supervisor import ChildState, SupervisedProcess
from calculators.kit.memory import resident_bytes
from calculators.kit.requests.client_identity import UNKNOWN_CLIENT
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.request_record import current_record
from calculators.llm.engine import ENVIRONMENT
from calculators.llm.engine.messages import (
    VERSION,
    Add,
    CancelGeneration,
    EngineLoad,
    EngineReady,
    FailedGeneration,
    Metrics,
    NewTokens,
    Step,
    from_engine_decoder,
)
from calculators.llm.engine.settings import EngineSettings
from graph_runtime import Cancelled, Code, GraphError, LoadProgress, NodeMetrics

#: OpenAI's code for a prompt that does not fit. Programs that shorten prompts look for it.
TOO_LONG: Final = "context_length_exceeded"


class EngineDown(RequestError):
    """The engine is not running: the request can be tried again later."""

    code = Code.UNAVAILABLE


class EngineGeneration:
    """One request in the engine: the new tokens of each of its choices.

    There is one reader at a time.

    Attributes:
        shared_tokens: tokens of the prompts that the engine has in its cache, by `SharedPrefixes`;
            a prompt with several choices counts once. None: unknown, as without a cache of prompts.
    """

    def __init__(self, choices: int, cancel: Callable[[int | None], None]) -> None:
        """``cancel``: called with the number of a choice to stop it, or with None to stop all."""
        self._gained: list[tuple[int, NewTokens]] = []
        self._unfinished = choices
        self._error: GraphError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._cancel = cancel
        self.shared_tokens: int | None = None

    @property
    def is_finished(self) -> bool:
        """True once every choice has ended and everything has been read."""
        return self._unfinished <= 0 and not self._gained

    async def read(self) -> list[tuple[int, NewTokens]]:
        """Wait for new tokens; return all of them in order, each with the number of its choice.

        Raises:
            RequestError: the engine refused the request, or is gone (`EngineDown`).
            Cancelled: the request was cancelled, maybe during this call.
        """
        if not self._gained and self._error is None:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        if self._gained:
            gained, self._gained = self._gained, []
            return gained
        assert self._error is not None
        raise self._error

    def cancel(self) -> None:
        """Stop generating and free the cache. Every reader that leaves early must call this."""
        if self._unfinished > 0:
            self._end(Cancelled())

    def cancel_choice(self, choice: int) -> None:
        """Stop one choice that has not ended. Not for beam search."""
        self._unfinished -= 1
        self._cancel(choice)

    # The engine's side ----------------------------------------------------------------------------

    def feed(self, choice: int, tokens: NewTokens) -> None:
        """Add new tokens of a choice; the last ones have a finish reason."""
        self._gained.append((choice, tokens))
        if tokens.finish_reason is not None:
            self._unfinished -= 1
        self._wake()

    def fail(self, error: RequestError) -> None:
        """End the request with an error, and stop the choices that still run."""
        self._end(error)

    def _end(self, error: GraphError) -> None:
        self._unfinished = 0
        self._error = error
        self._cancel(None)
        self._wake()

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


class Engine(Protocol):
    """The server's side of an engine."""

    @property
    def unavailable_reason(self) -> str:
        """The reason why the engine cannot work now; "" while it can."""

    @property
    def metrics(self) -> Metrics:
        """The latest metrics that the engine sent."""

    @property
    def unfinished(self) -> int:
        """Requests that have been submitted and not ended."""

    @property
    def running(self) -> int:
        """Unfinished requests that have received tokens."""

    @property
    def cache_full(self) -> int:
        """Sequences that have ended because the cache had no room for more."""

    @property
    def pid(self) -> int | None:
        """The id of its process, while there is one."""

    @property
    def restarts(self) -> int:
        """The number of times that the engine was restarted."""

    def submit(self, parts: Sequence[Add]) -> EngineGeneration:
        """Start generating; the choices are numbered part by part.

        Raises:
            EngineDown: the engine cannot work now.
        """

    async def close(self) -> None:
        """Shut the engine down; running requests fail with `EngineDown`."""


def watch_engine(metrics: NodeMetrics, engine: Engine) -> Callable[[], None]:
    """Publish the metrics of an engine; call the returned function when the engine is closed.

    openvino-genai 2026.4 reports neither preemptions nor prompt tokens found in its cache.
    """
    ends = (
        metrics.gauge(
            "graphrt_llm_requests_running", "Requests in the engine that have begun to get tokens."
        ).follow(lambda: engine.running),
        metrics.gauge(
            "graphrt_llm_requests_waiting",
            "Requests in the engine without a token yet: in its queue, or at their prompt's pass.",
        ).follow(lambda: engine.unfinished - engine.running),
        metrics.gauge(
            "graphrt_llm_kv_cache_usage_ratio", "Part of the KV cache that is in use, 0 to 1."
        ).follow(lambda: engine.metrics.cache_usage),
        metrics.gauge("graphrt_llm_kv_cache_bytes", "Size of the KV cache.").follow(
            lambda: engine.metrics.cache_bytes
        ),
        metrics.counter(
            "graphrt_llm_cache_full",
            "Answers that ended because the KV cache had no room for more.",
        ).follow(lambda: engine.cache_full),
        metrics.counter(
            "graphrt_llm_candidate_passes",
            "Passes of the model over tokens that a draft model or the prompt proposed.",
        ).follow(lambda: engine.metrics.candidate_passes),
        metrics.counter(
            "graphrt_llm_accepted_candidates", "Proposed tokens that the model accepted."
        ).follow(lambda: engine.metrics.accepted_candidates),
        metrics.gauge("graphrt_llm_engine_up", "Can the engine work now? 1 or 0.").follow(
            lambda: not engine.unavailable_reason
        ),
        metrics.gauge(
            "graphrt_llm_engine_memory_bytes",
            "Memory of the engine's process, the model's included.",
        ).follow(lambda: _memory_of(engine)),
        metrics.counter(
            "graphrt_llm_engine_restarts",
            "How often the engine's process had to be started again.",
        ).follow(lambda: engine.restarts),
    )

    def end() -> None:
        for each in ends:
            each()

    return end


def _memory_of(engine: Engine) -> int:
    """Return the memory of an engine's process in bytes; 0 without one."""
    pid = engine.pid
    return 0 if pid is None else resident_bytes(pid) or 0


#: Tokens of a block of the key-value cache on a CPU. The engine finds whole blocks, and a part of
#: the next one, which is not counted.
BLOCK: Final = 32
_TOKEN_BYTES: Final = 8
_BLOCK_BYTES: Final = _TOKEN_BYTES * BLOCK


class SharedPrefixes:
    """The blocks of tokens with which earlier prompts and answers began.

    Tokens are 64-bit integers in the machine's byte order.

    openvino-genai 2026.4 does not report how much of a prompt it found in its cache. Until the
    cache has been full, it holds every block; then it drops blocks that were not used for long, and
    so does this, but maybe not the same ones.
    """

    def __init__(self, tokens: int) -> None:
        """``tokens``: the size of the cache."""
        self._most = tokens // BLOCK
        #: The most recently used last.
        self._known: OrderedDict[int, None] = OrderedDict()

    def shared(self, prompt: bytes) -> int:
        """Return the number of a prompt's first tokens, in whole blocks, that are known.

        The last token is always computed.
        """
        count = 0
        for key in _keys(prompt):
            if key not in self._known:
                break
            count += BLOCK
        return min(count, max(0, len(prompt) // _TOKEN_BYTES - 1))

    def note(self, tokens: bytes) -> None:
        """Note the blocks of a prompt, or of a prompt and its answer, which have been computed."""
        # The last block counts as the oldest: it is of use only with those before it.
        for key in reversed(list(_keys(tokens))):
            self._known[key] = None
            self._known.move_to_end(key)
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def forget(self) -> None:
        """Forget everything about a process that has ended; the next one starts empty."""
        self._known.clear()


def _keys(tokens: bytes) -> Iterator[int]:
    """Yield a key of each whole block, which depends on the blocks before it."""
    key = 0
    for end in range(_BLOCK_BYTES, len(tokens) + 1, _BLOCK_BYTES):
        # openvino-genai 2026.4.1 does not say how much of a prompt it found in its cache, so the
        # server counts blocks itself (decision 0081).
        key = hash((key, tokens[end - _BLOCK_BYTES : end]))
        yield key


_NO_ROOM: Final = (
    "the model's key-value cache has no room for the prompt (cache_size); shorten it, or try again "
    "when fewer requests are running"
)
_NO_MEMORY: Final = "the engine has not enough memory for the request; try again later"
_RETRY_AFTER: Final = 1.0


class _OpenGeneration(Struct):
    generation: EngineGeneration
    first_choice: int
    unfinished: int
    #: The member of the request with the prompt.
    param: str | None
    has_begun: bool = False
    #: The tokens of prompt and answer, if they are counted.
    tokens: array[int] | None = None


class Requests:
    """Turns submitted parts into messages, and feeds the tokens of steps to their generations.

    Attributes:
        open: the unfinished requests by their ids.
        metrics: the latest metrics that the engine sent.
        cache_full: sequences that have ended because the cache had no room for more.
        prefixes: counts how much of the prompts the engine has in its cache; None: nothing does.
    """

    prefixes: SharedPrefixes | None = None

    def __init__(self, post: Callable[[Add | CancelGeneration], object]) -> None:
        """``post``: sends a message to the engine."""
        self._post = post
        self._ids = itertools.count()
        self.open: dict[int, _OpenGeneration] = {}
        self.metrics = Metrics()
        self.cache_full = 0

    @property
    def unfinished(self) -> int:
        """Requests that have been submitted and not ended."""
        return len(self.open)

    @property
    def running(self) -> int:
        """Unfinished requests that have received tokens."""
        return sum(entry.has_begun for entry in self.open.values())

    def submit(self, parts: Sequence[Add]) -> EngineGeneration:
        """Send the parts, with the numbers that their tokens come back with."""
        ids: dict[int, int] = {}

        def cancel(choice: int | None) -> None:
            for request_id, first in ids.items():
                is_meant = choice is None or first == choice
                if is_meant and self.open.pop(request_id, None) is not None:
                    self._post(CancelGeneration(request_id))

        # The engine gives out places by client, in the same order as all other queues (decision
        # 0091).
        record = current_record()
        client = UNKNOWN_CLIENT if record is None else record.client
        choices = 0
        for part in parts:
            choices += part.settings.num_return_sequences
        generation = EngineGeneration(choices, cancel)
        first_choice = 0
        # The engine compares the images too, which this count cannot (decision 0081).
        counts = self.prefixes is not None and not any(part.images or part.sounds for part in parts)
        prompt: bytes | None = None
        for part in parts:
            count = part.settings.num_return_sequences
            request_id = next(self._ids)
            ids[request_id] = first_choice
            entry = self.open[request_id] = _OpenGeneration(
                generation, first_choice, count, part.param
            )
            if self.prefixes is not None and counts and part.input_ids:
                # Samples of one prompt are parts with the same object.
                if part.input_ids is not prompt:
                    known = self.prefixes.shared(part.input_ids)
                    generation.shared_tokens = (generation.shared_tokens or 0) + known
                prompt = part.input_ids
                entry.tokens = array("q", part.input_ids)
            first_choice += count
            group = next(iter(ids))
            self._post(replace(part, request_id=request_id, group=group, client=client))
        return generation

    def take(self, step: Step | Metrics) -> None:
        """Feed the tokens of a step to their generations; drop tokens of cancelled requests."""
        if isinstance(step, Metrics):
            self.metrics = step
            return
        for tokens in step.tokens:
            entry = self.open.get(tokens.request_id)
            if entry is None:
                continue
            if tokens.finish_reason == "cache":
                self.cache_full += 1
                if not entry.has_begun and not tokens.token_ids:
                    self._refuse(tokens, entry.generation)
                    continue
            if entry.tokens is not None:
                self._note_tokens(entry, tokens)
            entry.has_begun = True
            if tokens.finish_reason is not None:
                entry.unfinished -= 1
                if entry.unfinished == 0:
                    del self.open[tokens.request_id]
            entry.generation.feed(entry.first_choice + tokens.sequence, tokens)
        for failed in step.failed:
            entry = self.open.pop(failed.request_id, None)
            if entry is not None:
                entry.generation.fail(_refusal(failed, entry.param))

    def _note_tokens(self, entry: _OpenGeneration, tokens: NewTokens) -> None:
        """Note the prompt once it is computed, and at the end with the answer, if there is one."""
        assert self.prefixes is not None
        assert entry.tokens is not None
        is_alone = tokens.sequence == 0 and entry.unfinished == 1
        if is_alone:
            entry.tokens.extend(tokens.token_ids)
        if not entry.has_begun or (is_alone and tokens.finish_reason is not None):
            # The last token of an answer is not computed until another follows.
            computed = entry.tokens[:-1] if is_alone else entry.tokens
            self.prefixes.note(computed.tobytes())

    def _refuse(self, tokens: NewTokens, generation: EngineGeneration) -> None:
        """Fail the request: an empty answer would not show the reason."""
        del self.open[tokens.request_id]
        generation.fail(
            RequestError(_NO_ROOM, code=Code.RESOURCE_EXHAUSTED, retry_after=_RETRY_AFTER)
        )

    def fail_all(self, reason: str, retry_after: float) -> None:
        """Fail all requests with `EngineDown`."""
        generations = {id(entry.generation): entry.generation for entry in self.open.values()}
        self.open.clear()
        for generation in generations.values():
            generation.fail(EngineDown(reason, retry_after=retry_after))


def _refusal(failed: FailedGeneration, param: str | None) -> RequestError:
    if failed.lacks_memory:
        return RequestError(_NO_MEMORY, code=Code.UNAVAILABLE, retry_after=_RETRY_AFTER)
    if failed.is_superseded:
        # No code at which clients try again: they would end the newer request.
        return RequestError(
            "a newer request of the same client took the place of this one",
            code=Code.FAILED_PRECONDITION,
            reason="superseded",
        )
    if not failed.is_too_long:
        return RequestError(failed.reason)
    return RequestError(failed.reason, param=param, code=Code.OUT_OF_RANGE, reason=TOO_LONG)


#: Silence after which a busy engine counts as hung: a step over a long prompt takes many seconds.
HANG_SECONDS: Final = 120.0
RETRY_AFTER: Final = 2.0


def engine_load(settings: EngineSettings) -> EngineLoad:
    """Return the first message to an engine's process."""
    return EngineLoad(VERSION, settings)


class ProcessEngine(Requests, SupervisedProcess[EngineReady]):
    """The server's side of an engine process; see `calculators.llm.engine.engine.Engine`.

    `start` starts the process; it is started again whenever it dies or hangs.
    """

    def __init__(
        self, settings: EngineSettings, *, name: str, hang_seconds: float = HANG_SECONDS
    ) -> None:
        """``name``: the served model's, for messages; ``hang_seconds``: of silence while busy."""
        encode = msgspec.msgpack.Encoder().encode
        Requests.__init__(self, lambda message: self.send(encode(message)))
        self._caches_prefixes = settings.enable_prefix_caching
        SupervisedProcess.__init__(
            self,
            name=f'engine of "{name}"',
            module="calculators.llm.engine.process",
            load=engine_load(settings),
            decode=from_engine_decoder.decode,
            ready=EngineReady,
            hang_seconds=hang_seconds,
            # Huge pages, few arenas and few kernels of oneDNN: they hold for a program from its
            # start (decisions 0007, 0008).
            environment=ENVIRONMENT,
            is_shared=True,
        )

    async def start(self, progress: LoadProgress | None = None) -> EngineReady:
        """Load the model; ``progress`` gets the phases.

        Raises:
            LoadError: the model cannot be loaded; the text says why.
        """
        ready = await super().start(progress)
        if self._caches_prefixes and ready.cache_tokens:
            self.prefixes = SharedPrefixes(ready.cache_tokens)
        return ready

    def submit(self, parts: Sequence[Add]) -> EngineGeneration:
        if self.state is not ChildState.READY:
            raise EngineDown(self.unavailable_reason, retry_after=RETRY_AFTER)
        if not self.open:
            self.expect_answer()
        return super().submit(parts)

    @property
    def is_busy(self) -> bool:
        return bool(self.open)

    def down(self, reason: str) -> None:
        self.metrics = Metrics()
        if self.prefixes is not None:
            self.prefixes.forget()
        self.fail_all(f"the {self.name} stopped; it is being started again", RETRY_AFTER)

    def end_work(self) -> None:
        self.fail_all(self.unavailable_reason, RETRY_AFTER)
