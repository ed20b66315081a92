"""Tools that run on this server: MCP servers and Python functions, called by language models."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graph_runtime import Registry


def register(registry: Registry) -> None:
    """Add the family's calculators and resource initializer to a registry."""
    from calculators.language.server_tools.resources import ToolsResourceInitializer
    from calculators.language.server_tools.tools_calculator import (
        OfferToolsCalculator,
        ToolsCalculator,
    )

    registry.register_calculator(OfferToolsCalculator)
    registry.register_calculator(ToolsCalculator)
    registry.register_resource_initializer(ToolsResourceInitializer())
