"""`Servable`: one name that clients may call, and what the repository knows of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from servers.config import GraphEntry, ModelEntry
from servers.contract.data_plane import IndexEntry, LoadedServable, ModelMetadata
from servers.contract.servable_states import ServableState


class Servable(Protocol):
    """A graph, or a plain model with its versions, through loading, answering and retiring.

    What asks it something when it is not AVAILABLE raises `UnavailableError`, and `NotFoundError`
    for a version that is not there.
    """

    @property
    def entry(self) -> GraphEntry | ModelEntry:
        """What it is made from."""

    @property
    def name(self) -> str:
        """What clients call it."""

    @property
    def adapters(self) -> Sequence[str]:
        """Further names under which it answers: those of its adapters."""

    @property
    def state(self) -> ServableState:
        """Where it stands; of a model with several versions, where the one stands that got
        furthest."""

    @property
    def reason(self) -> str:
        """Why it is FAILED, for clients: no paths of this machine; "" otherwise."""

    @property
    def created(self) -> int:
        """When it was loaded, Unix time in seconds."""

    @property
    def unavailable_reason(self) -> str:
        """Why it cannot answer now though it is AVAILABLE; "" while it can."""

    def idle_seconds(self) -> float:
        """How long nobody has used what is loaded; 0 while somebody does."""

    def loaded(self, version: str) -> LoadedServable:
        """What answers: the graph, or that version of the model; "" and "0" are the highest."""

    def is_outdated(self) -> bool:
        """Are its files others than those that it was loaded from, or could not be? False while
        nothing is loaded. Reads files: for a thread."""

    async def prepare(self) -> None:
        """See under which names it answers, before it is loaded or deferred."""

    async def looked(self) -> None:
        """Wait until `adapters` are known, if `prepare` is under way."""

    async def load(self) -> None:
        """Load it, unless it is UNLOADING. A failure is logged and kept as `reason`."""

    def defer(self) -> None:
        """Of what is not loaded: the next request is to load it."""

    async def retire(self) -> None:
        """Take no new requests, wait for those in flight, give everything back."""

    def status(self, note: str = "") -> dict[str, object]:
        """Its part of ``GET /v1/config``; ``note``: what else is to be said of it."""

    def index(self) -> Sequence[IndexEntry]:
        """Its part of the repository's index."""

    def is_ready(self, version: str) -> bool:
        """See `servers.contract.data_plane.DataPlane.is_model_ready`."""

    def metadata(self, version: str) -> ModelMetadata:
        """See `servers.contract.data_plane.DataPlane.metadata`."""
