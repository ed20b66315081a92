"""When what a config names is in memory: its keys ``load``, ``idle_unload_seconds``, ``pinned`` and
``reload``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

AT_START: Final = "at_start"
ON_DEMAND: Final = "on_demand"

BESIDE: Final = "beside"
AFTER_UNLOAD: Final = "after_unload"


@dataclass(frozen=True, slots=True)
class LoadPolicy:
    """Of one graph or model.

    Attributes:
        is_on_demand: the first request loads it, not the start of the server.
        idle_seconds: after so long without a request it is unloaded, and loaded again by the next
            one; 0 is never; None is as the server says.
        is_pinned: it is never unloaded for being idle.
        unloads_first: a changed one is loaded when the old one is gone, since memory does not hold
            both: requests wait meanwhile, and if it cannot be loaded, nothing answers.
    """

    is_on_demand: bool = False
    idle_seconds: float | None = None
    is_pinned: bool = False
    unloads_first: bool = False

    def idle_limit(self, default: float) -> float:
        """`idle_seconds` in effect; 0 is never. ``default``: what the server says."""
        if self.is_pinned:
            return 0.0
        return default if self.idle_seconds is None else self.idle_seconds


def residence_of(config: Mapping[str, Any]) -> LoadPolicy:
    """That of a checked config object."""
    return LoadPolicy(
        config.get("load", AT_START) == ON_DEMAND,
        config.get("idle_unload_seconds"),
        bool(config.get("pinned", False)),
        config.get("reload", BESIDE) == AFTER_UNLOAD,
    )
