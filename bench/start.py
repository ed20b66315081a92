"""The start of `graphrt serve` and `graphrt validate`, in turns with another checkout's.

    python -m bench.start NAME=PATH ... [--cached NAME=PATH ...] [--before DIR] [--starts 7]
                          [--write FILE]

PATH is a directory with a graph or a model, or a GGUF file; a start ends when it is loaded. Memory
is that of all processes then; a page of several processes, those of other servers too, counts in
parts (PSS). With ``--before``, a checkout of another commit, each start has one of that checkout
beside it, and the ratio is that of each such pair. Models of ``--cached`` start with a filled
``--cache_dir``. One start before is not counted. Medians with their limits at 95 %.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Final

from bench.machine import add_write, describe_machine, publish
from bench.start_time import ROOT, Start, environment, start
from calculators.llm.tuning.arena import median_interval

_CONFIG: Final = ROOT / "examples" / "config.json"
_MIB: Final = 1 << 20


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
        ("PSS", "MB", [[each.memory / _MIB for each in runs] for runs in taken]),
    ):
        if any(map(any, values)):
            ratios = [own / other for other, own in zip(values[0], values[-1], strict=True)]
            ratio = _shown(ratios, "") if len(checkouts) > 1 else ""
            cells = [f"{name}, {figure}", *(_shown(each, f" {unit}") for each in values), ratio]
            yield f"| {' | '.join(cells)} |"


def _shown(values: Sequence[float], unit: str) -> str:
    found = median_interval(values)
    digits = 0 if found.median > 20 else 2
    low, middle, high = (f"{each:.{digits}f}" for each in found)
    return f"{middle}{unit} ({low} to {high})"


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("models", nargs="*", metavar="NAME=PATH")
    parser.add_argument("--cached", metavar="NAME=PATH", nargs="+", default=[])
    parser.add_argument("--before", metavar="DIR", type=Path, help="another checkout")
    parser.add_argument("--starts", type=int, default=7)
    add_write(parser)
    arguments = parser.parse_args(words)
    checkouts = [*([] if arguments.before is None else [arguments.before.absolute()]), ROOT]
    begin = os.getloadavg()[0]
    table: list[str] = []
    with tempfile.TemporaryDirectory() as cache:
        for each in (*arguments.models, *arguments.cached):
            name, _, path = each.partition("=")
            place = Path(path).absolute()
            flags = ("--cache_dir", cache) if each in arguments.cached else ()

            def run(checkout: Path, place: Path = place, flags: tuple[str, ...] = flags) -> Start:
                return start(place, *flags, checkout=checkout)

            shown = f"{name}, its second start" if flags else name
            table += rows(shown, run, checkouts, arguments.starts)
    table += rows("`graphrt validate`", validate, checkouts, arguments.starts)
    headings = ["", *(["before"] if len(checkouts) > 1 else []), "now", "now / before"]
    load = f"{begin:.1f} to {os.getloadavg()[0]:.1f}"
    text = "\n".join(
        [
            "# Starts",
            "",
            f"`python -m bench.start` on {describe_machine()}; {arguments.starts} starts of each, "
            "in turns; medians with their limits at 95 %. Load of the machine before and after: "
            f"{load}{_remark(begin)}.",
            "",
            f"| {' | '.join(headings)} |",
            f"|{'---|' * len(headings)}",
            *table,
        ]
    )
    publish(text, arguments.write)


def _remark(load: float) -> str:
    busy = max(load, os.getloadavg()[0]) > (os.cpu_count() or 1)
    return ", so it was shared: only ratios and CPU seconds mean much" if busy else ""


if __name__ == "__main__":
    main()
