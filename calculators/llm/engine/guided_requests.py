"""`GuidedRequests`: requests with a grammar, held back until it is compiled.

The engine's library would compile a grammar in the middle of a step, and delay all requests.
"""

from __future__ import annotations

from threading import Thread
from typing import Final, Protocol

from calculators.kit.child_process.library_errors import library_reason
from calculators.llm.engine.messages import Add, Failed, Tokens
from calculators.llm.grammars.grammar import Grammar

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
    """

    def __init__(self, pipeline: GrammarPipeline) -> None:
        self._pipeline = pipeline
        #: The oldest first.
        self._waiting: list[tuple[Add, Grammar]] = []
        self._turn = 0
        self._beginning: set[int] = set()
        self._thread: Thread | None = None
        self._failure: tuple[Grammar, str] | None = None

    @property
    def is_waiting(self) -> bool:
        """True if a request is held back."""
        return bool(self._waiting)

    def put(self, request: Add, grammar: Grammar) -> None:
        """Hold back a request."""
        self._waiting.append((request, grammar))

    def forget(self, request_id: int) -> None:
        """Forget a request that was cancelled or has failed."""
        self._beginning.discard(request_id)
        self._waiting = [entry for entry in self._waiting if entry[0].request_id != request_id]

    def note(self, gained: list[Tokens]) -> None:
        """Note the tokens of a step: their requests have begun."""
        for tokens in gained:
            self._beginning.discard(tokens.request_id)

    def take(self) -> tuple[list[Add], list[Failed]]:
        """Return the requests that can begin now, and those whose grammar could not be compiled."""
        if self._thread is not None:
            if self._thread.is_alive():
                return [], []
            self._thread = None
        failed = self._failed()
        ready: list[Add] = []
        while self._waiting:
            grammar = self._next()
            if not self._pipeline.is_compiled(grammar):
                if not self._beginning:
                    self._turn += 1
                    self._pipeline.make_room()
                    self._thread = Thread(target=self._compile, args=(grammar,), daemon=True)
                    self._thread.start()
                break
            self._turn += 1
            begun = [request for request, other in self._waiting if other == grammar]
            self._waiting = [entry for entry in self._waiting if entry[1] != grammar]
            self._beginning.update(request.request_id for request in begun)
            ready += begun
        return ready, failed

    def _next(self) -> Grammar:
        """Return the grammar whose requests begin next, or that is compiled next."""
        if self._turn % _OLDEST_EVERY == _OLDEST_EVERY - 1:
            return self._waiting[0][1]
        return min((grammar for _, grammar in self._waiting), key=lambda each: len(each.text))

    def wait(self, seconds: float) -> None:
        """Return when the grammar is compiled, or after ``seconds``."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _failed(self) -> list[Failed]:
        if self._failure is None:
            return []
        (broken, reason), self._failure = self._failure, None
        failed = [
            Failed(request.request_id, f"the grammar cannot be used: {reason}")
            for request, grammar in self._waiting
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
