"""Does a process go on growing? From its memory, looked at every two seconds."""

from __future__ import annotations

import statistics
import threading
import time
from itertools import combinations
from types import TracebackType
from typing import Final, Self

from tests.process.server_process import ServerProcess
from tests.reliability.held import memory_of, memory_of_children

_PERIOD: Final = 2.0
#: A process grows when its line rises by more than so many MiB a minute, and by so many in all.
MOST_SLOPE: Final = 1.0
MOST_RISE: Final = 2.0
#: Fewer looks say nothing.
_LEAST_LOOKS: Final = 10

Line = list[tuple[float, float]]


class MemoryLines:
    """The memory of a server and its children from entering to leaving.

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _look_on(self) -> None:
        begin = time.monotonic()
        while not self._is_over.wait(_PERIOD):
            sizes = {
                "the server": memory_of(self._server.pid),
                **memory_of_children(self._server),
            }
            for name, size in sizes.items():
                self.lines.setdefault(name, []).append((time.monotonic() - begin, size))


def rise(line: Line) -> tuple[float, float]:
    """The slope in MiB a minute, and how much the last third lies above the first, in MiB.

    The slope is the median of those of all pairs of looks (Theil and Sen), and the rise is one of
    medians: a moment with a large batch, or one step, is no growth.
    """
    slopes = [(b - a) / (then - now) for (now, a), (then, b) in combinations(line, 2)]
    third = max(1, len(line) // 3)
    first, last = line[:third], line[-third:]
    return (
        60.0 * statistics.median(slopes),
        statistics.median(size for _, size in last) - statistics.median(size for _, size in first),
    )


def growing(lines: dict[str, Line], since: float, most_slope: float = MOST_SLOPE) -> list[str]:
    """The processes that grow after so many seconds, in words."""
    found: list[str] = []
    for name, line in lines.items():
        late = [(at, size) for at, size in line if at >= since]
        if len(late) < _LEAST_LOOKS:
            continue
        slope, higher = rise(late)
        if slope > most_slope and higher > MOST_RISE:
            found.append(
                f"{name} grows: {slope:.1f} MiB a minute from second {since:.0f} on, "
                f"{late[0][1]:g} MiB, then {late[-1][1]:g} MiB"
            )
    return found


def table(lines: dict[str, Line], since: float) -> str:
    """A row for each process."""
    rows = [f"{'MiB':24} {'first':>8} {'then':>8} {'last':>8} {'most':>8}   a minute from then on"]
    for name, line in lines.items():
        late = [(at, size) for at, size in line if at >= since]
        if len(late) < _LEAST_LOOKS:
            continue
        sizes = f"{line[0][1]:8.1f} {late[0][1]:8.1f} {late[-1][1]:8.1f}"
        most = max(size for _, size in line)
        rows.append(f"{name:24} {sizes} {most:8.1f}   {rise(late)[0]:+.2f}")
    return "\n".join(rows)
