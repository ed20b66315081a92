"""Reports that are printed, and kept in a file: as a whole, or line by line."""

from __future__ import annotations

import argparse
from pathlib import Path


def add_write(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--write FILE``, for `publish`."""
    parser.add_argument("--write", metavar="FILE", type=Path, help="write the tables to a file")


def publish(text: str, file: Path | None) -> None:
    """Print a report, and write it to a file if one is given."""
    print(text.rstrip("\n"))
    if file is not None:
        file.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


class WrittenReport:
    """Prints each line at once; `keep` writes all of them.

    Called with a line, so that it can be passed on as a function.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []

    def __call__(self, line: str) -> None:
        print(line, flush=True)
        self._lines.append(line)

    def keep(self, file: Path | None) -> None:
        """Write the lines to a file; without one they have only been printed."""
        if file is not None:
            file.write_text("\n".join(self._lines) + "\n", encoding="utf-8")
