"""Limits of Linux's control groups, such as a container's."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

#: Version 1 expresses "no limit" by a number near the largest one.
_NO_LIMIT: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class ControlGroups:
    """The lowest limits of the process's group and the groups above it; None: no limit."""

    memory_bytes: int | None = None
    cores: float | None = None

    @classmethod
    def of_this_process(
        cls, proc: Path = Path("/proc"), mounted: Path = Path("/sys/fs/cgroup")
    ) -> Self:
        """Read the limits, of both versions of control groups. Other systems than Linux have none.

        Args:
            proc, mounted: folders that tests replace.
        """
        try:
            lines = (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
        except OSError:
            return cls()
        memory: list[int] = []
        cores: list[float] = []
        for line in lines:
            _, controllers, path = line.split(":", 2)
            if not controllers:
                for folder in _upwards(mounted, path):
                    memory += _numbers(folder / "memory.max")[:1]
                    cores += _quota(_numbers(folder / "cpu.max"))
            elif "memory" in controllers.split(","):
                for folder in _upwards(mounted / "memory", path):
                    memory += _numbers(folder / "memory.limit_in_bytes")[:1]
            elif "cpu" in controllers.split(","):
                for folder in _upwards(mounted / "cpu", path):
                    quota = _numbers(folder / "cpu.cfs_quota_us")
                    cores += _quota(quota + _numbers(folder / "cpu.cfs_period_us"))
        memory = [limit for limit in memory if limit < _NO_LIMIT]
        return cls(min(memory, default=None), min(cores, default=None))


def usable_memory() -> int:
    """Return the bytes that this process may use, of the machine or of its container."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = ControlGroups.of_this_process().memory_bytes
    return machine if limit is None else min(machine, limit)


def _upwards(mounted: Path, path: str) -> list[Path]:
    """Return the group's folder and the folders above it, as far as this container sees them."""
    folder = mounted / path.strip("/")
    return [folder, *(each for each in folder.parents if each.is_relative_to(mounted))]


def _numbers(path: Path) -> list[int]:
    """Return the numbers of a file; [] if it is missing or begins with ``max``."""
    try:
        words = path.read_text(encoding="utf-8").split()
        return [] if words[:1] == ["max"] else [int(word) for word in words]
    except (OSError, ValueError):
        return []


def _quota(numbers: list[int]) -> list[float]:
    """Return the number of cores of a quota and its period, as a list; [] without a limit."""
    if len(numbers) != 2 or numbers[0] <= 0 or numbers[1] <= 0:
        return []
    return [round(numbers[0] / numbers[1], 2)]
