"""Redaction: words and expressions of an answer become a mask, while the answer streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_runtime import Registry


def register(registry: Registry) -> None:
    """Add the calculators of this room to a registry."""
    from calculators.language.redaction.redact_calculator import RedactCalculator

    registry.register_calculator(RedactCalculator)
