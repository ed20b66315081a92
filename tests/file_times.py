"""Seconds that each test file takes, and the first command that runs it.

``tests/file_times.txt`` has a line for each file: the seconds of its tests, one after another, its
tier (`tests.tiers`), and the first of the commands ``make quick``, ``make test`` and ``make full``
that runs it. ``make quick`` leaves out what takes `LONG_SECONDS`. ``make test`` runs the files that
reach the most lines for their time, until they and the quick ones reach `SHARE` of the lines that
all files of its tier reach. Workers begin with the programs that take longest. A file without a
line is among the first of them, and is run as its tier says.

    python -m tests.file_times [PATH ...]

measures and writes: without paths all files, which takes longer than `make full` and also chooses;
with paths only the times of these files.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.support.checkout import ROOT

#: The part of all lines that the files of `make test` reach.
SHARE: Final = 0.95
_FILE: Final = ROOT / "tests" / "file_times.txt"
LONG_SECONDS: Final = 10.0
#: Files that are quicker are run anyway: nothing would be saved.
_SHORT_SECONDS: Final = 0.5


@dataclass(frozen=True)
class FileTime:
    """A line of the file."""

    seconds: float
    #: What `tests.tiers` called its tier then, and the command that runs it.
    tier: str | None = None
    command: str = "quick"

    def line(self, name: str) -> str:
        return f"{self.seconds:7.2f} {self.tier:5} {self.command:5} {name}\n"


@functools.cache
def file_times() -> dict[str, FileTime]:
    """Return what is known of each test file, by its path from the root."""
    times: dict[str, FileTime] = {}
    for line in _FILE.read_text(encoding="utf-8").splitlines() if _FILE.is_file() else ():
        seconds, tier, command, name = line.split()
        times[name] = FileTime(float(seconds), tier, command)
    return times


def time_of(file: Path) -> FileTime:
    """Return what is known of a test file, or that it may take long."""
    name = file.relative_to(ROOT).as_posix() if file.is_relative_to(ROOT) else ""
    return file_times().get(name, FileTime(LONG_SECONDS))


class Stopwatch:
    """A plug-in that adds up the seconds of tests by file, and writes them at the end."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.partition("::")[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        self._output.write_text(json.dumps(self._seconds))


def first_commands(
    reached: Mapping[str, Set[tuple[str, int]]],
    seconds: Mapping[str, float],
    tiers: Mapping[str, str],
) -> dict[str, str]:
    """Return the first command that runs each file.

    Arguments:
        reached: The lines that each file reaches. Lines of the name "" are reached by imports.
        seconds: The time that each file takes.
        tiers: The tier of each file.
    """
    everything = set[tuple[str, int]]().union(*reached.values())
    seen = set(reached.get("", ()))
    files = {name: lines - seen for name, lines in reached.items() if name}
    commands = dict(tiers)
    for name, tier in tiers.items():
        if tier == "quick" and seconds[name] > LONG_SECONDS:
            commands[name] = "test"
    at_once = {
        name for name in files if commands[name] == "quick" or seconds[name] <= _SHORT_SECONDS
    }
    seen.update(*(files.pop(name) for name in at_once))
    while files and len(seen) < SHARE * len(everything):
        best = max(files, key=lambda name: len(files[name] - seen) / seconds[name])
        seen |= files.pop(best)
    commands.update(dict.fromkeys(files, "full"))
    print(f"{len(seen)} of {len(everything)} lines: {100 * len(seen) / len(everything):.1f} %")
    return commands


def lines_by_file(data_file: Path) -> dict[str, set[tuple[str, int]]]:
    # It takes a while to import, and only this command uses it.
    import coverage

    data = coverage.CoverageData(str(data_file))
    data.read()
    reached: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for module in data.measured_files():
        for line, contexts in data.contexts_by_lineno(module).items():
            for context in contexts:
                reached[context].add((module, line))
    return reached


def main() -> None:
    paths = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="graphrt-file-times-") as folder:
        output, data_file = Path(folder, "seconds.json"), Path(folder, "coverage")
        command = [
            *(sys.executable, "-m", "pytest", "--dist", "loadfile", "--numprocesses"),
            *(str(os.cpu_count() or 1), "--examples", "all", "--file-times", str(output)),
            *(() if paths else ("--cov", "--cov-report=", "--cov-fail-under=0")),
            *paths,
        ]
        # Failed tests have taken their time too, and pytest has printed them.
        subprocess.run(
            command, cwd=ROOT, env={**os.environ, "COVERAGE_FILE": str(data_file)}, check=False
        )
        seconds: dict[str, float] = json.loads(output.read_text())
        reached = {} if paths else lines_by_file(data_file)
    write(seconds, reached)


def write(seconds: Mapping[str, float], reached: Mapping[str, Set[tuple[str, int]]]) -> None:
    """Write what was measured, and of other files what was known.

    Arguments:
        seconds: The time of each file that was measured.
        reached: The lines that each file reaches; nothing to leave the choice as it was.
    """
    # It imports this module.
    from tests.tiers import Tier, tier_of_file

    before = file_times()
    times = {name: each for name, each in before.items() if (ROOT / name).is_file()}
    tiers = {name: tier_of_file(ROOT / name).label for name in seconds}
    commands = {
        name: max(tier, before[name].command, key=lambda each: Tier[each.upper()])
        if name in before
        else tier
        for name, tier in tiers.items()
    }
    if reached:
        commands = first_commands(reached, seconds, tiers)
    for name, each in seconds.items():
        times[name] = FileTime(each, tiers[name], commands[name])
    _FILE.write_text("".join(times[name].line(name) for name in sorted(times)), encoding="utf-8")


if __name__ == "__main__":
    main()
