"""The number of processors, and their features that decide in which precision models compute."""

from __future__ import annotations

import math
import os
from functools import cache
from pathlib import Path
from typing import Final

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
