"""Authors' calculators: the key ``python_path`` of a config.json.

A path is a ``.py`` file, a package, or a directory. In a directory, every file and package is
imported whose name does not begin with ``_`` or a dot. The modules of a path find each other by
name, however they import. No other code finds them, so two graphs may have different modules of one
name.

`SharedModules`: calculators for all graphs, from the key ``python_path`` of a config.json and
from files of the command line.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import importlib
import linecache
import logging
import os
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from calculators.kit.tasks import AuthorEndpoint
from graph_runtime import Calculator, GraphError, Registry
from graph_runtime.options.isolated_modules import own_name
from graph_runtime.plan.registry import new_package
from graphrt_base.interrupts import raise_interrupt
from servers.config import GraphEntry
from servers.config.entries import SUBCONFIG_FILE
from servers.serving.watched_files import WatchedFiles


@dataclass(frozen=True, slots=True)
class ImportFailure:
    """A module that cannot be imported. ``reason`` is type and text of the exception, in a line."""

    file: Path
    line: int | None
    reason: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line is not None else str(self.file)
        return f"{place}: {self.reason}"


def import_failure(error: BaseException, path: Path) -> ImportFailure:
    """Return the failure of importing ``path``, a file or the directory of a package.

    The place is the innermost frame below ``path``, else the innermost frame of all.
    """
    if isinstance(error, SyntaxError) and error.filename:
        return ImportFailure(Path(error.filename), error.lineno, f"SyntaxError: {error.msg}")
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<") and not _is_machinery(frame.filename)
    ]
    is_own: Callable[[str], bool] = lambda name: Path(name).is_relative_to(path)  # noqa: E731
    frame = next((each for each in reversed(frames) if is_own(each.filename)), None)
    if frame is None and frames:
        frame = frames[-1]
    text = " ".join(str(error).split())
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    if frame is None:
        return ImportFailure(path, None, reason)
    return ImportFailure(Path(frame.filename), frame.lineno, reason)


def _is_machinery(filename: str) -> bool:
    """Return True for files of the import machinery."""
    own = os.path.dirname(__file__) + os.sep
    return filename.startswith(own) or f"{os.sep}importlib{os.sep}" in filename


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
        # Two graphs may bring different modules of one name, and a reload a new version of one that
        # is in use: each package sees its own (decision 0029).
        own["__import__"] = _importer(self._package)
        module.__dict__["__builtins__"] = own
        before = linecache.cache.get(self.path)
        # Without a time, so that tracebacks show the lines that were imported, and never the lines
        # of a later edit.
        try:
            lines = self.get_data(self.path).decode("utf-8", "replace").splitlines(keepends=True)
        except OSError:
            lines = []
        linecache.cache[self.path] = (len(lines), None, lines, self.path)
        try:
            super().exec_module(module)
        except BaseException:
            # The module as it was before goes on running.
            if before is not None:
                linecache.cache[self.path] = before
            raise


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
    """Return True if the directories of the package have a module of this name."""
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
        registered = registry.registrations()
        directories = dict.fromkeys(each.parent for each in files.values())
        package = make_package(list(directories), registry)
        # Import remembers the names in a folder by its time of change, which is coarse: a file that
        # has just been written would be missing.
        importlib.invalidate_caches()
        for name, path in files.items():
            failure = _import(f"{package}.{name}", path)
            if failure is not None:
                failures.append(failure)
        if not failures and registry.registrations() == registered:
            for name, path in files.items():
                reason = _nothing_registered(vars(sys.modules[f"{package}.{name}"]), path)
                _log.warning("%s: %s", path, reason)
                registry.failed_modules[str(path)] = reason
    for failure in failures:
        line = "" if failure.line is None else f"line {failure.line}: "
        registry.failed_modules[str(failure.file)] = line + failure.reason
    return tuple(failures)


def _nothing_registered(members: Mapping[str, Any], path: Path) -> str:
    """Return what is wrong with a module that was imported and registers nothing."""
    for name, each in members.items():
        if isinstance(each, type) and issubclass(each, Calculator) and each is not Calculator:
            return f"{name} is not registered: write @calculator above the class"
    if path.is_dir():
        return "it registers nothing: its __init__.py imports no module with a @calculator"
    return "it registers nothing: write @calculator above a class or a function"


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
    except BaseException as error:  # SystemExit too, from a script that is not a module
        raise_interrupt(error)
        forget_module(name)
        _log.debug("%s cannot be imported", path, exc_info=error)
        return import_failure(error, path)
    return None


class SharedModulesError(GraphError):
    """Files that the server was started with cannot be imported.

    Attributes:
        failures: their reasons.
    """

    def __init__(self, failures: Sequence[ImportFailure]) -> None:
        super().__init__("; ".join(map(str, failures)))
        self.failures = failures


class SharedModules:
    """Imports modules, and imports them again after a change. Blocks: for a thread.

    Attributes:
        registry: the server's registry with the calculators of the modules. A module that cannot be
            imported is logged; graphs that need it then fail to load.
        paths: the paths of the modules.
        failures: the modules that could not be imported.
    """

    def __init__(
        self,
        registry: Registry,
        paths: tuple[Path, ...],
        files: tuple[Path, ...] = (),
        served: Collection[Path] = (),
        modules: Collection[str] = (),
    ) -> None:
        """
        Args:
            registry: the server's, without the modules.
            paths: of the configuration.
            files: modules besides, whatever the configuration says.
            served: the ones of ``files`` that have nothing but endpoints to serve.
            modules: names of modules that ``registry`` has the calculators of.

        Raises:
            SharedModulesError: one of ``files`` cannot be imported, or ``served`` ones have no
                endpoint.
        """
        self._parent = registry
        self._files = files
        self._modules = modules
        self._digest = ""
        self.failures: Sequence[ImportFailure] = ()
        self.registry = registry
        self.paths: tuple[Path, ...] = ()
        self._endpoint_graphs: dict[str, GraphEntry] = {}
        failures = self._import(paths)
        # A file of the configuration may be mended while others serve; these were just typed.
        if files and (fatal := [each for each in failures if not _is_below(each.file, paths)]):
            raise SharedModulesError(fatal)
        if served and not self.endpoint_graphs(()):
            text = 'nothing is served: no function in it has @endpoint("/v3/NAME")'
            raise SharedModulesError([ImportFailure(each, None, text) for each in served])
        _report(failures)

    def endpoint_graphs(self, named: Collection[str]) -> tuple[GraphEntry, ...]:
        """Return a graph for each function of an author that answers a path (`AuthorEndpoint`).

        ``named``: names of graphs and models that the configuration has, which a function's graph
        does not take.
        """
        before = self._endpoint_graphs if self.failures else {}
        # What a module had before the edit that broke it goes on answering, as other graphs do.
        self._endpoint_graphs = before | {
            name: _endpoint_graph(name, cls)
            for name, cls, _ in _endpoints_in(self.registry, self._modules)
        }
        return tuple(each for name, each in self._endpoint_graphs.items() if name not in named)

    @property
    def digest(self) -> str:
        """A word that changes whenever the modules are imported again."""
        return self._digest

    def is_outdated(self, paths: tuple[Path, ...]) -> bool:
        """Return True if the modules have changed since they were imported."""
        return WatchedFiles(folders=self._all(paths)).digest() != self._digest

    def import_again(self, paths: tuple[Path, ...]) -> None:
        """Import all modules again; ``paths`` are the configuration's now. Failures are logged."""
        _report(self._import(paths))

    def _import(self, paths: tuple[Path, ...]) -> Sequence[ImportFailure]:
        paths = self._all(paths)
        # First, so that a change during the import is detected the next time.
        files = WatchedFiles(folders=paths)
        marks, digest = files.marks(), files.digest()
        imports = registry_with(paths, self._parent)
        if files.marks() != marks:  # as it was before, perhaps, but not all the time
            digest = ""
        self.registry, self.paths, self._digest = imports.registry, paths, digest
        self.failures = (
            *imports.failures,
            *_answered_twice(_endpoints_in(imports.registry, self._modules)),
        )
        return self.failures

    def _all(self, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(dict.fromkeys((*self._files, *paths)))


def _endpoints_in(
    registry: Registry, modules: Collection[str]
) -> list[tuple[str, type[Calculator], AuthorEndpoint]]:
    """Return the calculators of authors' files and modules that answer a path, with their names.

    Calculators of installed packages, which are loaded when graphs name them, are left out.
    """
    return [
        (name, cls, endpoint)
        for name, cls in registry.loaded_calculators().items()
        if isinstance(endpoint := getattr(cls, "endpoint", None), AuthorEndpoint)
        and (own_name(cls.__module__) != cls.__module__ or _is_of(cls.__module__, modules))
    ]


def _is_of(module: str, modules: Collection[str]) -> bool:
    return any(module == each or module.startswith(f"{each}.") for each in modules)


def _answered_twice(
    endpoints: Sequence[tuple[str, type[Calculator], AuthorEndpoint]],
) -> list[ImportFailure]:
    first: dict[tuple[str, str], str] = {}
    failures: list[ImportFailure] = []
    for name, cls, endpoint in endpoints:
        for method in endpoint.methods:
            other = first.setdefault((method, endpoint.path), name)
            if other != name:
                text = f"{name} answers {method} {endpoint.path}, and so does {other}, which has it"
                failures.append(ImportFailure(_file_of(name, cls), None, text))
                break
    return failures


def _file_of(name: str, cls: type[Calculator]) -> Path:
    return Path(os.path.abspath(getattr(sys.modules.get(cls.__module__), "__file__", None) or name))


#: A graph of one node, which is the name's.
_OF_ENDPOINT: Final = """\
input_stream: "HTTP_REQUEST_PAYLOAD:input"
output_stream: "HTTP_RESPONSE_PAYLOAD:output"
node {
  name: "%s"
  calculator: "%s"
  input_stream: "HTTP_REQUEST_PAYLOAD:input"
  output_stream: "HTTP_RESPONSE_PAYLOAD:output"
}
"""


def _endpoint_graph(name: str, cls: type[Calculator]) -> GraphEntry:
    directory = _file_of(name, cls).parent
    text = _OF_ENDPOINT % (name, name)
    path = directory / f"{name}.pbtxt"
    return GraphEntry(name, directory, path, directory / SUBCONFIG_FILE, graph_text=text)


def _report(failures: Sequence[ImportFailure]) -> None:
    for failure in failures:
        _log.error("a module cannot be imported: %s", failure)


def _is_below(file: Path, paths: Sequence[Path]) -> bool:
    return any(file.is_relative_to(path) for path in paths)
