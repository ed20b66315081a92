"""`SharedModules`: calculators for all graphs, from the key ``python_path`` of a config.json."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from graph_runtime import Registry
from servers.serving.author_code import registry_with
from servers.serving.watched_files import WatchedFiles

_log: Final = logging.getLogger(__name__)


class SharedModules:
    """Imports modules, and imports them again after a change. Blocks: for a thread.

    Attributes:
        registry: the server's registry with the calculators of the modules. A module that cannot be
            imported is logged; graphs that need it then fail to load.
        paths: the paths of the modules.
    """

    def __init__(self, registry: Registry, paths: tuple[Path, ...]) -> None:
        """``registry`` is the server's, without the modules."""
        self._parent = registry
        self._digest = ""
        self.registry = registry
        self.paths: tuple[Path, ...] = ()
        self.import_again(paths)

    def is_outdated(self, paths: tuple[Path, ...]) -> bool:
        """True if `import_again` would import anything."""
        return WatchedFiles(folders=paths).digest() != self._digest

    def import_again(self, paths: tuple[Path, ...]) -> bool:
        """Import the modules at these paths if they have changed. Return True if they have."""
        # First, so that a change during the import is detected the next time.
        digest = WatchedFiles(folders=paths).digest()
        if digest == self._digest:
            return False
        imports = registry_with(paths, self._parent)
        for failure in imports.failures:
            _log.error("a module of python_path cannot be imported: %s", failure)
        self.registry, self.paths, self._digest = imports.registry, paths, digest
        return True
