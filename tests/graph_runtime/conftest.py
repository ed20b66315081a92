"""Fixtures of the engine's tests."""

from __future__ import annotations

import pytest

from graph_runtime import REGISTRY, Registry
from tests.graph_runtime.small_calculators import SMALL_CALCULATORS


@pytest.fixture
def registry() -> Registry:
    """Make a registry for one test, with the small calculators."""
    registry = Registry(REGISTRY)
    for calculator in SMALL_CALCULATORS:
        registry.register_calculator(calculator)
    return registry
