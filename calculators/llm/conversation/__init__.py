"""Conversations by OpenAI's Realtime API: speech in, a language model, speech out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_runtime import Registry


def register(registry: Registry) -> None:
    """Add the family's calculators to a registry."""
    from calculators.llm.conversation.nodes import (
        ConversationAnswerCalculator,
        ConversationCalculator,
    )

    # Families that load the models of this one's node are registered when they are asked for.
    for name in ("S2tCalculator", "T2sCalculator"):
        registry.find_calculator(name)
    registry.register_calculator(ConversationCalculator)
    registry.register_calculator(ConversationAnswerCalculator)
