"""Handler files: loading of the ``OvmsPythonModel`` class in a file."""

from __future__ import annotations

import itertools
import sys
import traceback
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from calculators.tensors.python import pyovms

CLASS_NAME: Final = "OvmsPythonModel"
_numbers = itertools.count(1)


class HandlerFileError(Exception):
    """The file has no usable handler. The text names the problem and, if known, the line."""


def offer() -> None:
    """Make ``import pyovms`` find `calculators.tensors.python.pyovms`."""
    sys.modules["pyovms"] = pyovms


def load_module(path: Path) -> ModuleType:
    """Run the file as a module of its own, whose neighbours it may import.

    Each node has its own module: files of the same name in two directories are two modules, and a
    reloaded graph sees the current file. Neighbours are ordinary modules, shared by name by all
    handlers in this process.

    Raises:
        HandlerFileError: the file does not exist, or cannot be run.
    """
    if not path.is_file():
        raise HandlerFileError("no such file")
    offer()
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    name = f"handler_{next(_numbers)}_{path.stem}"
    loader = _FreshLoader(name, str(path))
    spec = spec_from_loader(name, loader)
    assert spec is not None, "a loader is given"
    module = module_from_spec(spec)
    # Dataclasses, among others, look for the module of a class there.
    sys.modules[name] = module
    try:
        loader.exec_module(module)
    except BaseException as error:
        forget(module)
        raise HandlerFileError(failure(error, path)) from error
    return module


class _FreshLoader(SourceFileLoader):
    """Ignores and writes no bytecode caches.

    They are valid for a time in whole seconds and a length, and would hide a quick change.
    """

    def path_stats(self, path: str) -> Any:
        raise OSError(path)


def forget(module: ModuleType) -> None:
    """Remove a module that is no longer used."""
    sys.modules.pop(module.__name__, None)


def class_of(module: ModuleType) -> Any:
    """The class that the module defines.

    Raises:
        HandlerFileError: the module has no such class, or the class has no ``execute``.
    """
    found = getattr(module, CLASS_NAME, None)
    if found is None:
        raise HandlerFileError(f"it defines no class {CLASS_NAME}")
    if not callable(getattr(found, "execute", None)):
        raise HandlerFileError(f"{CLASS_NAME} has no method execute(self, inputs)")
    return found


def failure(error: BaseException, path: Path) -> str:
    """A text such as ``line 3: ValueError: text``; the line is the innermost one of this file."""
    if isinstance(error, SyntaxError) and error.filename == str(path):
        return f"line {error.lineno}: {type(error).__name__}: {error.msg}"
    lines = [
        frame.lineno
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == str(path)
    ]
    where = f"line {lines[-1]}: " if lines else ""
    return where + first_line(error)


def first_line(error: BaseException) -> str:
    """The exception's type and the first line of its text."""
    text = str(error).strip().partition("\n")[0].rstrip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
