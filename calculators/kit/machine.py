"""The machine: processors that may be used, their features, and limits of control groups."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Self

_CPU_INFO: Final = Path("/proc/cpuinfo")
#: The quota of this process's container, in version 2 of control groups.
_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")


@cache
def cpu_flags(file: Path = _CPU_INFO) -> frozenset[str]:
    """Return the processor's flags as Linux names them; empty on other systems."""
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()


def has_slow_bfloat16(flags: frozenset[str] | None = None) -> bool:
    """Return whether OpenVINO computes in bfloat16 here by default, but without AMX.

    Its CPU plug-in uses bfloat16 wherever the processor has instructions for it. Without AMX
    float32 was 5 to 8 % faster (SmolLM2-135M on an AMD EPYC, openvino 2026.4), and it is exact.
    """
    flags = cpu_flags() if flags is None else flags
    return "avx512_bf16" in flags and "amx_bf16" not in flags


def usable_processors() -> int:
    """Return how many processors this process may compute on at once, at least 1.

    A container's quota is less than the number of processors on which its threads run in turn.
    """
    count = affinity_processors()
    try:
        # With more threads than its quota, a container stops all threads of a step for the rest of
        # each period.
        quota, period = _QUOTA.read_text(encoding="ascii").split()[:2]
        count = min(count, math.ceil(int(quota) / int(period)))
    except (OSError, ValueError):
        pass  # another system, or "max": no quota
    return max(count, 1)


def affinity_processors() -> int:
    """Return the number of processors on which threads of this process may run."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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


def available_memory(
    proc: Path = Path("/proc"), mounted: Path = Path("/sys/fs/cgroup")
) -> int | None:
    """Return the bytes that are free now, in the machine and in its container; None if unknown.

    Files in memory count as free as far as they have not been used lately.
    """
    free: list[int] = []
    try:
        machine = _counted(proc / "meminfo", "MemAvailable:") * 1024
        free += [machine] if machine else []
        lines = (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError, IndexError):
        lines = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            names = ("memory.max", "memory.current", "inactive_file ")
            folders = _upwards(mounted, path)
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ")
            folders = _upwards(mounted / "memory", path)
        else:
            continue
        for folder in folders:
            limit, used = _numbers(folder / names[0])[:1], _numbers(folder / names[1])[:1]
            if limit and used and limit[0] < _NO_LIMIT:
                free.append(limit[0] - used[0] + _counted(folder / "memory.stat", names[2]))
    return min(free, default=None)


def _counted(path: Path, name: str) -> int:
    """Return a number of a file of names and numbers; 0 if it has none."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith(name)), 0)
    except (OSError, ValueError, IndexError):
        return 0


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
