"""Ensembles: several models answer one request, and one answer is made of theirs.

The first answer is chosen by
`calculators.language.routing.fallback_calculator.FirstAnswerCalculator`.
"""

from __future__ import annotations

from calculators.language.ensemble.common_answer_calculator import CommonAnswerCalculator
from calculators.language.ensemble.judge_calculator import JudgeCalculator
from graph_runtime import Registry


def register(registry: Registry) -> None:
    """Add the calculators of this family."""
    for calculator in (CommonAnswerCalculator, JudgeCalculator):
        registry.register_calculator(calculator)
