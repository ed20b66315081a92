"""The settings that families of calculators declare, by name: loaded when they are read."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

#: Module and class of each; see `calculators.kit.settings.declaration`.
_DECLARED: Final = (
    ("calculators.images.image_generation.image_settings", "ImageSettings"),
    ("calculators.llm.task_options", "LlmSettings"),
    ("calculators.images.media.media_rules", "MediaRules"),
)


def settings_of_families() -> tuple[type[Any], ...]:
    """Return the dataclasses, in the order of the help."""
    return tuple(getattr(import_module(module), name) for module, name in _DECLARED)
