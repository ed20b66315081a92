"""What the engine's tests share."""

from __future__ import annotations

import pytest

from graph_runtime import REGISTRY, Registry
from tests.graph_runtime.small_calculators import SMALL_CALCULATORS


@pytest.fixture
def registry() -> Registry:
    """A registry of this test's own, with the small calculators."""
    registry = Registry(REGISTRY)
    for calculator in SMALL_CALCULATORS:
        registry.register_calculator(calculator)
    return registry
