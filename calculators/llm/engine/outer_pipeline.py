"""`OuterPipeline`: what has a pipeline inside leaves grammars to it."""

from __future__ import annotations

from typing import Generic, TypeVar

from calculators.llm.engine.core import Pipeline
from calculators.llm.grammars.grammar import Grammar

P = TypeVar("P", bound=Pipeline)


class OuterPipeline(Generic[P]):
    """The part of a `Pipeline` around another that is the inner one's business."""

    def __init__(self, pipeline: P) -> None:
        self._pipeline = pipeline

    def is_compiled(self, grammar: Grammar) -> bool:
        return self._pipeline.is_compiled(grammar)

    def make_room(self) -> None:
        self._pipeline.make_room()

    def compile(self, grammar: Grammar) -> None:
        self._pipeline.compile(grammar)
