"""The time that `graphrt serve` takes to start, without a cache, filling one, and with one.

    python -m bench.start_time NAME=PATH ... [--starts N] [--report FILE]

PATH is a directory with a graph or a model, or a GGUF file. Each start ends when every model is
loaded. CPU seconds are those of the server and all of its processes, also of those that have ended.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench.machine import children, cpu_seconds, describe_machine, proportional_bytes

ROOT: Final = Path(__file__).parents[1]
_SERVED: Final = "try:"
_HEAD: Final = """\
# The start of a server

`python -m bench.start_time` on {machine}.
From the start of `graphrt serve` until every model is loaded; medians of {starts} starts. CPU
seconds are those of all processes of the server. Load of the machine meanwhile: {load}{remark}.

| | without a cache | first start with `--cache_dir` | later starts |
|---|---|---|---|
"""


class Start(NamedTuple):
    """One start: seconds of processor time and of time, and the bytes of all processes (PSS)."""

    cpu: float
    wall: float
    memory: int = 0


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, prog="python -m bench.start_time")
    parser.add_argument("models", nargs="+", metavar="NAME=PATH")
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--report", type=Path)
    arguments = parser.parse_args(words)
    rows = []
    loads = [os.getloadavg()[0]]
    for each in arguments.models:
        name, _, path = each.partition("=")
        rows.append(_row(name, Path(path), arguments.starts))
        print(rows[-1], flush=True)
        loads.append(os.getloadavg()[0])
    load = f"{min(loads):.1f} to {max(loads):.1f}"
    is_busy = max(loads) > (os.cpu_count() or 1)
    remark = ", more than its cores: compare CPU seconds, and no other times" if is_busy else ""
    head = _HEAD.format(
        machine=describe_machine(), starts=arguments.starts, load=load, remark=remark
    )
    text = head + "\n".join(rows) + "\n"
    if arguments.report is not None:
        arguments.report.write_text(text, encoding="utf-8")


def _row(name: str, path: Path, starts: int) -> str:
    without, first, later = [], [], []
    for _ in range(starts):
        with tempfile.TemporaryDirectory() as cache:
            without.append(start(path))
            first.append(start(path, "--cache_dir", cache))
            later.append(start(path, "--cache_dir", cache))
    return f"| {name} | {' | '.join(map(_shown, (without, first, later)))} |"


def _shown(starts: list[Start]) -> str:
    cpu, wall = median(each.cpu for each in starts), median(each.wall for each in starts)
    return f"{cpu:.1f} CPU s, {wall:.1f} s"


def environment(checkout: Path) -> dict[str, str]:
    """Return the variables of a process that runs a checkout, with bytecode as installed."""
    variables = {**os.environ, "PYTHONPATH": str(checkout)}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return variables


def start(path: Path, *arguments: str, checkout: Path = ROOT) -> Start:
    """Start a server of a checkout, wait until it has loaded its models, and stop it.

    Raises:
        RuntimeError: it ended before.
    """
    begin = time.monotonic()
    what = ["--model_name", path.stem, "--model_path"] if path.is_file() else []
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "servers.cli", "serve", *what, str(path.absolute())),
            *("--rest_port", "auto", "--log_level", "WARNING", *arguments),
        ],
        stderr=subprocess.PIPE,
        text=True,
        cwd=checkout,
        env=environment(checkout),
    )
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if _SERVED in line:
            break
    wall = time.monotonic() - begin
    if process.poll() is not None:
        raise RuntimeError(f"the server did not start:\n{''.join(said)}")
    # Processes that have ended, such as a conversion, are in the server's account of children.
    running = [process.pid, *children(process.pid)]
    cpu = sum(map(cpu_seconds, running)) + _ended_children(process.pid)
    memory = sum(map(proportional_bytes, running))
    process.terminate()
    process.communicate()
    return Start(cpu, wall, memory)


def _ended_children(pid: int) -> float:
    """Return the CPU seconds of a process's children that have ended."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(stat[13]) + int(stat[14])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
