"""Packages of tests that look installed, for what is found by entry points."""

from __future__ import annotations

from pathlib import Path


def install(folder: Path, name: str, entry_points: str) -> None:
    """Make ``folder``, once it is on the path, hold an installed package.

    ``entry_points`` is the text of its entry_points.txt; its modules are the caller's to write.
    """
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)
