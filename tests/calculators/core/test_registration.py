"""Registration of the core family."""

from __future__ import annotations

import subprocess
import sys

import pytest

import calculators
from calculators.core import CALCULATORS
from graph_runtime import Calculator, Registry, validate_graph
from tests.calculators.core.running import core_registry
from tests.calculators.docstring_examples import example_graph


def test_importing_registers_nothing() -> None:
    program = (
        "import calculators.core, graph_runtime; "
        "assert not graph_runtime.REGISTRY._calculators, graph_runtime.REGISTRY._calculators"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_registering_twice_changes_nothing() -> None:
    registry = Registry()
    calculators.register_all(registry)
    once = registry.calculators()
    calculators.register_all(registry)
    assert registry.calculators() == once
    assert "PassThroughCalculator" in once
    assert "SwitchContainer" in registry.subgraphs()


def test_calculators_per_element_type_have_mediapipes_names() -> None:
    names = set(core_registry().calculators())
    assert {
        "BeginLoopIntCalculator",
        "EndLoopFloatCalculator",
        "ConcatenateUInt64VectorCalculator",
        "SplitUint64tVectorCalculator",
        "Uint64tVectorIndicesCalculator",
        "StringToUint32Calculator",
    } <= names


@pytest.mark.parametrize("calculator", CALCULATORS, ids=lambda cls: cls.__name__)
def test_the_example_in_the_docstring_is_a_valid_node(calculator: type[Calculator]) -> None:
    """Every class declares its ports and options, and shows a node that works."""
    text = calculator.__doc__ or ""
    assert "Options" in text
    assert "Source: MediaPipe" in text
    assert validate_graph(example_graph(calculator), registry=core_registry()).nodes
