"""`SharedModules`: calculators for all graphs, from the key ``python_path`` of a config.json and
from files of the command line."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from graph_runtime import GraphError, Registry
from servers.serving.author_code import ImportFailure, registry_with
from servers.serving.watched_files import WatchedFiles

_log: Final = logging.getLogger(__name__)


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
        self, registry: Registry, paths: tuple[Path, ...], files: tuple[Path, ...] = ()
    ) -> None:
        """
        Args:
            registry: the server's, without the modules.
            paths: of the configuration.
            files: modules besides, whatever the configuration says.

        Raises:
            SharedModulesError: one of ``files`` cannot be imported.
        """
        self._parent = registry
        self._files = files
        self._digest = ""
        self.failures: Sequence[ImportFailure] = ()
        self.registry = registry
        self.paths: tuple[Path, ...] = ()
        failures = self._import(paths)
        # A file of the configuration may be mended while others serve; these were just typed.
        if files and (fatal := [each for each in failures if not _is_below(each.file, paths)]):
            raise SharedModulesError(fatal)
        _report(failures)

    @property
    def digest(self) -> str:
        """A word that changes whenever the modules are imported anew."""
        return self._digest

    def is_outdated(self, paths: tuple[Path, ...]) -> bool:
        """True if the modules have changed since they were imported."""
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
        self.failures = imports.failures
        return imports.failures

    def _all(self, paths: tuple[Path, ...]) -> tuple[Path, ...]:
        return tuple(dict.fromkeys((*self._files, *paths)))


def _report(failures: Sequence[ImportFailure]) -> None:
    for failure in failures:
        _log.error("a module cannot be imported: %s", failure)


def _is_below(file: Path, paths: Sequence[Path]) -> bool:
    return any(file.is_relative_to(path) for path in paths)
