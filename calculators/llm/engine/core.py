"""The engine's inner loop, without process or library: messages in, one `Step` per step out."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Final, Protocol

from calculators.llm.engine.generation_settings import GenerationSettings
from calculators.llm.engine.messages import Add, Cancel, Failed, Metrics, Step, Tokens
from calculators.llm.engine.outbox import Outbox

METRICS_PERIOD: Final = 0.25
"""Seconds between two `Metrics` while there is work."""


class Refused(Exception):
    """The pipeline does not take a request; the text is for the client."""


class Pipeline(Protocol):
    """What generates. Request ids are the caller's."""

    @property
    def has_work(self) -> bool:
        """Is any request unfinished?"""

    def add(self, request_id: int, input_ids: bytes, settings: GenerationSettings) -> None:
        """Take a request (``input_ids``: int64, native byte order).

        Raises:
            Refused: it does not; nothing else is disturbed.
        """

    def cancel(self, request_id: int) -> None:
        """Forget a request, its cache at the latest with the next step."""

    def step(self) -> list[Tokens]:
        """Advance all running requests. Any exception means that the pipeline is broken."""

    def metrics(self) -> Metrics:
        """How it fares now; ``steps`` is filled in by the core."""


class EngineCore:
    """Runs a pipeline: applies messages, steps, says when metrics are due.

    ``seconds_per_stream``: see `Outbox`; 0 tells of every step at once.
    """

    def __init__(self, pipeline: Pipeline, seconds_per_stream: float = 0.0) -> None:
        self._pipeline = pipeline
        self._outbox = Outbox(seconds_per_stream)
        self._refused: list[Failed] = []
        self._steps = 0
        self._next_metrics = 0.0
        self._owes_metrics = False

    @property
    def has_work(self) -> bool:
        """Would a step do or say anything?"""
        return bool(self._refused) or self._owes_metrics or self._pipeline.has_work

    def handle(self, message: Add | Cancel) -> None:
        """Apply a message; what comes of it is in the next step."""
        if isinstance(message, Cancel):
            self._pipeline.cancel(message.request_id)
            self._outbox.forget(message.request_id)
            self._owes_metrics = True
            return
        try:
            self._pipeline.add(message.request_id, message.input_ids, message.settings)
        except Refused as error:
            self._refused.append(Failed(message.request_id, str(error)))

    def step(self) -> Iterable[Step | Metrics]:
        """One step, if there is something to tell, and metrics when they are due."""
        refused, self._refused = self._refused, []
        gained = self._pipeline.step() if self._pipeline.has_work else []
        self._steps += 1
        tokens = self._outbox.take(gained)
        if tokens or refused or not gained:
            yield Step(tokens, refused)
        now = time.monotonic()
        if now >= self._next_metrics or self._owes_metrics or not self._pipeline.has_work:
            self._next_metrics = now + METRICS_PERIOD
            self._owes_metrics = False
            metrics = self._pipeline.metrics()
            yield Metrics(
                running=metrics.running,
                waiting=metrics.waiting,
                cache_usage=metrics.cache_usage,
                cache_bytes=metrics.cache_bytes,
                steps=self._steps,
            )
