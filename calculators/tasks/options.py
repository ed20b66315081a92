"""Options of ``graphrt serve --task`` that several tasks have."""

from __future__ import annotations

from typing import Final

from calculators.tasks.task import OptionKind, TaskOption

TARGET_DEVICE: Final = TaskOption(
    "target_device", OptionKind.TEXT, "DEVICE", "CPU, GPU, ...; default a GPU if there is one"
)
PLUGIN_CONFIG: Final = TaskOption(
    "plugin_config", OptionKind.TEXT, "JSON", "OpenVINO properties, as a JSON object"
)
