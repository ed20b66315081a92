"""`Loading`: the loading of a graph or of a version of a model, while it lasts."""

from __future__ import annotations

import time

from graph_runtime import LoadProgress


class Loading:
    """Name, start and progress of a load that has not ended.

    Attributes:
        name: the served name, with the version of a plain model.
        progress: written by the loaders.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.progress = LoadProgress()
        self._since = time.monotonic()

    @property
    def seconds(self) -> float:
        """The time since loading began."""
        return time.monotonic() - self._since

    @property
    def percent(self) -> int:
        """The percentage of the expected work that is done: below 100 while loading lasts."""
        return min(99, int(self.progress.fraction * 100))

    def as_json(self) -> dict[str, object]:
        """Return the member ``loading`` of a version in ``GET /v1/config``."""
        return {
            "percent": self.percent,
            "phase": self.progress.phase,
            "seconds": round(self.seconds, 1),
        }
