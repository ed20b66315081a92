"""The registry that the arguments of a command ask for, and the place of an error."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import logging
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Final

import calculators
from calculators.kit.examples import example_model
from graph_runtime import REGISTRY, GraphError, Registry, load_graph_config
from servers.cli.messages import CommandFailed
from servers.config import find_graph
from servers.operations.process import NAMES

_ROOT: Final = Path(__file__).parents[2]


def import_author_module(name: str, *, verbose: bool = False) -> ModuleType:
    """Import a module by its dotted name, or a ``.py`` file by its path.

    Modules are searched for in the current directory too. A file may import its neighbours.

    Raises:
        CommandFailed: the import failed; the text names the place in the author's code.
    """
    path = author_file(name) if is_author_file(name) else None
    if path is None:
        _check_not_ours(name)
    try:
        with contextlib.redirect_stdout(sys.stderr):  # standard output carries data
            if path is not None:
                return _import_file(path)
            if os.getcwd() not in sys.path:
                sys.path.append(os.getcwd())
            return importlib.import_module(name)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # SystemExit too, from a script that is not a module
        if verbose:
            traceback.print_exc()
        raise CommandFailed(_failure(name, error), hint=_hint(name, error)) from error


def _check_not_ours(name: str) -> None:
    """Check that a module is not meant that one of graphrt's packages hides.

    Raises:
        CommandFailed: the working directory has another one of that name.
    """
    package = name.partition(".")[0]
    own = next((each for each in (Path(package), Path(f"{package}.py")) if each.exists()), None)
    if package not in NAMES or own is None or own.resolve() == (_ROOT / package).resolve():
        return
    raise CommandFailed(
        f"`--calculators {name}`: {package} is a package of graphrt, which hides the one here",
        hint=f"give {own} another name, or name its file: --calculators "
        f"./{own if own.suffix else own / '__init__.py'}",
        status=2,
    )


def is_author_file(name: str) -> bool:
    """Return whether a word of ``--calculators`` is the path of a file, not a module's name."""
    return name.endswith(".py") or os.sep in name


def author_file(name: str) -> Path:
    """Return the absolute path of a file of ``--calculators``.

    Raises:
        CommandFailed: there is no such file.
    """
    path = Path(name)
    if not path.is_file():
        what = "this is not a regular file" if path.exists() else "no such file"
        raise CommandFailed(f"`--calculators {name}`: {what}")
    return path.resolve()


def _import_file(path: Path) -> ModuleType:
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == str(path):
            return module
    folder = str(path.parent)
    if folder not in sys.path:
        # At the end: a file beside it must not hide an installed module of the same name.
        sys.path.append(folder)
    name = path.stem
    while name in sys.modules or name in sys.builtin_module_names:
        # A file named as a module that is imported already, such as json.py, must not replace it.
        name += "_"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "it ends with .py"
    assert spec.loader is not None, "it ends with .py"
    module = importlib.util.module_from_spec(spec)
    # Before it runs, as an import does: dataclasses and pickle look up the module of a class by its
    # name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _failure(name: str, error: BaseException) -> str:
    place = _place(error, name)
    text = str(error.msg) if isinstance(error, SyntaxError) else str(error)
    kind = type(error).__name__
    return f"`--calculators {name}`: {place}{kind}{': ' + text if text else ''}"


def _place(error: BaseException, name: str) -> str:
    """Return ``file:line: `` of the error, in the author's file if the traceback has it."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_shown(error.filename)}:{error.lineno}: "
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and frame.filename != __file__
    ]
    frames = [frame for frame in frames if os.sep + "importlib" + os.sep not in frame.filename]
    own = [frame for frame in frames if Path(frame.filename).name == Path(name).name]
    chosen = (own or frames)[-1:]
    return f"{_shown(chosen[0].filename)}:{chosen[0].lineno}: " if chosen else ""


def _shown(filename: str) -> str:
    relative = os.path.relpath(filename)
    return filename if relative.startswith(os.pardir) else relative


def _hint(name: str, error: BaseException) -> str | None:
    if isinstance(error, ModuleNotFoundError) and error.name == name.partition(".")[0]:
        file = Path(*name.split(".")).with_suffix(".py")
        if file.is_file():
            return f"for the file write `--calculators {file}`"
        return "modules are searched for in the current directory and in installed packages"
    return None


def make_registry(args: argparse.Namespace, *, has_files: bool = True) -> Registry:
    """Return a registry of graphrt's calculators, ``--calculators`` and ``--subgraph``.

    ``has_files``: import the files of ``--calculators`` too; a server does it itself, and again
    when they change.

    Raises:
        CommandFailed: a module cannot be imported, or a subgraph file cannot be used.
    """
    if args.verbose:
        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
    calculators.register_all(REGISTRY)
    for name in args.calculators:
        if not has_files and is_author_file(name):
            continue
        import_author_module(name, verbose=args.verbose)
    registry = Registry(REGISTRY)
    for path in getattr(args, "subgraph", ()):
        try:
            config = load_graph_config(path)
            registry.register_subgraph(config, config.type or Path(path).stem)
        except GraphError as error:
            raise CommandFailed(located(path, error)) from error
    return registry


def graph_file(word: str) -> str:
    """Return the graph's file that a word names: itself, or graph.pbtxt in the directory that it
    names, as `graphrt serve` finds it. An example model's name, such as demo, is its directory."""
    path = Path(word)
    directory = path if path.is_dir() else None if path.exists() else example_model(word)
    if directory is None:
        return word
    found = str(find_graph(directory).graph_path)
    return found if path.is_absolute() or directory is not path else os.path.relpath(found)


def located(path: str, error: GraphError) -> str:
    """Return the error's text, preceded by the file unless it names it."""
    text = str(error)
    return text if path in text else f"{path}: {text}"
