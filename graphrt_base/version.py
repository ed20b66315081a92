"""The version of graphrt."""

from __future__ import annotations

from functools import cache


@cache
def version() -> str:
    """Return the installed version; "unknown" when graphrt runs without being installed.

    The first call reads files.
    """
    from importlib.metadata import PackageNotFoundError  # here: few programs ask for it
    from importlib.metadata import version as installed_version

    try:
        return installed_version("graphrt")
    except PackageNotFoundError:
        return "unknown"
