"""What Linux's control groups allow this process: a container's limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

#: Version 1 says "no limit" by a number near the largest one.
_NO_LIMIT: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class ControlGroups:
    """The narrowest limit on the way up from the process's own group; None without one."""

    memory_bytes: int | None = None
    cores: float | None = None

    @classmethod
    def of_this_process(
        cls, proc: Path = Path("/proc"), mounted: Path = Path("/sys/fs/cgroup")
    ) -> Self:
        """Read them; both versions of control groups may be there. Empty elsewhere than on Linux.

        Args:
            proc, mounted: where a test has its own.
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


def _upwards(mounted: Path, path: str) -> list[Path]:
    """The group's folder and those above it, as far as this container can see them."""
    folder = mounted / path.strip("/")
    return [folder, *(each for each in folder.parents if each.is_relative_to(mounted))]


def _numbers(path: Path) -> list[int]:
    """The numbers of a file; none where it is missing or begins with ``max``."""
    try:
        words = path.read_text(encoding="utf-8").split()
        return [] if words[:1] == ["max"] else [int(word) for word in words]
    except (OSError, ValueError):
        return []


def _quota(numbers: list[int]) -> list[float]:
    """Of a quota and its period, the number of cores."""
    if len(numbers) != 2 or numbers[0] <= 0 or numbers[1] <= 0:
        return []
    return [round(numbers[0] / numbers[1], 2)]
