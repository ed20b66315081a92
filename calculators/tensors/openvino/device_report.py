"""The message of the process that asks OpenVINO for its devices."""

from __future__ import annotations

import msgspec


class Device(msgspec.Struct, frozen=True):
    """A device as OpenVINO names it. ``capabilities``: its element types and other abilities."""

    name: str
    full_name: str
    capabilities: list[str]


class Devices(msgspec.Struct, frozen=True):
    """The only message of this process. ``failure``: OpenVINO's reason for having no list."""

    openvino: str = ""
    devices: list[Device] = []
    failure: str = ""
