"""A package over some directories, whose modules import each other by their own names.

To the interpreter a module is ``graphrt_isolated_7.shout``. Its author writes ``import shout``, as
for a directory on PYTHONPATH, also in functions that run much later; so each module has an
``__import__`` of its own, which looks beside it first.
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
    """A package of the modules in these directories; its name. It lasts as long as ``registry``,
    which has what they register."""
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
    """Take a module that could not be imported, and what lies below it, away."""
    for each in [*sys.modules]:
        if each == name or each.startswith(f"{name}."):
            sys.modules.pop(each, None)


def _forget(package: str) -> None:
    _FINDER.packages.discard(package)
    forget_module(package)


class _Finder:
    """Gives the modules of isolated packages their loader."""

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
    """Runs a module with an ``__import__`` that knows its neighbours."""

    def __init__(self, name: str, path: str, package: str) -> None:
        super().__init__(name, path)
        self._package = package

    def path_stats(self, path: str) -> Any:
        """No compiled code is kept, or taken: it goes by whole seconds and by the length, and would
        hide a change."""
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
    """Is there a module of this name in the package's directories?"""
    if f"{package}.{name}" in sys.modules:
        return True
    holder = sys.modules.get(package)
    if holder is None:  # its registry is gone; its code runs to its end
        return False
    return any(
        (Path(directory) / f"{name}.py").is_file()
        or (Path(directory) / name / "__init__.py").is_file()
        for directory in holder.__path__
    )


_FINDER: Final = _Finder()
