"""`WatchedFiles`: detection of changes in the files of a graph.

The content decides: a file that was only touched has not changed, but a file that was changed twice
within a second has.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from calculators.python.handler_options import handler_paths
from calculators.retrieval.index_paths import index_paths
from calculators.server_tools.tools_options import tool_paths
from graph_runtime import GraphError, Registry
from graph_runtime.regular_file import (
    DescriptorsExhaustedError,
    being_read,
    raise_if_exhausted,
    read_regular_file,
)
from servers.config import GraphEntry
from servers.serving.graph_source import GraphSource

#: Size and time stand for the content of larger files.
_LARGEST_READ: Final = 16 * 1024 * 1024
#: A file that was changed this shortly before it was read may change again without a change of its
#: times, which some file systems keep in whole seconds. So it is read once more after this time.
_SETTLING_SECONDS: Final = 3.0
#: The most files whose digests are kept; beyond that, all are read again once.
_MOST_KNOWN: Final = 200_000


@dataclass(frozen=True, slots=True)
class WatchedFiles:
    """A set of files, given by paths and folders.

    Attributes:
        files: paths of files, which need not exist.
        folders: paths of Python modules: files, packages, or folders of both, at any depth.
        around: a folder whose graph files belong to the set, or None.
    """

    files: tuple[Path, ...] = ()
    folders: tuple[Path, ...] = ()
    around: Path | None = None

    def digest(self) -> str:
        """Return a digest of all names and contents. Reads the files: for a thread.

        Raises:
            DescriptorsExhaustedError: the files cannot be read now.
        """
        found = hashlib.sha256()
        paths = {os.fspath(path) for path in self.files}
        try:
            paths.update(map(os.fspath, self._modules()))
            paths.update(map(os.fspath, self._graphs()))
        except OSError as error:  # a folder was removed meanwhile; the next digest differs
            raise_if_exhausted(error)
        for path in sorted(paths):
            found.update(f"{path}\0{_CONTENTS.digest(path)}\0".encode(errors="surrogateescape"))
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
    """Return the files of a graph: its own, its subgraphs', those of Python handlers, tools and
    modules, and indexes.

    ``shared`` are the paths of modules for all graphs. Reads files: for a thread.
    """
    folders = (*shared, *entry.python_path)
    if entry.graph_text is not None:
        return WatchedFiles(folders=folders)
    try:
        source = GraphSource(str(entry.graph_path), registry)
    except DescriptorsExhaustedError:
        raise
    except GraphError:
        return WatchedFiles((entry.graph_path,), folders)
    named = [
        path
        for config in source.configs
        for path in (*handler_paths(config), *tool_paths(config), *index_paths(config))
    ]
    files = (*source.files, *(entry.directory / path for path in named))
    return WatchedFiles(files, folders)


def files_around(entry: GraphEntry, files: WatchedFiles) -> WatchedFiles:
    """Return files whose change may repair a graph that could not be loaded."""
    return replace(files, around=entry.graph_path.parent)


class _Known(NamedTuple):
    """The digest of a file. ``seen_at`` is when its marks were first seen, in monotonic seconds."""

    marks: tuple[int, ...]
    digest: str
    seen_at: float
    is_settled: bool


class _Contents:
    """Digests of files, which are read again only when their times, sizes or places change."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def digest(self, path: str) -> str:
        """Return the digest of a file's content, or what stands for it."""
        try:
            with being_read(path):
                status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):
                return f"no regular file: {stat.S_IFMT(status.st_mode)}"
            if status.st_size > _LARGEST_READ:
                return f"{status.st_size} {status.st_mtime_ns}"
            times = (status.st_mtime_ns, status.st_ctime_ns)
            marks = (*times, status.st_size, status.st_ino, status.st_dev)
            known = self._known.get(path)
            is_same = known is not None and known.marks == marks
            if known is not None and is_same and known.is_settled:
                return known.digest
            now = time.monotonic()
            seen_at = known.seen_at if known is not None and is_same else now
            digest = hashlib.sha256(read_regular_file(path, _LARGEST_READ)).hexdigest()
        except OSError as error:
            return type(error).__name__
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known[path] = _Known(marks, digest, seen_at, now - seen_at > _SETTLING_SECONDS)
        return digest


_CONTENTS: Final = _Contents()
