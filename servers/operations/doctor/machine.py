"""Processor and memory, and this process's limits."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final

from calculators.kit.machine import ControlGroups, affinity_processors
from servers.operations.doctor.section import Section

#: Instruction sets for which OpenVINO has kernels.
_FLAGS: Final = (
    *("sse4_2", "avx", "avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni"),
    *("avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16", "asimd", "sve"),
)
_MIB: Final = 1024 * 1024
#: Each client takes a descriptor, and each graph some.
_FEW_DESCRIPTORS: Final = 4096
#: The demo model and its processes take about half of it.
_LITTLE_MEMORY: Final = 2048


def machine(proc: Path = Path("/proc"), groups: ControlGroups | None = None) -> Section:
    """Describe the machine, and the share of it that this process may use.

    Args:
        proc, groups: values that tests replace.
    """
    section = Section("machine")
    facts = section.facts
    facts["processor"], flags = processor(proc)
    facts["instructions"] = [flag for flag in _FLAGS if flag in flags]
    if flags and platform.machine() == "x86_64" and "avx2" not in flags:
        section.warn("the processor has no AVX2: models run slowly")
    facts["cores"] = os.cpu_count()
    usable = affinity_processors()
    facts["cores of this process"] = usable
    groups = groups if groups is not None else ControlGroups.of_this_process(proc)
    if groups.cores is not None:
        facts["cores by control group"] = groups.cores
        if groups.cores < usable:
            section.warn(
                f"the control group allows {groups.cores:g} cores, and {usable} are seen: too many "
                f"threads compute and wait for each other",
                "give it whole cores (a cpuset), or set INFERENCE_NUM_THREADS in plugin_config",
            )
    _add_memory(section, proc, groups.memory_bytes)
    _add_limits(section)
    return section


def processor(proc: Path = Path("/proc")) -> tuple[str, frozenset[str]]:
    """Return the processor's name and flags."""
    name, flags = platform.machine(), frozenset[str]()
    for key, value in _pairs(proc / "cpuinfo"):
        if key == "model name":
            name = value
        elif key in ("flags", "Features"):
            flags = frozenset(value.split())
            break
    return name, flags


def _add_memory(section: Section, proc: Path, limit: int | None) -> None:
    meminfo = {key: int(value.split()[0]) // 1024 for key, value in _pairs(proc / "meminfo")}
    facts = section.facts
    facts["memory, MiB"] = total = meminfo.get("MemTotal")
    facts["memory available, MiB"] = meminfo.get("MemAvailable")
    facts["swap, MiB"] = meminfo.get("SwapTotal")
    if limit is not None:
        facts["memory by control group, MiB"] = limit // _MIB
        total = min(total or limit // _MIB, limit // _MIB)
    if total is not None and total < _LITTLE_MEMORY:
        section.warn(
            f"{total} MiB of memory: a language model, its processes and its cache hardly fit",
            "give it more, or set cache_size in the node's options",
        )


def _add_limits(section: Section) -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    for name, number in (
        ("descriptors", resource.RLIMIT_NOFILE),
        ("processes", resource.RLIMIT_NPROC),
        ("address space", resource.RLIMIT_AS),
        ("size of a file", resource.RLIMIT_FSIZE),
        ("core files", resource.RLIMIT_CORE),
    ):
        soft, hard = (_shown(value, resource.RLIM_INFINITY) for value in resource.getrlimit(number))
        section.facts[f"limit: {name}"] = soft if soft == hard else f"{soft} (at most {hard})"
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if descriptors != resource.RLIM_INFINITY and descriptors < _FEW_DESCRIPTORS:
        section.warn(
            f"{descriptors} descriptors: about so many clients can be connected at most",
            "ulimit -n 65536, or LimitNOFILE=65536 in the unit of systemd",
        )


def _shown(value: int, unlimited: int) -> str:
    return "unlimited" if value == unlimited else str(value)


def _pairs(path: Path) -> list[tuple[str, str]]:
    """Return name and value of each line ``name : value``."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    parts = (line.partition(":") for line in lines)
    return [(key.strip(), value.strip()) for key, colon, value in parts if colon and value.strip()]
