"""What the server calls itself."""

from __future__ import annotations

from functools import cache
from importlib import metadata
from typing import Final

NAME: Final = "graphrt"


@cache
def version() -> str:
    """The installed version; "unknown" when graphrt runs without being installed."""
    try:
        return metadata.version(NAME)
    except metadata.PackageNotFoundError:
        return "unknown"
