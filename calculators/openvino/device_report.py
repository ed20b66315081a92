"""What the process that asks OpenVINO for its devices says."""

from __future__ import annotations

import msgspec


class Device(msgspec.Struct, frozen=True):
    """A device as OpenVINO names it. ``capabilities``: its types and what else it says it can."""

    name: str
    full_name: str
    capabilities: list[str]


class Devices(msgspec.Struct, frozen=True):
    """The one message of this process. ``failure``: why there is no answer, in OpenVINO's words."""

    openvino: str = ""
    devices: list[Device] = []
    failure: str = ""
