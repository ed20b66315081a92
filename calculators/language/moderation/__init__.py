"""Moderation: requests and answers that rules or a classifier do not allow are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_runtime import Registry


def register(registry: Registry) -> None:
    """Add the calculators and resources of this room to a registry."""
    from calculators.language.moderation.moderation_calculator import (
        ModerationCalculator,
        ModerationResourceInitializer,
    )

    registry.register_calculator(ModerationCalculator)
    registry.register_resource_initializer(ModerationResourceInitializer())
