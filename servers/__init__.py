"""The server of graphs and models, and the command line."""

from functools import cache
from typing import Final

#: The name in user agents, metadata and documents.
NAME: Final = "graphrt"


@cache
def version() -> str:
    """Return the installed version; "unknown" when graphrt runs without being installed."""
    from importlib.metadata import PackageNotFoundError  # here: few programs ask for it
    from importlib.metadata import version as installed_version

    try:
        return installed_version(NAME)
    except PackageNotFoundError:
        return "unknown"
