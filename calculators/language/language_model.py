"""`LanguageModel`: the object that answers for an LLM node, in the side packet of its resources."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from calculators.language.delta import Deltas
from calculators.language.generation_request import GenerationRequest


class DeltaSource(Protocol):
    """One answer while it is generated. There is one reader."""

    @property
    def is_finished(self) -> bool:
        """True once `read` has returned the end of the answer."""

    async def read(self) -> Deltas:
        """Wait for the next items and return them; empty if they show nothing yet.

        A `calculators.kit.requests.http_payload.RequestError` is returned as
        `calculators.language.delta.Failed`, not raised.
        """

    def stop(self) -> None:
        """End the generation; the next items are its end. Stopping again does nothing."""

    def cancel(self) -> None:
        """End the generation for good: it has no reader any more."""


@runtime_checkable
class LanguageModel(Protocol):
    """A language model, loaded: ``LLM_NODE_RESOURCES`` maps names of nodes to these."""

    @property
    def unfinished(self) -> int:
        """Requests that are running or waiting."""

    @property
    def queue(self) -> int:
        """The number of unfinished requests from which on further ones are refused."""

    @property
    def unavailable_reason(self) -> str:
        """The reason why nothing can be generated now; "" while it can."""

    async def generate(self, request: GenerationRequest, node: str) -> DeltaSource:
        """Check and prompt a request, and submit it to the engine.

        ``node``: the name of the node that asks.

        Raises:
            calculators.kit.requests.http_payload.RequestError: it cannot be answered.
        """
