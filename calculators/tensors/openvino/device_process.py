"""``python -m calculators.tensors.openvino.device_process DESCRIPTOR PARENT``: list OpenVINO's
devices.

Runs in a process of its own, because a broken driver crashes or hangs when it is queried.
"""

from __future__ import annotations

import contextlib
import sys

import msgspec

from calculators.kit.child_process.parent_connection import (
    ParentConnection,
    ParentGone,
    die_with_parent,
)
from calculators.tensors.openvino.device_report import Device, Devices


def devices() -> Devices:
    """Return OpenVINO's devices, or the reason why they cannot be listed. Raises nothing."""
    try:
        import openvino as ov

        core = ov.Core()
        found = [
            Device(
                name,
                str(core.get_property(name, "FULL_DEVICE_NAME")),
                [str(each) for each in core.get_property(name, "OPTIMIZATION_CAPABILITIES")],
            )
            for name in core.available_devices
        ]
        return Devices(str(ov.get_version()), found)
    except Exception as error:
        text = " ".join(str(error).split())
        return Devices(failure=f"{type(error).__name__}: {text[:500]}")


def main() -> None:
    descriptor, parent = map(int, sys.argv[1:3])
    connection = ParentConnection(descriptor)
    with contextlib.suppress(ParentGone):
        die_with_parent(parent)
        connection.send(msgspec.msgpack.encode(devices()))


if __name__ == "__main__":
    main()
