"""The engine's inner loop, without process or library: messages in, one `Step` per step out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import msgspec

from calculators.llm.engine.guided_requests import GuidedRequests
from calculators.llm.engine.messages import Add, Cancel, Failed, Metrics, Step, Tokens
from calculators.llm.engine.step_coalescer import StepCoalescer
from calculators.llm.grammars.grammar import Grammar

METRICS_PERIOD: Final = 0.25
"""Seconds between two `Metrics` while there is work."""
SIGN_SECONDS: Final = 2.0
"""A pipeline with work is asked for news at least so often; the server worries after 5."""
_COMPILING_SECONDS: Final = 0.02
"""For a look at what has arrived, while there is nothing to do but to wait for a grammar."""


class Refused(Exception):
    """The pipeline does not take a request; the text is for the client."""


class Pipeline(Protocol):
    """What generates. Request ids are the caller's."""

    @property
    def has_work(self) -> bool:
        """Is any request unfinished?"""

    @property
    def has_news(self) -> bool:
        """Would a step do or tell anything now?"""

    def add(self, request: Add) -> None:
        """Take a request.

        Raises:
            Refused: it does not; nothing else is disturbed.
        """

    def cancel(self, request_id: int) -> None:
        """Forget a request, its cache at the latest with the next step."""

    def step(self, *, tells_all: bool = True) -> Sequence[Tokens | Failed]:
        """Advance all running requests; what they gained, and those that failed alone.

        Without ``tells_all`` what need not be told at once may come with a later step: all but the
        first and the last tokens of a sequence. Any exception means that the pipeline is broken.
        """

    def metrics(self) -> Metrics:
        """How it fares now; ``steps`` is filled in by the core."""

    def is_compiled(self, grammar: Grammar) -> bool:
        """Would a request with this grammar begin without holding up a step?"""

    def make_room(self) -> None:
        """Called before `compile`, between steps: forget grammars if there are too many."""

    def compile(self, grammar: Grammar) -> None:
        """See to that; in another thread, while steps go on. Any exception is the grammar's."""


class EngineCore:
    """Runs a pipeline: applies messages, steps, says when metrics are due.

    ``seconds_per_stream``: see `StepCoalescer`; 0 tells of every step.
    """

    def __init__(self, pipeline: Pipeline, seconds_per_stream: float = 0.0) -> None:
        self._pipeline = pipeline
        self._pace = StepCoalescer(seconds_per_stream)
        self._guided = GuidedRequests(pipeline)
        self._refused: list[Failed] = []
        self._steps = 0
        self._next_metrics = 0.0
        self._owes_metrics = False

    @property
    def has_work(self) -> bool:
        """Would a step do or say anything?"""
        return (
            bool(self._refused)
            or self._owes_metrics
            or self._pipeline.has_news
            or self._guided.is_waiting
        )

    @property
    def is_busy(self) -> bool:
        """Is any request unfinished?"""
        return self._pipeline.has_work or self._guided.is_waiting

    def handle(self, message: Add | Cancel) -> None:
        """Apply a message; what comes of it is in the next step."""
        if isinstance(message, Cancel):
            self._pipeline.cancel(message.request_id)
            self._guided.forget(message.request_id)
            self._pace.forget(message.request_id)
            self._owes_metrics = True
            return
        grammar = message.settings.grammar
        if grammar is None:
            self._add(message)
        else:
            self._guided.put(message, grammar)

    def _add(self, message: Add) -> None:
        try:
            self._pipeline.add(message)
        except Refused as error:
            self._guided.forget(message.request_id)
            self._refused.append(Failed(message.request_id, str(error)))

    def step(self) -> Iterable[Step | Metrics]:
        """One step, if there is something to tell, and metrics when they are due."""
        self._begin_guided()
        refused, self._refused = self._refused, []
        told: list[Tokens] = []
        is_due = self._pace.is_due()
        for each in self._pipeline.step(tells_all=is_due) if self._pipeline.has_news else ():
            if isinstance(each, Failed):
                self._guided.forget(each.request_id)
                self._pace.forget(each.request_id)
                refused.append(each)
            else:
                told.append(each)
        self._steps += 1
        if told:
            self._guided.note(told)
            self._pace.note(told)
        if told or refused or is_due:
            yield Step(told, refused)
        now = time.monotonic()
        if now >= self._next_metrics or self._owes_metrics or not self._pipeline.has_work:
            self._next_metrics = now + METRICS_PERIOD
            self._owes_metrics = False
            metrics = self._pipeline.metrics()
            yield msgspec.structs.replace(metrics, steps=self._steps)

    def _begin_guided(self) -> None:
        ready, failed = self._guided.take()
        self._refused += failed
        for message in ready:
            self._add(message)
        if self._guided.is_waiting and not self._pipeline.has_work:
            self._guided.wait(_COMPILING_SECONDS)
