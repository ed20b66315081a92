"""A report that is printed line by line, and kept in a file when it is complete."""

from __future__ import annotations

from pathlib import Path


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
