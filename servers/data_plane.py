"""One request through one graph: what every front calls, and all that it knows of graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from calculators.http_payload import HttpPayload


@dataclass(frozen=True, slots=True)
class ModelDescription:
    """A model as clients see it. ``created``: when it was loaded, Unix time in seconds."""

    name: str
    created: int


class DataPlane(Protocol):
    """The served graphs, by name."""

    def models(self) -> Sequence[ModelDescription]:
        """What is served, in the order of the configuration."""

    def statuses(self) -> dict[str, object]:
        """The answer of ``GET /v1/config``, in OpenVINO Model Server's form."""

    @property
    def is_ready(self) -> bool:
        """Has everything been loaded, and can every graph that loaded work?"""

    async def answer(
        self, model: str, payload: HttpPayload, emit: Callable[[str | bytes], object]
    ) -> None:
        """Run the graph of ``model`` for one request; ``emit`` gets each response packet in order.

        Cancelling this coroutine cancels the graph.

        Raises:
            NotFoundError: no such model.
            UnavailableError: it is loading, draining, or could not be loaded.
            RunError: the graph failed. ``errors[0].__cause__`` is what the calculator raised.
        """
