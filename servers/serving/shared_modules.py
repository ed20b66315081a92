"""`SharedModules`: what the key ``python_path`` of a whole config.json adds to all graphs."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from graph_runtime import Registry
from servers.serving.author_code import registry_with
from servers.serving.watched_files import WatchedFiles

_log: Final = logging.getLogger(__name__)


class SharedModules:
    """Imports them anew when they have changed. Blocks: for a thread once the server runs.

    Attributes:
        registry: with what they register; what fails is logged, and a graph that misses it says so.
        paths: where they are.
    """

    def __init__(self, registry: Registry, paths: tuple[Path, ...]) -> None:
        """``registry``: of the server, without them."""
        self._parent = registry
        self._digest = ""
        self.registry = registry
        self.paths: tuple[Path, ...] = ()
        self.import_again(paths)

    def is_outdated(self, paths: tuple[Path, ...]) -> bool:
        """Would `import_again` import anything?"""
        return WatchedFiles(folders=paths).digest() != self._digest

    def import_again(self, paths: tuple[Path, ...]) -> bool:
        """Import what is at these paths, if that is not what it was; was it?"""
        # Before: what changes meanwhile is imported the next time.
        digest = WatchedFiles(folders=paths).digest()
        if digest == self._digest:
            return False
        imports = registry_with(paths, self._parent)
        for failure in imports.failures:
            _log.error("a module of python_path cannot be imported: %s", failure)
        self.registry, self.paths, self._digest = imports.registry, paths, digest
        return True
