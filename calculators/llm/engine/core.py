"""`EngineCore`: the engine's inner loop, independent of process and library.

The core steps a `Pipeline` as long as it has requests, and sends what a step computed. Two things
stand between the loop and the pipeline:

- `GuidedRequests` hold requests with a grammar back until the grammar is compiled. The engine's
  library would compile it in the middle of a step, and delay all requests.
- `StepCoalescer` joins the tokens of several steps into one message to the server.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from threading import Thread
from typing import Final, Protocol

import msgspec

from calculators.kit.child_process.library_errors import library_reason
from calculators.llm.engine.messages import (
    Add,
    CancelGeneration,
    FailedGeneration,
    InfillTurn,
    Metrics,
    NewTokens,
    Step,
)
from calculators.llm.grammars.grammar import Grammar

#: Sending a stream's new tokens to its client costs the server 0.1 to 0.4 ms, however many they
#: are: the engine has displaced its data from the caches. At this pace that is a few hundredths of
#: a core.
SECONDS_PER_STREAM: Final = 0.01
#: The longest pause: ten pieces a second, of a model that writes much faster than people read.
LONGEST: Final = 0.1


class StepCoalescer:
    """Decides after which steps the tokens of all streams are reported.

    A step reports if ``seconds_per_stream`` times the number of streams has passed since the last
    report. So for a few streams, or a model with long steps, every step reports, and many streams
    of a small model get several tokens at a time: otherwise the server would spend more time on
    them than the engine. The pipeline reports first and last tokens at once in any case.
    """

    def __init__(
        self, seconds_per_stream: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``seconds_per_stream``: the pause between reports, per stream; 0: every step reports."""
        self._seconds_per_stream = seconds_per_stream
        self._clock = clock
        self._streams: set[tuple[int, int]] = set()
        self._reported_at = 0.0

    def is_due(self) -> bool:
        """Return True if the step that begins now reports, and restart the pause then."""
        now = self._clock()
        wait = min(self._seconds_per_stream * len(self._streams), LONGEST)
        if now - self._reported_at < wait:
            return False
        self._reported_at = now
        return True

    def note(self, reported: Iterable[NewTokens]) -> None:
        """Note the reported tokens, from which the number of streams is known."""
        for tokens in reported:
            key = (tokens.request_id, tokens.sequence)
            if tokens.finish_reason is None:
                self._streams.add(key)
            else:
                self._streams.discard(key)

    def forget(self, request_id: int) -> None:
        """Forget the streams of a request."""
        self._streams -= {key for key in self._streams if key[0] == request_id}


# As in all queues in front of child processes (decision 0019).
_OLDEST_EVERY: Final = 8


class GrammarPipeline(Protocol):
    """The part of a `Pipeline` that compiles grammars."""

    def is_compiled(self, grammar: Grammar) -> bool: ...

    def make_room(self) -> None: ...

    def compile(self, grammar: Grammar) -> None: ...


class GuidedRequests:
    """Compiles one grammar after the other in a thread of its own, while steps go on.

    The shortest grammar comes first: it is compiled soonest, so simple grammars do not wait for
    hard ones. Every `_OLDEST_EVERY`-th is the oldest, so that none waits for ever.

    The library appends to a list of compile times without a lock, both when it compiles and in the
    first step of a request with a grammar. So nothing is compiled while such a request has not
    begun, and none begins while a grammar is compiled.

    Attributes:
        waiting: the requests that are held back, with their grammars, the oldest first.
    """

    def __init__(self, pipeline: GrammarPipeline) -> None:
        self._pipeline = pipeline
        self.waiting: list[tuple[Add, Grammar]] = []
        self._turn = 0
        self._beginning: set[int] = set()
        self._thread: Thread | None = None
        self._failure: tuple[Grammar, str] | None = None

    def put(self, request: Add, grammar: Grammar) -> None:
        """Hold back a request."""
        self.waiting.append((request, grammar))

    def forget(self, request_id: int) -> None:
        """Forget a request that was cancelled or has failed."""
        self._beginning.discard(request_id)
        self.waiting = [entry for entry in self.waiting if entry[0].request_id != request_id]

    def note(self, gained: list[NewTokens]) -> None:
        """Note the tokens of a step: their requests have begun."""
        for tokens in gained:
            self._beginning.discard(tokens.request_id)

    def take(self) -> tuple[list[Add], list[FailedGeneration]]:
        """Return the requests that can begin now, and those whose grammar could not be compiled."""
        if self._thread is not None:
            if self._thread.is_alive():
                return [], []
            self._thread = None
        failed = [] if self._failure is None else self._refused_by(*self._failure)
        ready: list[Add] = []
        while self.waiting:
            grammar = self._next()
            if not self._pipeline.is_compiled(grammar):
                if not self._beginning:
                    self._turn += 1
                    # Between steps only: emptying the store runs a pipeline on the tokenizer that
                    # the steps use.
                    self._pipeline.make_room()
                    # In a step, a schema with 400 optional properties made it 144 ms long for all
                    # requests; compiled beside the steps, 10 ms (decision 0015).
                    self._thread = Thread(target=self._compile, args=(grammar,), daemon=True)
                    self._thread.start()
                break
            self._turn += 1
            # All requests of this grammar begin together: none of them compiles anything any more.
            begun = [request for request, other in self.waiting if other == grammar]
            self.waiting = [entry for entry in self.waiting if entry[1] != grammar]
            self._beginning.update(request.request_id for request in begun)
            ready += begun
        return ready, failed

    def _next(self) -> Grammar:
        """Return the grammar whose requests begin next, or that is compiled next."""
        if self._turn % _OLDEST_EVERY == _OLDEST_EVERY - 1:
            return self.waiting[0][1]
        return min((grammar for _, grammar in self.waiting), key=lambda each: len(each.text))

    def wait(self, seconds: float) -> None:
        """Return when the grammar is compiled, or after ``seconds``."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _refused_by(self, broken: Grammar, reason: str) -> list[FailedGeneration]:
        self._failure = None
        failed = [
            FailedGeneration(request.request_id, f"the grammar cannot be used: {reason}")
            for request, grammar in self.waiting
            if grammar == broken
        ]
        for each in failed:
            self.forget(each.request_id)
        return failed

    def _compile(self, grammar: Grammar) -> None:
        try:
            self._pipeline.compile(grammar)
        except Exception as error:
            self._failure = grammar, library_reason(error)


#: Clients whose newest request to fill in text is remembered.
MOST_INFILL_CLIENTS: Final = 1024


class InfillTurns:
    """The newest request to fill in text of each client; the longest unused is forgotten first."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[int, list[int]]] = {}

    def begin(self, turn: InfillTurn, request_id: int) -> list[int]:
        """Return the ids of the requests that a request ends: its own if a newer one came."""
        began, ids = self._newest.pop(turn.client, (0, []))
        if began > turn.began:
            self._newest[turn.client] = (began, ids)
            return [request_id]
        # The choices of one answer began together.
        kept, ended = (ids, []) if began == turn.began else ([], ids)
        self._newest[turn.client] = (turn.began, [*kept, request_id])
        if len(self._newest) > MOST_INFILL_CLIENTS:
            del self._newest[next(iter(self._newest))]
        return ended


METRICS_PERIOD: Final = 0.25
"""Seconds between two `Metrics` while there is work."""
SIGN_SECONDS: Final = 2.0
"""Longest pause between two polls of a pipeline that has work; the server waits for 5."""
_COMPILING_SECONDS: Final = 0.02
"""Pause between two reads of the messages while only a grammar is awaited."""


class GenerationRefused(Exception):
    """The pipeline refuses a request; the text is for the client."""

    def __init__(self, text: str, *, is_too_long: bool = False, lacks_memory: bool = False) -> None:
        """``is_too_long``, ``lacks_memory``: as in `FailedGeneration`."""
        super().__init__(text)
        self.is_too_long = is_too_long
        self.lacks_memory = lacks_memory

    def failed(self, request_id: int) -> FailedGeneration:
        """Return the message about the request."""
        return FailedGeneration(request_id, str(self), self.is_too_long, self.lacks_memory)


class Pipeline(Protocol):
    """Generates tokens for requests. The caller chooses their ids."""

    @property
    def has_work(self) -> bool:
        """True if any request is unfinished."""

    @property
    def has_news(self) -> bool:
        """True if a step would advance or report anything now."""

    def add(self, request: Add) -> None:
        """Take a request.

        Raises:
            Refused: the request is not accepted; no other request is disturbed.
        """

    def cancel(self, request_id: int) -> None:
        """Forget a request; its cache is freed with the next step at the latest."""

    def step(self, *, reports_all: bool = True) -> Sequence[NewTokens | FailedGeneration]:
        """Advance all running requests; return their new tokens, and the requests that failed.

        Without ``reports_all`` a later step may return tokens other than the first and the last of
        a sequence. Any exception means that the pipeline is broken.
        """

    def metrics(self) -> Metrics:
        """Return the current metrics; the core fills in ``steps``."""

    def is_compiled(self, grammar: Grammar) -> bool:
        """Return True if a request with this grammar would begin without delaying a step."""

    def make_room(self) -> None:
        """Forget grammars if there are too many. Called before `compile`, between steps."""

    def compile(self, grammar: Grammar) -> None:
        """Compile a grammar, in another thread while steps go on. Any exception is its refusal."""


class EngineCore:
    """Runs a pipeline: applies messages, steps, and yields a `Step` per step and due `Metrics`.

    ``seconds_per_stream``: see `StepCoalescer`; 0 reports every step.
    """

    def __init__(self, pipeline: Pipeline, seconds_per_stream: float = 0.0) -> None:
        self._pipeline = pipeline
        self._pace = StepCoalescer(seconds_per_stream)
        self._guided = GuidedRequests(pipeline)
        self._infills = InfillTurns()
        self._refused: list[FailedGeneration] = []
        self._steps = 0
        self._next_metrics = 0.0
        self._owes_metrics = False

    @property
    def has_work(self) -> bool:
        """True if a step would do or report anything."""
        return (
            bool(self._refused)
            or self._owes_metrics
            or self._pipeline.has_news
            or bool(self._guided.waiting)
        )

    @property
    def is_busy(self) -> bool:
        """True if any request is unfinished."""
        return self._pipeline.has_work or bool(self._guided.waiting)

    def handle(self, message: Add | CancelGeneration) -> None:
        """Apply a message; the next step reports its outcome."""
        if isinstance(message, CancelGeneration):
            self._pipeline.cancel(message.request_id)
            self._guided.forget(message.request_id)
            self._pace.forget(message.request_id)
            # A cancelled request frees cache and a place; without a report the server would show
            # both as taken until the next request.
            self._owes_metrics = True
            return
        if message.turn is not None:
            for ended in self._infills.begin(message.turn, message.request_id):
                self._refused.append(FailedGeneration(ended, "", is_superseded=True))
                if ended == message.request_id:
                    return
                self.handle(CancelGeneration(ended))
        grammar = message.settings.grammar
        if grammar is None:
            self._add(message)
        else:
            self._guided.put(message, grammar)

    def _add(self, message: Add) -> None:
        try:
            self._pipeline.add(message)
        except GenerationRefused as error:
            self._guided.forget(message.request_id)
            self._refused.append(error.failed(message.request_id))

    def step(self) -> Iterable[Step | Metrics]:
        """Do one step; yield its news, if any, and metrics when they are due."""
        ready, failed = self._guided.take()
        self._refused += failed
        for message in ready:
            self._add(message)
        if self._guided.waiting and not self._pipeline.has_work:
            self._guided.wait(_COMPILING_SECONDS)
        refused, self._refused = self._refused, []
        gained: list[NewTokens] = []
        # With one message per step, 64 streams of a small model cost the server a fifth of the
        # engine's throughput (decision 0006).
        is_due = self._pace.is_due()
        for each in self._pipeline.step(reports_all=is_due) if self._pipeline.has_news else ():
            if isinstance(each, FailedGeneration):
                self._guided.forget(each.request_id)
                self._pace.forget(each.request_id)
                refused.append(each)
            else:
                gained.append(each)
        self._steps += 1
        if gained:
            self._guided.note(gained)
            self._pace.note(gained)
        if gained or refused or is_due:
            yield Step(gained, refused)
        now = time.monotonic()
        if now >= self._next_metrics or self._owes_metrics or not self._pipeline.has_work:
            self._next_metrics = now + METRICS_PERIOD
            self._owes_metrics = False
            metrics = self._pipeline.metrics()
            yield msgspec.structs.replace(metrics, steps=self._steps)
