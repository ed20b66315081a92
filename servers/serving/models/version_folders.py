"""The folders of a plain model's versions: which there are, and the file of each."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from calculators.kit.seen_files import FileMarks, marks_of
from calculators.tensors.openvino.directory_models import (
    NO_FILE,
    SUFFIXES,
    PlainModelSource,
    model_in,
    versions_in,
)
from graph_runtime import Code, GraphError
from graphrt_base.regular_file import raise_if_exhausted
from servers.config import ModelEntry

#: Names of the files of one version, sorted, with times, size and place of each.
Listing: TypeAlias = tuple[tuple[str, FileMarks | None], ...]


@dataclass(frozen=True, slots=True)
class VersionFolders:
    """The versions of a model at one time.

    Attributes:
        folders: the folder or file of each version, in ascending order.
        listings: the files of the versions that the policy chooses; empty for a missing version.
        problem: why there is no version at all; None if there is one.
    """

    folders: Mapping[int, Path] = field(default_factory=dict)
    listings: Mapping[int, Listing] = field(default_factory=dict)
    problem: GraphError | None = None

    def paths(self) -> Mapping[int, Path]:
        """Return `folders`.

        Raises:
            GraphError: there is a `problem`.
        """
        if self.problem is not None:
            raise self.problem
        return self.folders

    def is_as(self, earlier: VersionFolders, loaded: Collection[int]) -> bool:
        """Return True if there is nothing to load and nothing to retire since ``earlier``.

        The files of ``loaded`` versions are not compared: copying new ones over them takes time.
        A reload that is asked for compares them, by `ModelDefinition.is_overwritten`.
        """
        if self.problem is not None:
            return earlier.problem is not None and str(self.problem) == str(earlier.problem)
        return earlier.problem is None and (
            {number: () if number in loaded else each for number, each in self.listings.items()}
            == {number: () if number in loaded else e for number, e in earlier.listings.items()}
        )


def version_paths(entry: ModelEntry) -> dict[int, Path]:
    """Return the folder or file of each version, in ascending order.

    Raises:
        GraphError: there is no version; the text says why (FAILED_PRECONDITION).
    """
    path = entry.base_path
    if entry.refusal:
        raise _error(entry.refusal)
    if entry.folders:
        return dict(entry.folders)
    if entry.stored is not None:
        raise _error("its files are in a store, and have not been downloaded")
    if path.is_file() and path.suffix in SUFFIXES:
        return {1: path}
    if not path.is_dir():
        raise _error(f'there is no directory "{path.name}", its base_path')
    try:
        found = versions_in(path)
    except OSError as error:
        raise_if_exhausted(error)
        raise _error(f'its base_path "{path.name}" cannot be read: {error.strerror}') from None
    if not found:
        raise _error(
            f'its base_path "{path.name}" has no folder of a version, such as 1, with a model in '
            f"it, and no graph.pbtxt{_remedy(path)}"
        )
    return found


def _remedy(path: Path) -> str:
    is_version = path.name.isascii() and path.name.isdecimal()
    if is_version and any(file.suffix in SUFFIXES for file in path.iterdir()):
        above = path.parent.name
        return f'; this is the folder of version {path.name}: name "{above}", which holds it'
    return ""


def _error(reason: str) -> GraphError:
    return GraphError(reason, code=Code.FAILED_PRECONDITION)


def find_versions(entry: ModelEntry) -> VersionFolders:
    """Return the present versions of a model. Reads folders: for a thread."""
    try:
        paths = version_paths(entry)
    except GraphError as error:
        return VersionFolders(problem=error)
    listings = {number: _listing(paths.get(number)) for number in entry.policy.chosen(paths)}
    return VersionFolders(paths, listings)


def _listing(path: Path | None) -> Listing:
    if path is None:
        return ()
    try:
        files = sorted(path.iterdir()) if path.is_dir() else _parts_of(path)
    except OSError as error:  # it is being copied or removed; the next listing differs
        raise_if_exhausted(error)
        return (("", None),)
    return tuple((file.name, marks_of(os.fspath(file))) for file in files)


def _parts_of(file: Path) -> list[Path]:
    """Return a model's file and, if it has any, the file of its weights."""
    weights = file.with_suffix(".bin")
    return [file, weights] if file.suffix == ".xml" and weights.exists() else [file]


def source_of(entry: ModelEntry, number: int, path: Path | None) -> PlainModelSource:
    """Return what a version in a folder or file is loaded from. Reads the folder: for a thread.

    Raises:
        GraphError: ``path`` is None, or there is no model in it (FAILED_PRECONDITION).
    """
    if path is None:
        raise GraphError(
            f"there is no folder {number} in its base_path", code=Code.FAILED_PRECONDITION
        )
    file = model_in(path) if path.is_dir() else path
    if file is None:
        raise GraphError(f"the folder {path.name} {NO_FILE}", code=Code.FAILED_PRECONDITION)
    return PlainModelSource(file, entry.name, number, entry.settings)
