"""The start of `graphrt serve` and `graphrt validate`, in turns with another checkout's.

    python -m bench.start NAME=PATH ... [--cached NAME=PATH ...] [--before DIR] [--starts 7]
                          [--write FILE]
    python -m bench.start --caches NAME=PATH ... [--starts 7] [--write FILE]

PATH is a directory with a graph or a model, or a GGUF file; a start ends when it is loaded. Memory
is that of all processes then; a page of several processes, those of other servers too, counts in
parts (PSS). CPU seconds are those of the server and all of its processes, also of those that have
ended. With ``--before``, a checkout of another commit, each start has one of that checkout beside
it, and the ratio is that of each such pair. Models of ``--cached`` start with a filled
``--cache_dir``. One start before is not counted. Medians with their limits at 95 %.

``--caches`` compares starts without a cache, with one that is filled, and with a full one.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from time import monotonic
from typing import Final, NamedTuple

from bench.machine import (
    MIB,
    ROOT,
    describe_machine,
    family_bytes,
    family_seconds,
    head,
    publish,
    report_parser,
    row,
)
from calculators.llm.tuning.arena import median_interval

_CONFIG: Final = ROOT / "examples" / "config.json"


class Start(NamedTuple):
    """One start: seconds of processor time and of time, and the bytes of all processes (PSS)."""

    cpu: float
    wall: float
    memory: int = 0


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
    begin = monotonic()
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
        if "try:" in line:
            break
    wall = monotonic() - begin
    if process.poll() is not None:
        raise RuntimeError(f"the server did not start:\n{''.join(said)}")
    # Processes that have ended, such as a conversion, are in the server's account of children.
    cpu = family_seconds(process.pid) + _ended_children(process.pid)
    memory = family_bytes(process.pid)
    process.terminate()
    process.communicate()
    return Start(cpu, wall, memory)


def _ended_children(pid: int) -> float:
    """Return the CPU seconds of a process's children that have ended."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(stat[13]) + int(stat[14])) / os.sysconf("SC_CLK_TCK")


def validate(checkout: Path) -> Start:
    """Check the example's config.json once, in a process of a checkout."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = monotonic()
    subprocess.run(
        [sys.executable, "-m", "servers.cli", "validate", str(_CONFIG)],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=checkout,
        env=environment(checkout),
    )
    wall = monotonic() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Start(cpu, wall)


def rows(
    name: str, run: Callable[[Path], Start], checkouts: Sequence[Path], starts: int
) -> Iterator[str]:
    """Measure the checkouts in turns, the present one last; yield a row of each figure."""
    for each in checkouts:
        run(each)  # compiles the sources, and fills the caches
    taken: list[list[Start]] = [[] for _ in checkouts]
    for turn in range(starts):
        places = list(range(len(checkouts)))
        for place in places if turn % 2 else reversed(places):
            taken[place].append(run(checkouts[place]))
    for figure, unit, values in (
        ("wall", "s", [[each.wall for each in runs] for runs in taken]),
        ("CPU", "s", [[each.cpu for each in runs] for runs in taken]),
        ("PSS", "MB", [[each.memory / MIB for each in runs] for runs in taken]),
    ):
        if any(map(any, values)):
            ratios = [own / other for other, own in zip(values[0], values[-1], strict=True)]
            ratio = _shown(ratios, "") if len(checkouts) > 1 else ""
            cells = (_shown(each, f" {unit}") for each in values)
            yield row(f"{name}, {figure}", *cells, ratio)


def _shown(values: Sequence[float], unit: str) -> str:
    found = median_interval(values)
    digits = 0 if found.median > 20 else 2
    low, middle, high = (f"{each:.{digits}f}" for each in found)
    return f"{middle}{unit} ({low} to {high})"


def caches(models: Sequence[str], starts: int) -> Iterator[str]:
    """Yield the report on starts without a cache, filling one, and with one."""
    rows = []
    loads = [os.getloadavg()[0]]
    for each in models:
        name, _, path = each.partition("=")
        without, first, later = [], [], []
        for _ in range(starts):
            with tempfile.TemporaryDirectory() as cache:
                without.append(start(Path(path)))
                first.append(start(Path(path), "--cache_dir", cache))
                later.append(start(Path(path), "--cache_dir", cache))
        cells = (
            f"{median(run.cpu for run in runs):.1f} CPU s, {median(run.wall for run in runs):.1f} s"
            for runs in (without, first, later)
        )
        rows.append(row(name, *cells))
        loads.append(os.getloadavg()[0])
    yield "# The start of a server"
    yield ""
    yield f"`python -m bench.start --caches` on {describe_machine()}."
    yield (
        f"From the start of `graphrt serve` until every model is loaded; medians of {starts} "
        "starts. CPU seconds are those of all processes of the server. Load of the machine "
        f"meanwhile: {min(loads):.1f} to {max(loads):.1f}{_remark(max(loads))}."
    )
    yield ""
    yield from head("", "without a cache", "first start with `--cache_dir`", "later starts")
    yield from rows


def in_turns(
    models: Sequence[str], cached: Sequence[str], checkouts: Sequence[Path], starts: int
) -> Iterator[str]:
    """Yield the report on starts of checkouts, the present one last."""
    begin = os.getloadavg()[0]
    table: list[str] = []
    with tempfile.TemporaryDirectory() as cache:
        for each in (*models, *cached):
            name, _, path = each.partition("=")
            place = Path(path).absolute()
            flags = ("--cache_dir", cache) if each in cached else ()

            def run(checkout: Path, place: Path = place, flags: tuple[str, ...] = flags) -> Start:
                return start(place, *flags, checkout=checkout)

            shown = f"{name}, its second start" if flags else name
            table += rows(shown, run, checkouts, starts)
    table += rows("`graphrt validate`", validate, checkouts, starts)
    yield "# Starts"
    yield ""
    yield (
        f"`python -m bench.start` on {describe_machine()}; {starts} starts of each, "
        "in turns; medians with their limits at 95 %. Load of the machine before and after: "
        f"{begin:.1f} to {os.getloadavg()[0]:.1f}{_remark(begin)}."
    )
    yield ""
    yield from head("", *(["before"] if len(checkouts) > 1 else []), "now", "now / before")
    yield from table


def _remark(load: float) -> str:
    busy = max(load, os.getloadavg()[0]) > (os.cpu_count() or 1)
    return ", so it was shared: only ratios and CPU seconds mean much" if busy else ""


def main() -> None:
    parser = report_parser(__doc__)
    parser.add_argument("models", nargs="*", metavar="NAME=PATH")
    parser.add_argument("--cached", metavar="NAME=PATH", nargs="+", default=[])
    parser.add_argument("--before", metavar="DIR", type=Path, help="another checkout")
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--caches", action="store_true", help="what a cache brings")
    given = parser.parse_args()
    if given.caches:
        publish(caches(given.models, given.starts), given.write)
        return
    checkouts = [*([] if given.before is None else [given.before.absolute()]), ROOT]
    publish(in_turns(given.models, given.cached, checkouts, given.starts), given.write)


if __name__ == "__main__":
    main()
