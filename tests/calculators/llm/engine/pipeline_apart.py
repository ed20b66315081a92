"""`PipelineApart`: a pipeline in a process of its own, which it may abort."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calculators.llm.engine.core import Pipeline
from calculators.llm.engine.messages import (
    Add,
    EngineReady,
    FailedGeneration,
    Metrics,
    NewTokens,
)
from calculators.llm.grammars.grammar import Grammar
from tests.support.apart import Apart


class PipelineApart:
    """A `Pipeline` that answers from another process. One thread may use it."""

    def __init__(self, make: Callable[..., Pipeline], *arguments: object) -> None:
        """Make the pipeline: see `Apart`."""
        self._apart = Apart(make, *arguments)

    @property
    def has_work(self) -> bool:
        return bool(self._apart.call("has_work"))

    @property
    def has_news(self) -> bool:
        return bool(self._apart.call("has_news"))

    def ready(self) -> EngineReady:
        ready: EngineReady = self._apart.call("ready")
        return ready

    def add(self, request: Add) -> None:
        self._apart.call("add", request)

    def cancel(self, request_id: int) -> None:
        self._apart.call("cancel", request_id)

    def step(self, *, reports_all: bool = True) -> Sequence[NewTokens | FailedGeneration]:
        gained: Sequence[Any] = self._apart.call("step", reports_all=reports_all)
        return gained

    def metrics(self) -> Metrics:
        metrics: Metrics = self._apart.call("metrics")
        return metrics

    def is_compiled(self, grammar: Grammar) -> bool:
        return bool(self._apart.call("is_compiled", grammar))

    def make_room(self) -> None:
        self._apart.call("make_room")

    def compile(self, grammar: Grammar) -> None:
        self._apart.call("compile", grammar)
