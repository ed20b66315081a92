"""Names of OpenVINO's devices, checked without loading any plugin."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from graph_runtime.errors import did_you_mean

#: Devices, and names for several of them. Only OpenVINO knows which are in this machine.
_KNOWN: Final = ("CPU", "GPU", "NPU", "AUTO", "MULTI", "HETERO", "BATCH", "NVIDIA", "TEMPLATE")
#: ``GPU.1``, ``-GPU`` (not this one), ``CPU(4)`` (so many requests).
_NAME: Final = re.compile(r"-?([^.()]+)(?:\.[^()]+)?(?:\(\d+\))?\Z")


def device_problem(device: str) -> str:
    """The error in a device such as ``AUTO:GPU.1,CPU``; "" if its name shows none."""
    head, _, rest = device.partition(":")
    for part in (head, *(rest.split(",") if rest else ())):
        match = _NAME.match(part.strip())
        if match is None or match[1] not in _KNOWN:
            near = did_you_mean(part.strip(), _KNOWN)
            return (
                f'"{part.strip()}" is no device of OpenVINO: they are {", ".join(_KNOWN[:7])}, '
                f"one of several GPU.1, and combinations such as AUTO:GPU,CPU.{near}"
            )
    return ""


def has_no_accelerator() -> bool:
    """Return whether OpenVINO can find no device but the CPU here; False where that is unknown."""
    if sys.platform != "linux":
        return False
    # Devices of Linux's graphics and accelerators, of WSL and of NVIDIA's driver.
    patterns = ("dri/renderD*", "accel/accel*", "dxg", "nvidia[0-9]*")
    return not any(True for each in patterns for _ in Path("/dev").glob(each))
