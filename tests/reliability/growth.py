"""Growth of processes, from their memory every two seconds."""

from __future__ import annotations

import statistics
import threading
import time
from itertools import combinations
from typing import Final, Self

from tests.process.server_process import ServerProcess
from tests.reliability.held import memory_of, memory_of_children

_PERIOD: Final = 2.0
#: A process grows if its line rises by more than this many MiB a minute, and by this many in all.
MOST_SLOPE: Final = 1.0
MOST_RISE: Final = 2.0
#: And by this part of its swing, from its lowest tenth to its highest: a cache that is filled and
#: emptied a few times in a third of a line has medians that differ by chance.
SWING_PART: Final = 0.1
#: Fewer samples prove nothing.
_LEAST_LOOKS: Final = 10

Line = list[tuple[float, float]]


class MemoryLines:
    """Memory of a server and its children while the context is entered.

    Attributes:
        lines: by process, (seconds since the beginning, MiB).
    """

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self.lines: dict[str, Line] = {}
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look_on(self) -> None:
        begin = time.monotonic()
        while not self._is_over.wait(_PERIOD):
            sizes = {
                "the server": memory_of(self._server.pid),
                # By process: one may take the place of another.
                **memory_of_children(self._server, by_id=True),
            }
            for name, size in sizes.items():
                self.lines.setdefault(name, []).append((time.monotonic() - begin, size))


def rise(line: Line) -> tuple[float, float]:
    """Return the slope in MiB a minute, and the rise from the first third to the last, in MiB.

    The slope is the median of the slopes of all pairs of samples (Theil and Sen). The rise is that
    of the medians or of the lowest tenths, whichever is smaller: a moment with a large batch, or
    one step, is not growth, nor is a cache that fills and is emptied at least once in each third.
    A leak raises the memory of the emptied cache too.
    """
    slopes = [(b - a) / (then - now) for (now, a), (then, b) in combinations(line, 2)]
    third = max(1, len(line) // 3)
    first = sorted(size for _, size in line[:third])
    last = sorted(size for _, size in line[-third:])
    low = third // 10
    return (
        60.0 * statistics.median(slopes),
        min(statistics.median(last) - statistics.median(first), last[low] - first[low]),
    )


def _swing(line: Line) -> float:
    sizes = sorted(size for _, size in line)
    tenth = len(sizes) // 10
    return sizes[-1 - tenth] - sizes[tenth]


def growing(lines: dict[str, Line], since: float, most_slope: float = MOST_SLOPE) -> list[str]:
    """Return the processes that grow after ``skip`` seconds, in words."""
    found: list[str] = []
    for name, line in lines.items():
        late = [(at, size) for at, size in line if at >= since]
        if len(late) < _LEAST_LOOKS:
            continue
        slope, higher = rise(late)
        if slope > most_slope and higher > max(MOST_RISE, SWING_PART * _swing(late)):
            found.append(
                f"{name} grows: {slope:.1f} MiB a minute from second {since:.0f} on, "
                f"{late[0][1]:g} MiB, then {late[-1][1]:g} MiB"
            )
    return found


def table(lines: dict[str, Line], since: float) -> str:
    """Return a row for each process."""
    rows = [f"{'MiB':40} {'first':>8} {'then':>8} {'last':>8} {'most':>8}   a minute from then on"]
    for name, line in lines.items():
        late = [(at, size) for at, size in line if at >= since]
        if len(late) < _LEAST_LOOKS:
            continue
        sizes = f"{line[0][1]:8.1f} {late[0][1]:8.1f} {late[-1][1]:8.1f}"
        most = max(size for _, size in line)
        rows.append(f"{name:40} {sizes} {most:8.1f}   {rise(late)[0]:+.2f}")
    return "\n".join(rows)
