"""`OuterPipeline`: a pipeline around another that applies one adapter at a time."""

from __future__ import annotations

from typing import Protocol

from calculators.llm.engine.core import Pipeline
from calculators.llm.engine.messages import Ready
from calculators.llm.grammars.grammar import Grammar


class AdaptedPipeline(Pipeline, Protocol):
    """A pipeline that applies one adapter at a time, to all its requests."""

    def ready(self) -> Ready:
        """Return the message that the engine process sends once the model is loaded."""

    def select(self, adapter: str) -> None:
        """Apply the adapter of this name, "" is none; only while there is no work."""


class OuterPipeline:
    """The base of pipelines that queue requests in front of another: it forwards grammars."""

    def __init__(self, pipeline: AdaptedPipeline) -> None:
        self._pipeline = pipeline

    def is_compiled(self, grammar: Grammar) -> bool:
        return self._pipeline.is_compiled(grammar)

    def make_room(self) -> None:
        self._pipeline.make_room()

    def compile(self, grammar: Grammar) -> None:
        self._pipeline.compile(grammar)
