"""Answers that are given again: the same question gets the same answer, without a model."""

from __future__ import annotations

from calculators.language.answer_cache.answer_cache_calculator import (
    AnswerCacheCalculator,
    AnswerCacheInitializer,
)
from graph_runtime import Registry


def register(registry: Registry) -> None:
    """Add the calculators of this family and their resources."""
    registry.register_calculator(AnswerCacheCalculator)
    registry.register_resource_initializer(AnswerCacheInitializer())
