"""Installed packages, and their entry points, which are read once."""

from __future__ import annotations

import sys
from functools import lru_cache
from importlib.metadata import EntryPoints, entry_points
from importlib.util import find_spec
from typing import Any


def is_installed(package: str) -> bool:
    """Return whether a package can be imported. Imports nothing."""
    try:
        return find_spec(package) is not None
    except ValueError:
        # It is being imported by another thread: OpenCV is replaced by its library meanwhile,
        # which has no specification yet.
        return True


def installed_points(group: str) -> EntryPoints:
    """Return the entry points of a group."""
    found: EntryPoints = _every(tuple(sys.path)).select(group=group)
    return found


@lru_cache(1)
def _every(path: tuple[str, ...]) -> Any:  # another type before Python 3.12
    # Each call of the standard library's function reads a file of every installed distribution,
    # and packages come only with a change of the path.
    return entry_points()
