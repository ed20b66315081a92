"""A line about the machine of a benchmark, without its name, and the file of the report."""

from __future__ import annotations

import argparse
import os
import platform
from datetime import UTC, datetime
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


def describe_machine(*, with_day: bool = True) -> str:
    """Describe processor, cores, interpreter and day."""
    day = f", {datetime.now(UTC):%Y-%m-%d}" if with_day else ""
    return (
        f"{_processor()}, {os.cpu_count()} cores, {platform.system()}, "
        f"{platform.python_implementation()} {platform.python_version()}{day}"
    )


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
