"""What lies in a plain model's folder, and whether that has changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from graph_runtime import GraphError
from graph_runtime.regular_file import raise_if_exhausted
from servers.config import ModelEntry
from servers.serving.models.version_paths import version_paths

#: Names, sizes and times of the files of one version.
Listing: TypeAlias = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class VersionFolders:
    """The versions that there are.

    Attributes:
        folders: the folder or file of each, in rising order.
        listings: of the versions that the policy chooses; empty where there is none.
        problem: why there is no version at all; None when there is one.
    """

    folders: Mapping[int, Path] = field(default_factory=dict)
    listings: Mapping[int, Listing] = field(default_factory=dict)
    problem: GraphError | None = None

    def paths(self) -> Mapping[int, Path]:
        """
        Raises:
            GraphError: `problem`.
        """
        if self.problem is not None:
            raise self.problem
        return self.folders

    def is_as(self, earlier: VersionFolders, loaded: Collection[int]) -> bool:
        """Is there nothing new to load, and nothing to leave? What is ``loaded`` is not looked
        into: files are copied over, and read for long."""
        if self.problem is not None:
            return earlier.problem is not None and str(self.problem) == str(earlier.problem)
        return earlier.problem is None and (
            {number: () if number in loaded else each for number, each in self.listings.items()}
            == {number: () if number in loaded else e for number, e in earlier.listings.items()}
        )


def find_versions(entry: ModelEntry) -> VersionFolders:
    """Look for the versions of a model. Reads folders: for a thread."""
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
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        found = [(file.name, file.stat()) for file in files]
    except OSError as error:  # it is being copied, or taken away; the next look sees more
        raise_if_exhausted(error)
        return (("", 0, 0),)
    return tuple((name, status.st_size, status.st_mtime_ns) for name, status in found)
