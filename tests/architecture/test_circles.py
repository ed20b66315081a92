"""No modules import one another in a circle, not even for types only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from bench.house import Module, imports_of, read_modules
from tests.support.checkout import ROOT

#: The imports that may close a circle, each with the reason or the decision that has it.
ALLOWED: Final = {
    ("graph_runtime.authoring.context", "graph_runtime.engine.node"): "decision 0002",
    ("graph_runtime.engine.ready_queue", "graph_runtime.engine.node"): "decision 0002",
    ("graph_runtime.authoring.context", "graph_runtime.streams.output_stream"): "decision 0002",
    ("graph_runtime.streams.input_stream", "graph_runtime.engine.node"): "decision 0002",
    ("graph_runtime.streams.output_stream", "graph_runtime.streams.input_stream"): "decision 0002",
    # Schemas are recursive: the rules of an object and of an array need those of their members.
    ("calculators.llm.grammars.object_rules", "calculators.llm.grammars.schema_rules"): "its type",
    ("calculators.llm.grammars.array_rules", "calculators.llm.grammars.schema_rules"): "its type",
}

Imports = Mapping[str, frozenset[str]]


def all_imports(known: Mapping[str, Module]) -> Imports:
    """Return, for each module, the modules that it imports."""
    return {name: frozenset(imports_of(module, known)) for name, module in known.items()}


def circle(imports: Imports, without: Iterable[tuple[str, str]] = ()) -> list[str]:
    """Return the modules of one circle, each importing the next; [] where there is none."""
    left_out = set(without)
    graph = {
        name: [other for other in others if (name, other) not in left_out]
        for name, others in imports.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # The sorter lists each module before those that import it.
        return list(reversed(error.args[1]))
    return []


@pytest.fixture(scope="module")
def imports(modules: Mapping[str, Module]) -> Imports:
    return all_imports({**modules, **read_modules(ROOT, ["bench"])})


def test_no_modules_import_one_another_in_a_circle(imports: Imports) -> None:
    found = circle(imports, ALLOWED)
    assert not found, " -> ".join(found)


@pytest.mark.parametrize("arrow", ALLOWED, ids=" -> ".join)
def test_each_exception_is_needed(imports: Imports, arrow: tuple[str, str]) -> None:
    others = [each for each in ALLOWED if each != arrow]
    assert circle(imports, others), "it closes no circle any more: delete it from ALLOWED"


def test_a_circle_of_types_would_be_found(tmp_path: Path) -> None:
    room = tmp_path / "calculators"
    room.mkdir()
    (room / "__init__.py").touch()
    (room / "one.py").write_text("from calculators.two import B\n")
    (room / "two.py").write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from calculators import three\n"
    )
    (room / "three.py").write_text("def late():\n    import calculators.one\n")
    found = circle(all_imports(read_modules(tmp_path)))
    arrows = set(pairwise(found))
    assert arrows == {
        ("calculators.one", "calculators.two"),
        ("calculators.two", "calculators.three"),
        ("calculators.three", "calculators.one"),
    }
