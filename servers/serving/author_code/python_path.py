"""Imports of the modules in a ``python_path``, which register calculators."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from graph_runtime import Registry
from graph_runtime.interrupts import raise_interrupt
from servers.config import GraphEntry
from servers.serving.author_code.import_failure import ImportFailure, import_failure
from servers.serving.author_code.isolated_package import forget_module, make_package

_log: Final = logging.getLogger(__name__)

#: Held during imports, because graphs are loaded at the same time and share standard output.
_lock: Final = threading.RLock()


@dataclass(frozen=True, slots=True)
class ModuleImports:
    """A registry with the calculators of the modules of a path, and the failed imports."""

    registry: Registry
    failures: tuple[ImportFailure, ...] = ()


def registry_with(paths: Sequence[Path], parent: Registry) -> ModuleImports:
    """Return ``parent`` with the calculators of these paths; ``parent`` itself without paths.

    A failure does not stop other imports. A graph that misses a calculator fails with the reason.
    """
    if not paths:
        return ModuleImports(parent)
    registry = Registry(parent, hides_parent=False)
    return ModuleImports(registry, import_modules(paths, registry))


async def registry_of(entry: GraphEntry, parent: Registry) -> Registry:
    """Return `registry_with` the graph's own modules, imported in a thread. Failures are logged."""
    if not entry.python_path:
        return parent
    # Without a time limit: a module may load a large library.
    imports = await asyncio.to_thread(registry_with, entry.python_path, parent)
    for failure in imports.failures:
        _log.error("%s: a module cannot be imported: %s", entry.name, failure)
    return imports.registry


def import_modules(paths: Sequence[Path], registry: Registry) -> tuple[ImportFailure, ...]:
    """Import every module of these paths into ``registry`` and return the failures. Blocks."""
    failures: list[ImportFailure] = []
    files: dict[str, Path] = {}
    for path in paths:
        try:
            found = sorted(_modules_of(path))
        except OSError as error:
            failures.append(ImportFailure(path, None, error.strerror or str(error)))
            continue
        for each in found:
            present = files.setdefault(each.stem, each)
            if present != each:
                failures.append(
                    ImportFailure(
                        each, None, f"{present} is the module {each.stem} too; rename one of them"
                    )
                )
    with _lock:
        directories = dict.fromkeys(each.parent for each in files.values())
        package = make_package(list(directories), registry)
        importlib.invalidate_caches()
        for name, path in files.items():
            failure = _import(f"{package}.{name}", path)
            if failure is not None:
                failures.append(failure)
    for failure in failures:
        line = "" if failure.line is None else f"line {failure.line}: "
        registry.failed_modules[str(failure.file)] = line + failure.reason
    return tuple(failures)


def _modules_of(path: Path) -> Iterator[Path]:
    """Yield the files and packages that a path stands for.

    Raises:
        OSError: there is no such file or directory.
    """
    path = Path(os.path.abspath(path))
    if path.suffix == ".py" or (path / "__init__.py").is_file():
        path.stat()
        yield path
    else:
        for each in path.iterdir():
            is_module = each.suffix == ".py" or (each / "__init__.py").is_file()
            if is_module and each.name[0] not in "._":
                yield each


def _import(name: str, path: Path) -> ImportFailure | None:
    if path.exists() and not path.is_file() and not path.is_dir():
        return ImportFailure(path, None, "it is not a regular file")  # a pipe has no end
    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output carries data
            importlib.import_module(name)
    except BaseException as error:  # SystemExit too, from a script that is no module
        raise_interrupt(error)
        forget_module(name)
        _log.debug("%s cannot be imported", path, exc_info=error)
        return import_failure(error, path)
    return None
