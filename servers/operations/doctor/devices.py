"""OpenVINO's devices, listed by a separate process."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from calculators.kit.child_process.child_process import ChildProcess
from calculators.kit.child_process.framing import Frame
from calculators.tensors.openvino.device_report import Devices
from servers.operations.doctor.section import Section

MODULE: Final = "calculators.tensors.openvino.device_process"
#: The libraries of a slow disk take long to load.
SECONDS: Final = 60.0

_HINT: Final = "a driver or OpenVINO itself is broken: try without the device, or install it anew"


def devices(module: str = MODULE, seconds: float = SECONDS) -> Section:
    """Start OpenVINO in a process and list its devices. A crash or a time-out is reported.

    Args:
        module, seconds: values that tests replace.
    """
    section = Section("devices")
    found, end = asyncio.run(_ask(module, seconds))
    if found is None:
        section.error(f"OpenVINO could not be asked for its devices: {end}", _HINT)
    elif found.failure:
        section.error(f"OpenVINO does not start: {found.failure}", _HINT)
    else:
        section.facts["OpenVINO"] = found.openvino
        for device in found.devices:
            capabilities = ", ".join(device.capabilities)
            section.facts[device.name] = f"{device.full_name}; {capabilities}"
        if not found.devices:
            section.error("OpenVINO has no device, not even CPU", _HINT)
    return section


async def _ask(module: str, seconds: float) -> tuple[Devices | None, str]:
    """Return the process's message, None if there is none, and how it ended."""
    frames: list[Frame] = []
    ended: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    child = ChildProcess(frames.append, ended.set_result)
    try:
        await child.start(module)
    except OSError as error:
        return None, f"no process could be started: {error.strerror}"
    try:
        end = await asyncio.wait_for(asyncio.shield(ended), seconds)
    except TimeoutError:
        child.kill(f"it has not answered for {seconds:g} s")
        end = await ended
    try:
        return (msgspec.msgpack.decode(frames[0], type=Devices) if frames else None), end
    except msgspec.MsgspecError as error:
        return None, f"it sent what is no answer: {error}"
