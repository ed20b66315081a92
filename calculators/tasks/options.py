"""Options of ``graphrt serve --task`` that several tasks have: theirs inherit from these."""

from __future__ import annotations

from dataclasses import dataclass

from calculators.settings.declaration import option
from calculators.settings.groups import TASK


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOptions:
    """The options of a task that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """The device that computes; "" leaves a choice to OpenVINO."""

    target_device: str = option(
        "",
        "CPU, GPU, ...; default a GPU if there is one",
        group=TASK,
        metavar="DEVICE",
        config_key="{flag}",
    )
    plugin_config: str = option(
        "",
        "OpenVINO properties, as a JSON object",
        group=TASK,
        metavar="JSON",
        config_key="{flag}",
    )
