"""`Engine`, the server's side of an engine, and `EngineGeneration`, one request in it.

`watch_engine` publishes the metrics of an engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from msgspec import Struct

from calculators.images.media.image import Image
from calculators.kit.memory import resident_bytes
from calculators.kit.requests.http_payload import RequestError
from calculators.llm.engine.messages import Metrics, NewTokens
from calculators.llm.engine.settings import GenerationSettings
from graph_runtime import Cancelled, Code, GraphError, NodeMetrics

#: OpenAI's code for a prompt that does not fit. Programs that shorten prompts look for it.
TOO_LONG: Final = "context_length_exceeded"


class EngineDown(RequestError):
    """The engine is not running: the request can be tried again later."""

    code = Code.UNAVAILABLE


class GenerationPart(Struct, frozen=True):
    """One prompt and its settings; the members have the meaning that they have in `Add`.

    A part makes ``settings.num_return_sequences`` choices. ``param``: the member of the request
    with the prompt, for errors.
    """

    input_ids: bytes
    settings: GenerationSettings
    text: str = ""
    images: tuple[Image, ...] = ()
    param: str | None = None


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

    def submit(self, parts: Sequence[GenerationPart]) -> EngineGeneration:
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
