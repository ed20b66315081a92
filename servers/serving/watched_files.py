"""`WatchedFiles`: what a graph is made from, and whether that has changed.

The content decides: a file that was only touched has not changed, and one that was changed within
the same second has.
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
from graph_runtime import GraphError, Registry
from graph_runtime.regular_file import (
    DescriptorsExhaustedError,
    being_read,
    raise_if_exhausted,
    read_regular_file,
)
from servers.config import GraphEntry
from servers.serving.graph_source import GraphSource

#: Of a file that is larger its size and time stand for its content.
_LARGEST_READ: Final = 16 * 1024 * 1024
#: A file that was changed so short before it was read may be changed again without a trace in its
#: times, which some file systems keep in whole seconds. So it is read once more after this time.
_SETTLING_SECONDS: Final = 3.0
#: Files whose content is remembered; with more, all are read again once.
_MOST_KNOWN: Final = 200_000


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
        """Of all names and contents. Reads the files: for a thread.

        Raises:
            DescriptorsExhaustedError: nothing is known of them now.
        """
        found = hashlib.sha256()
        paths = {os.fspath(path) for path in self.files}
        try:
            paths.update(map(os.fspath, self._modules()))
            paths.update(map(os.fspath, self._graphs()))
        except OSError as error:  # a folder went away meanwhile: the next look sees that
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
    """Its graph file, the subgraph files beside it that it uses, the files of its Python handlers,
    and its own modules; ``shared``: the modules that all graphs have. For a thread."""
    folders = (*shared, *entry.python_path)
    if entry.graph_text is not None:
        return WatchedFiles(folders=folders)
    try:
        source = GraphSource(str(entry.graph_path), registry)
    except DescriptorsExhaustedError:
        raise
    except GraphError:
        return WatchedFiles((entry.graph_path,), folders)
    handlers = (path for config in source.configs for path in handler_paths(config))
    files = (*source.files, *(entry.directory / path for path in handlers))
    return WatchedFiles(files, folders)


def files_around(entry: GraphEntry, files: WatchedFiles) -> WatchedFiles:
    """For a graph that could not be loaded: a file beside it may be what it lacks."""
    return replace(files, around=entry.graph_path.parent)


class _Known(NamedTuple):
    """What was read of a file. ``seen_at``: when it first had these marks, in monotonic seconds."""

    marks: tuple[int, ...]
    digest: str
    seen_at: float
    is_settled: bool


class _Contents:
    """Digests of files, which are read again only when their times, sizes or places change."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def digest(self, path: str) -> str:
        """Of the content; what stands for it where it is not read."""
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
