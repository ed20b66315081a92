"""Loading and unloading of graphs and models: the keys ``load``, ``idle_unload_seconds``,
``pinned`` and ``reload`` of a config."""

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
    """The rules by which one graph or model is loaded and unloaded.

    Attributes:
        is_on_demand: the first request loads it, not the start of the server.
        idle_seconds: seconds without a request after which it is unloaded; the next request loads
            it again. 0: never. None: the server's default.
        is_pinned: it is never unloaded for being idle.
        unloads_first: a changed version is loaded after the old one is unloaded, because memory
            does not hold both. Requests wait meanwhile; if loading fails, nothing answers.
    """

    is_on_demand: bool = False
    idle_seconds: float | None = None
    is_pinned: bool = False
    unloads_first: bool = False

    def idle_limit(self, default: float) -> float:
        """Return the idle seconds in effect, 0 for never. ``default`` is the server's setting."""
        if self.is_pinned:
            return 0.0
        return default if self.idle_seconds is None else self.idle_seconds


def residence_of(config: Mapping[str, Any]) -> LoadPolicy:
    """Return the policy of a checked config object."""
    return LoadPolicy(
        config.get("load", AT_START) == ON_DEMAND,
        config.get("idle_unload_seconds"),
        bool(config.get("pinned", False)),
        config.get("reload", BESIDE) == AFTER_UNLOAD,
    )
