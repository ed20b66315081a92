"""`StatefulPipeline`: one request at a time, generated in a thread, as a `Pipeline`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from threading import Condition, Thread
from typing import Final, Protocol

import openvino_genai as genai

from calculators.kit.child_process.client_order import ClientOrder
from calculators.kit.child_process.library_errors import library_reason
from calculators.kit.requests.client_identity import ClientIdentity
from calculators.llm.engine.core import SIGN_SECONDS, Refused
from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.engine.messages import VERSION, Add, Failed, Metrics, Ready, Tokens
from calculators.llm.engine.stateful_models import Ending, OnTokens
from calculators.llm.grammars.grammar import Grammar

#: The library reports nothing during a prompt's pass or a beam search. For so many seconds this
#: counts as progress; after that, and once there are tokens, the server judges the silence.
PATIENCE: Final = 600.0


class Model(Protocol):
    """Generates one request at a time; see `StatefulModel`."""

    @property
    def device(self) -> str: ...

    def check(self, settings: GenerationSettings) -> None: ...

    def compile(self, grammar: Grammar) -> None: ...

    def generate(self, request: Add, on_tokens: OnTokens) -> list[Ending]: ...

    def warm_up(self) -> None: ...


@dataclass(slots=True, eq=False)
class _Queued:
    """A request that waits for its turn.

    Attributes:
        number: requests are numbered as they arrive.
        rank: requests of the same answer that waited or ran then: the choices of one answer let the
            first ones of others go before.
    """

    number: int
    client: ClientIdentity
    rank: int
    request: Add


@dataclass(slots=True)
class _Running:
    """The request whose turn it is."""

    request_id: int
    group: int
    since: float
    has_begun: bool = False
    is_reported: bool = False
    is_cancelled: bool = False


class StatefulPipeline:
    """A queue of requests, the thread that generates them, and its news.

    The thread takes the next request by itself; `step` only fetches new tokens.
    """

    def __init__(
        self,
        open_model: Callable[[], Model],
        wake: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        on_opened: Callable[[], None] = lambda: None,
    ) -> None:
        """Load the model and generate a token: options that only this refuses fail the load.

        Args:
            wake: called, in any thread, when `has_news` has become true.
            on_opened: called when the model is open, before its first token.
        """
        start = time.monotonic()
        self._model = open_model()
        on_opened()
        self._model.warm_up()
        self._wake = wake
        self._clock = clock
        self._changed = Condition()
        # Guarded by the lock of the condition.
        self._queue: ClientOrder[_Queued] = ClientOrder(lambda queued: queued.rank)
        self._numbers = count()
        self._running: _Running | None = None
        self._news: list[Tokens | Failed] = []
        #: Tokens held back by a step, returned with the next ones.
        self._held: list[Tokens | Failed] = []
        self._breakdown: str | None = None
        #: True if a request has ended since the last step.
        self._has_ended = False
        self._reported_at = 0.0
        self.seconds = time.monotonic() - start
        Thread(target=self._work, daemon=True).start()

    def ready(self) -> Ready:
        """Return the message that the engine process sends once the model is loaded."""
        name = f"openvino-genai {genai.get_version()}"
        return Ready(VERSION, self._model.device, name, self.seconds)

    @property
    def has_work(self) -> bool:
        with self._changed:
            return self._running is not None or len(self._queue) > 0

    @property
    def has_news(self) -> bool:
        with self._changed:
            return (
                bool(self._news)
                or self._has_ended
                or self._breakdown is not None
                or self._is_sign_due()
            )

    def _is_sign_due(self) -> bool:
        running = self._running
        if running is None or running.has_begun:
            return False
        now = self._clock()
        return now - self._reported_at >= SIGN_SECONDS and now - running.since < PATIENCE

    def add(self, request: Add) -> None:
        if not request.input_ids:
            raise Refused("the prompt has no tokens")
        self._model.check(request.settings)
        with self._changed:
            groups = [queued.request.group for queued in self._queue]
            if self._running is not None:
                groups.append(self._running.group)
            rank = groups.count(request.group)
            self._queue.put(_Queued(next(self._numbers), request.client, rank, request))
            self._changed.notify()

    def cancel(self, request_id: int) -> None:
        """End the generation with its next token; beam search goes on, its result is dropped."""
        with self._changed:
            for queued in self._queue:
                if queued.request.request_id == request_id:
                    self._queue.remove(queued)
                    break
            self._news = [each for each in self._news if each.request_id != request_id]
            self._held = [each for each in self._held if each.request_id != request_id]
            if self._running is not None and self._running.request_id == request_id:
                self._running.is_cancelled = True

    def step(self, *, reports_all: bool = True) -> list[Tokens | Failed]:
        with self._changed:
            news, self._news = self._held + self._news, []
            self._held = []
            self._has_ended = False
            self._reported_at = self._clock()
            if not news and self._breakdown is not None:
                raise RuntimeError(self._breakdown)
            if not reports_all and all(map(self._can_wait, news)):
                self._held, news = news, []
            elif self._running is not None:
                self._running.is_reported = self._running.has_begun
            return news

    def _can_wait(self, each: Tokens | Failed) -> bool:
        """True for tokens that are neither the first nor the last of an answer."""
        running = self._running
        return running is not None and running.is_reported and each.request_id == running.request_id

    def metrics(self) -> Metrics:
        with self._changed:
            running = self._running
            begun = running is not None and running.has_begun
            return Metrics(
                running=int(begun),
                waiting=len(self._queue) + int(running is not None and not begun),
            )

    def is_compiled(self, grammar: Grammar) -> bool:
        """Return True: the thread compiles a grammar in its request's own turn."""
        return True

    def make_room(self) -> None:
        """Do nothing: the thread does this."""

    def compile(self, grammar: Grammar) -> None:
        """Do nothing: the thread does this."""

    # The thread -----------------------------------------------------------------------------------

    def _work(self) -> None:
        while self._breakdown is None:
            with self._changed:
                self._changed.wait_for(lambda: len(self._queue) > 0)
                queued = self._queue.next()
                self._queue.take(queued)
                request = queued.request
                running = _Running(request.request_id, request.group, self._clock())
                self._running = running
                self._reported_at = running.since
            last, breakdown = self._serve(request, running)
            with self._changed:
                if not running.is_cancelled:
                    self._news += last
                self._running = None
                self._has_ended = True
                self._breakdown = breakdown
            self._wake()

    def _serve(self, request: Add, running: _Running) -> tuple[list[Tokens | Failed], str | None]:
        """Generate one request; return its last news, and why the model cannot go on, if so."""
        settings = request.settings
        try:
            if settings.grammar is not None:
                self._model.compile(settings.grammar)
        except Exception as error:
            reason = f"the grammar cannot be used: {library_reason(error)}"
            return [Failed(request.request_id, reason)], None
        try:
            return self._generate(request, running), None
        except Exception as error:
            failed: list[Tokens | Failed] = [Failed(request.request_id, library_reason(error))]
        try:
            self._model.warm_up()
        except Exception as error:
            return failed, library_reason(error)
        return failed, None

    def _generate(self, request: Add, running: _Running) -> list[Tokens | Failed]:
        request_id, settings = request.request_id, request.settings
        # The library does not return the prompt: it is sent with a sequence's first tokens.
        prompt = memoryview(request.input_ids).cast("q").tolist() if settings.echo else []
        if settings.max_new_tokens == 0:
            return [Tokens(request_id, 0, prompt, [], "length")]
        if running.is_cancelled:
            return []

        def on_tokens(token_ids: list[int]) -> bool:
            first = [] if running.has_begun else prompt
            return self._queue_tokens(running, Tokens(request_id, 0, first + token_ids))

        endings = self._model.generate(request, on_tokens)
        first = [] if running.has_begun else prompt
        return [
            Tokens(
                request_id,
                number,
                first + ending.token_ids,
                [],
                ending.reason,
                ending.prompt_tokens,
            )
            for number, ending in enumerate(endings)
        ]

    def _queue_tokens(self, running: _Running, tokens: Tokens) -> bool:
        """Queue tokens for the next step. False, without queueing: the request is cancelled."""
        with self._changed:
            if running.is_cancelled:
                return False
            running.has_begun = True
            is_first = not self._news
            self._news.append(tokens)
        if is_first:
            self._wake()
        return True
