"""The public names: complete, in order, documented."""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import pytest

import graph_runtime
import graph_runtime.testing
from tests.architecture.test_imports import names_of_modules

PUBLIC = {name: getattr(graph_runtime, name) for name in graph_runtime.__all__}


def isort_key(name: str) -> tuple[int, str]:
    """Sort key of ruff's order of ``__all__``: constants, then classes, then the rest."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_the_list_of_names_is_sorted_without_duplicates() -> None:
    names = graph_runtime.__all__
    assert names == sorted(set(names), key=isort_key)


def test_every_imported_name_is_exported() -> None:
    imported = {
        name
        for name, value in vars(graph_runtime).items()
        if not name.startswith("_") and not isinstance(value, ModuleType) and name != "annotations"
    }
    assert imported == set(graph_runtime.__all__)


@pytest.mark.parametrize("name", graph_runtime.__all__)
def test_every_name_is_documented(name: str) -> None:
    value = PUBLIC[name]
    if inspect.isclass(value) or inspect.isfunction(value):
        own = value.__dict__.get("__doc__") if inspect.isclass(value) else value.__doc__
        assert own
        assert own.strip()


@pytest.mark.parametrize("name", [*names_of_modules("graph_runtime"), *names_of_modules("protos")])
def test_every_module_and_its_public_classes_are_documented(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    undocumented = [
        cls.__name__
        for cls in vars(module).values()
        if inspect.isclass(cls)
        and cls.__module__ == name
        and not cls.__name__.startswith("_")
        and not cls.__dict__.get("__doc__")
    ]
    assert undocumented == []


def test_testing_is_public_too() -> None:
    for value in (graph_runtime.testing.CalculatorRunner, graph_runtime.testing.Sink):
        assert value.__doc__
