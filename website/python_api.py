"""Pages of the Python API, whose texts mkdocstrings takes from the docstrings."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Final

import calculators.language
import graph_runtime
import graph_runtime.testing

_MODULES: Final[tuple[tuple[str, ModuleType, str], ...]] = (
    (
        "graph_runtime",
        graph_runtime,
        "Calculators and graphs. Authors of calculators import only this module.",
    ),
    ("testing", graph_runtime.testing, "Tests of calculators and graphs."),
    (
        "language",
        calculators.language,
        "Nodes beside a language model: requests, deltas, functions as nodes, models for tests.",
    ),
)


def python_pages() -> dict[str, str]:
    """Return a page for each module that users import, by paths in the site."""
    return {f"reference/python/{name}.md": _page(module, about) for name, module, about in _MODULES}


def _page(module: ModuleType, about: str) -> str:
    parts = [f"# `{module.__name__}`\n", f"{about}\n"]
    parts += [f"::: {_home(module, name)}\n" for name in _public(module)]
    return "\n".join(parts)


def _public(module: ModuleType) -> list[str]:
    """Return the names of classes and functions that a module offers, classes first."""
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    ]
    described = [name for name in names if getattr(getattr(module, name), "__doc__", None)]
    return sorted(
        (name for name in described if _is_described(getattr(module, name))),
        key=lambda name: (not inspect.isclass(getattr(module, name)), name),
    )


def _is_described(value: object) -> bool:
    return inspect.isclass(value) or inspect.isfunction(value)


def _home(module: ModuleType, name: str) -> str:
    """Return the place where a member is written, which needs no import to be found."""
    value = getattr(module, name)
    return f"{value.__module__}.{value.__qualname__}"
