"""Isolated packages over some directories, whose modules import each other by their own names.

To the interpreter a module is ``graphrt_isolated_7.shout``. Its author writes ``import shout``, as
for a directory on PYTHONPATH, also in functions that run much later. So each module has an
``__import__`` of its own, which searches its package first.
"""

from __future__ import annotations

import builtins
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from graph_runtime import Registry
from graph_runtime.plan.registry import new_package


def make_package(directories: Sequence[Path], registry: Registry) -> str:
    """Make a package of the modules in these directories and return its name.

    The package lasts as long as ``registry``, with which the modules register.
    """
    name = new_package(registry)
    package = ModuleType(name, "Calculators of an author.")
    package.__path__ = [str(directory) for directory in directories]
    sys.modules[name] = package
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)
    _FINDER.packages.add(name)
    weakref.finalize(registry, _forget, name)
    return name


def forget_module(name: str) -> None:
    """Remove a module that could not be imported, and its submodules, from sys.modules."""
    for each in [*sys.modules]:
        if each == name or each.startswith(f"{name}."):
            sys.modules.pop(each, None)


def _forget(package: str) -> None:
    _FINDER.packages.discard(package)
    forget_module(package)


class _Finder:
    """Finds the modules of isolated packages."""

    def __init__(self) -> None:
        self.packages: set[str] = set()

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package = name.partition(".")[0]
        if package not in self.packages:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path, package)
        return spec


class _Loader(SourceFileLoader):
    """Runs a module with an ``__import__`` that searches its package first."""

    def __init__(self, name: str, path: str, package: str) -> None:
        super().__init__(name, path)
        self._package = package

    def path_stats(self, path: str) -> Any:
        """Refuse, so that no compiled code is kept or used: it is matched by whole seconds and by
        length, and would hide a change."""
        raise OSError(path)

    def exec_module(self, module: ModuleType) -> None:
        own = dict(vars(builtins))
        own["__import__"] = _importer(self._package)
        module.__dict__["__builtins__"] = own
        super().exec_module(module)


def _importer(package: str) -> Callable[..., Any]:
    def import_(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        first = name.partition(".")[0]
        if level or not _has(package, first):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        found = builtins.__import__(f"{package}.{name}", globals, locals, fromlist or (), 0)
        return found if fromlist else getattr(found, first)

    return import_


def _has(package: str, name: str) -> bool:
    """True if the directories of the package have a module of this name."""
    if f"{package}.{name}" in sys.modules:
        return True
    holder = sys.modules.get(package)
    if holder is None:  # the registry is gone, while code of the module still runs
        return False
    return any(
        (Path(directory) / f"{name}.py").is_file()
        or (Path(directory) / name / "__init__.py").is_file()
        for directory in holder.__path__
    )


_FINDER: Final = _Finder()
