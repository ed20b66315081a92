"""`WatchedFiles`: detection of changes in the files of a graph, whose readers are many.

Loading reads them in several places and processes, so their digest is taken before, and their marks
before and after: a file that was half written meanwhile, and whole again, has changed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from calculators.kit.model_initializer import model_files
from calculators.kit.seen_files import FileMarks, marks_of, state_of
from graph_runtime import GraphError, Registry, find_options, identity_of
from graph_runtime.options.options import type_name
from graphrt_base.regular_file import DescriptorsExhaustedError, raise_if_exhausted
from servers.config import GraphEntry
from servers.config.entries import is_remote
from servers.serving.graph_source import GraphSource, subgraph_files

#: Characters of a path.
_LONGEST_PATH: Final = 4096
#: The beginning of the types of options whose paths this server reads.
_OWN_OPTIONS: Final = "mediapipe."
#: Paths with their times, sizes and places.
Marks: TypeAlias = tuple[tuple[str, FileMarks | None], ...]


@dataclass(frozen=True, slots=True)
class WatchedFiles:
    """A set of files, given by paths and folders.

    Attributes:
        files: paths of files, which need not exist.
        folders: paths of Python modules: files, packages, or folders of both, at any depth.
        around: a folder whose graph files belong to the set, or None.
        beside: folders whose Python files and packages belong to the set, as code in a file of
            theirs may import them.
    """

    files: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    around: Path | None = None
    beside: tuple[Path, ...] = ()

    def digest(self) -> str:
        """Return a digest of all names and contents. Reads the files: for a thread.

        Raises:
            DescriptorsExhaustedError: the files cannot be read now.
        """
        found = hashlib.sha256()
        for path in self._paths():
            found.update(f"{path}\0{state_of(path)}\0".encode(errors="surrogateescape"))
        return found.hexdigest()

    def marks(self) -> Marks:
        """Return the times, size and place of each file, without reading it. For a thread.

        Marks that differ tell of a change even if the file is as it was again.
        """
        return tuple((path, marks_of(path)) for path in self._paths())

    def _paths(self) -> list[str]:
        paths = {os.fspath(path) for path in self.files}
        try:
            paths.update(self._modules())
            paths.update(self._graphs())
        except OSError as error:  # a folder was removed meanwhile; the next digest differs
            raise_if_exhausted(error)
        return sorted(paths)

    def _modules(self) -> Iterator[str]:
        for folder in self.folders:
            yield os.fspath(folder)
            yield from _modules_below(os.fspath(folder), frozenset())
        for folder in self.beside:
            for path in map(os.fspath, sorted(folder.iterdir()) if folder.is_dir() else ()):
                if path.endswith(".py"):
                    yield path
                elif os.path.isfile(os.path.join(path, "__init__.py")):
                    yield from _modules_below(path, frozenset())

    def _graphs(self) -> Iterator[str]:
        if self.around is not None:
            yield from map(os.fspath, subgraph_files(self.around))


def _modules_below(folder: str, above: frozenset[str]) -> Iterator[str]:
    """Yield the modules in a folder at any depth; links to folders are followed, as imports do."""
    real = os.path.realpath(folder)
    if real in above:  # a link to a folder that it is in
        return
    try:
        names = os.listdir(folder)
    except OSError as error:
        raise_if_exhausted(error)
        return
    for name in names:
        path = os.path.join(folder, name)
        if name.endswith(".py"):
            yield path
        if os.path.isdir(path):
            yield from _modules_below(path, above | {real})


def source_of(entry: GraphEntry, registry: Registry) -> GraphSource | None:
    """Return the graph as its files are now; None if they do not parse. For a thread."""
    try:
        return GraphSource(str(entry.graph_path), registry, text=entry.graph_text)
    except DescriptorsExhaustedError:
        raise
    except GraphError:  # reported when the graph is loaded
        return None


def files_of(
    entry: GraphEntry, source: GraphSource | None, shared: tuple[Path, ...] = ()
) -> WatchedFiles:
    """Return the files of a graph: its own, its subgraphs', files of Python handlers, tools and
    modules, and indexes.

    ``shared`` are the paths of modules for all graphs.
    """
    folders = (*shared, *entry.python_path)
    if entry.graph_text is not None:
        return WatchedFiles(folders=folders)
    if source is None:
        return WatchedFiles((entry.graph_path,), folders)
    # Most graphs have none of these nodes, and so import none of their families.
    handlers: list[str] = []
    tools: list[str] = []
    indexes: list[str] = []
    used = {node.calculator for config in source.configs for node in config.node}
    if "PythonExecutorCalculator" in used:
        from calculators.tensors.python.handler_options import handler_paths

        handlers = [path for config in source.configs for path in handler_paths(config)]
    if "ToolsCalculator" in used:
        from calculators.language.server_tools.tools_options import tool_paths

        tools = [path for config in source.configs for path in tool_paths(config)]
    if "RetrievalCalculator" in used:
        from calculators.language.retrieval.index_paths import index_paths

        indexes = [path for config in source.configs for path in index_paths(config)]
    files = (*source.files, *(entry.directory / path for path in (*handlers, *tools, *indexes)))
    beside = {(entry.directory / path).parent for path in handlers}
    if tools:
        beside.add(entry.directory)
    return WatchedFiles(files, folders, beside=tuple(sorted(beside)))


def files_around(entry: GraphEntry, files: WatchedFiles) -> WatchedFiles:
    """Return files whose change may repair a graph that could not be loaded."""
    return replace(files, around=entry.graph_path.parent)


def named_files(entry: GraphEntry, source: GraphSource | None) -> str:
    """Return a word for the files at every path that an option of the graph's nodes could be.

    Most are of models. A word that is not a path names a file that does not exist, at no cost. A
    file counts by its times, size and place. Reads directories: for a thread.
    """
    if source is None:
        return ""
    texts = {text for _, text in _option_texts(source)}
    paths = [entry.directory / text for text in sorted(texts)]
    files = model_files(paths)
    return "" if files is None else identity_of(files=files)


def store_addresses(source: GraphSource) -> tuple[str, ...]:
    """Return the addresses in object stores that options of a graph's nodes name.

    Options of authors are their own affair.
    """
    texts = {text for name, text in _option_texts(source) if name.startswith(_OWN_OPTIONS)}
    return tuple(sorted(filter(is_remote, texts)))


def _option_texts(source: GraphSource) -> Iterator[tuple[str, str]]:
    """Yield the texts in options of nodes that could be paths, after the type of the options."""
    for config in source.configs:
        for node in config.node:
            for held in node.node_options:
                name = type_name(held)
                for text in _texts_in(_options(node, name)):
                    yield name, text


def _options(node: Any, name: str) -> Any:
    try:
        return find_options(node, name)
    except GraphError:  # reported when the graph is loaded
        return None


def _texts_in(value: Any) -> Iterator[str]:
    """Yield the texts in options that could be paths, at any depth."""
    if isinstance(value, str):
        if 0 < len(value) <= _LONGEST_PATH and "\0" not in value:
            yield value
    elif hasattr(value, "ListFields"):
        for _, each in value.ListFields():
            yield from _texts_in(each)
    elif isinstance(value, Iterable) and not isinstance(value, bytes):
        for each in value:
            yield from _texts_in(each)
