"""Which versions of a model are served."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """Without ``specific`` versions, the highest ``latest`` ones; of None all."""

    latest: int | None = 1
    specific: tuple[int, ...] = ()

    def chosen(self, versions: Iterable[int]) -> list[int]:
        """What is served of those that there are, in rising order.

        Specific ones are chosen whether there are such or not.
        """
        if self.specific:
            return sorted(set(self.specific))
        found = sorted(versions)
        return found if self.latest is None else found[-self.latest :]


def policy_of(config: Mapping[str, Any] | None) -> VersionPolicy:
    """That of a checked ``model_version_policy``."""
    if not config:
        return VersionPolicy()
    if "all" in config:
        return VersionPolicy(latest=None)
    if "specific" in config:
        return VersionPolicy(specific=tuple(config["specific"]["versions"]))
    return VersionPolicy(latest=config["latest"]["num_versions"])
