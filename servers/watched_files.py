"""`WatchedFiles`: what a graph is made from, and whether that has changed.

The content decides: a file that was only touched has not changed, and one that was changed within
the same second has.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from calculators.python.handler_options import handler_paths
from graph_runtime import GraphError, Registry
from servers.config import GraphEntry
from servers.graph_source import GraphSource

#: Of a file that is larger its size and time stand for its content.
_LARGEST_READ: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class WatchedFiles:
    """Files, and folders whose files count too.

    Attributes:
        files: they may be missing.
        folders: paths of Python modules: files, packages, or folders of both, however deep.
        around: a folder whose graph files count too; None without.
    """

    files: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    around: Path | None = None

    def digest(self) -> str:
        """Of all names and contents. Reads the files: for a thread."""
        found = hashlib.sha256()
        paths = set(self.files)
        with contextlib.suppress(OSError):  # a folder went away meanwhile: the next look sees that
            paths.update(self._modules())
            paths.update(self._graphs())
        for path in sorted(paths):
            found.update(f"{path}\0{_content(path)}\0".encode(errors="surrogateescape"))
        return found.hexdigest()

    def _modules(self) -> Iterator[Path]:
        for path in self.folders:
            yield path
            if path.is_dir():
                yield from path.rglob("*.py")

    def _graphs(self) -> Iterator[Path]:
        if self.around is not None:
            yield from self.around.glob("*.pbtxt")


def files_of(entry: GraphEntry, registry: Registry, shared: tuple[Path, ...] = ()) -> WatchedFiles:
    """Its graph file, the subgraph files beside it that it uses, the files of its Python handlers,
    and its own modules; ``shared``: the modules that all graphs have. For a thread."""
    folders = (*shared, *entry.python_path)
    if entry.graph_text is not None:
        return WatchedFiles(folders=folders)
    try:
        source = GraphSource(str(entry.graph_path), registry)
    except GraphError:
        return WatchedFiles((entry.graph_path,), folders)
    handlers = (path for config in source.configs for path in handler_paths(config))
    files = (*source.files, *(entry.directory / path for path in handlers))
    return WatchedFiles(files, folders)


def files_around(entry: GraphEntry, files: WatchedFiles) -> WatchedFiles:
    """For a graph that could not be loaded: a file beside it may be what it lacks."""
    return replace(files, around=entry.graph_path.parent)


def _content(path: Path) -> str:
    try:
        status = path.stat()
        if status.st_size > _LARGEST_READ:
            return f"{status.st_size} {status.st_mtime_ns}"
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return type(error).__name__
