"""Options of OpenVINO's devices: their names, checked without a plugin, and ``plugin_config``."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Final, TypeAlias

from calculators.kit.machine import has_slow_bfloat16
from graph_runtime import ResourceError
from graph_runtime.errors import did_you_mean

#: Devices, and names for several of them. Only OpenVINO knows which are in this machine.
_KNOWN: Final = ("CPU", "GPU", "NPU", "AUTO", "MULTI", "HETERO", "BATCH", "NVIDIA", "TEMPLATE")
#: ``GPU.1``, ``-GPU`` (not this one), ``CPU(4)`` (so many requests).
_NAME: Final = re.compile(r"-?([^.()]+)(?:\.[^()]+)?(?:\(\d+\))?\Z")


def device_problem(device: str) -> str:
    """Return the error in a device such as ``AUTO:GPU.1,CPU``; "" if its name shows none."""
    head, _, rest = device.partition(":")
    for part in (head, *(rest.split(",") if rest else ())):
        match = _NAME.match(part.strip())
        if match is None or match[1] not in _KNOWN:
            near = did_you_mean(part.strip(), _KNOWN)
            return (
                f'"{part.strip()}" is not a device of OpenVINO: they are {", ".join(_KNOWN[:7])}, '
                f"one of several GPU.1, and combinations such as AUTO:GPU,CPU.{near}"
            )
    return ""


#: The value of a property of OpenVINO.
Property: TypeAlias = str | bool | int | float
#: Properties by their names; ``DEVICE_PROPERTIES`` has further ones for each device.
Properties: TypeAlias = dict[str, Property | dict[str, dict[str, Property]]]


def read_device(target_device: str, plugin_config: str) -> tuple[str, Properties]:
    """Return a node's device, by default the CPU, and its properties for it.

    On a CPU whose bfloat16 is slow, models compute in float32 unless the properties say otherwise.

    Raises:
        ResourceError: ``target_device`` is none, or ``plugin_config`` is not as
            `read_json_properties` wants it.
    """
    device = target_device or "CPU"
    if problem := device_problem(device):
        raise ResourceError(f"target_device: {problem}")
    properties = read_json_properties(plugin_config)
    if device == "CPU" and has_slow_bfloat16():
        properties.setdefault("INFERENCE_PRECISION_HINT", "f32")
    return device, properties


def has_no_accelerator() -> bool:
    """Return whether OpenVINO can find no device but the CPU here; False where that is unknown."""
    if sys.platform != "linux":
        return False
    # Devices of Linux's graphics and accelerators, of WSL and of NVIDIA's driver.
    patterns = ("dri/renderD*", "accel/accel*", "dxg", "nvidia[0-9]*")
    return not any(True for each in patterns for _ in Path("/dev").glob(each))


def read_json_properties(text: str) -> Properties:
    """A JSON object of strings, numbers and booleans; "" is empty.

    ``DEVICE_PROPERTIES`` may hold an object per device. A number of streams becomes a string, as
    OpenVINO wants it.

    Raises:
        ResourceError: anything else.
    """
    if not text.strip():
        return {}
    try:
        config = json.loads(text)
        # Half of a surrogate pair, written as an escape, is JSON and no text.
        json.dumps(config, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise ResourceError(
            f'plugin_config: not JSON: {error}; write it as \'{{"KEY": "value"}}\''
        ) from None
    if not isinstance(config, dict):
        raise ResourceError("plugin_config: must be a JSON object of OpenVINO properties")
    for key, value in config.items():
        if key == "DEVICE_PROPERTIES" and isinstance(value, dict):
            is_fine = all(
                isinstance(properties, dict) and all(map(_is_property, properties.values()))
                for properties in value.values()
            )
        else:
            is_fine = _is_property(value)
        if not is_fine:
            raise ResourceError(
                f'plugin_config: the value of "{key}" must be a string, a number or a boolean'
            )
    if isinstance(config.get("NUM_STREAMS"), int):
        config["NUM_STREAMS"] = str(config["NUM_STREAMS"])
    return config


def _is_property(value: object) -> bool:
    """A value that OpenVINO takes: its numbers have 64 bits."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    return isinstance(value, str | float)
