"""The settings that families of calculators declare, by name: loaded where somebody reads them."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

#: Module and class of each; see `calculators.settings.declaration`.
_DECLARED: Final = (
    ("calculators.llm.options.llm_settings", "LlmSettings"),
    ("calculators.media.media_rules", "MediaRules"),
)


def settings_of_families() -> tuple[type[Any], ...]:
    """The dataclasses, in the order of the help."""
    return tuple(getattr(import_module(module), name) for module, name in _DECLARED)
