"""Features of the processor that decide in which precision models are computed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

_CPU_INFO: Final = Path("/proc/cpuinfo")


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
