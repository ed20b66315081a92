"""`Servable`: a graph or plain model, as the repository sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from servers.config import GraphEntry, ModelEntry
from servers.config.entries import Scale
from servers.contract.data_plane import IndexEntry, LoadedServable, ModelMetadata
from servers.contract.servable_states import ServableState
from servers.page.live_graph import ShownGraph
from servers.serving.http_role import HttpRole
from servers.serving.loading import Loading


class Servable(Protocol):
    """A graph, or a plain model with its versions, through loading, answering and retiring.

    Methods about the loaded graph or model raise `UnavailableError` in states other than AVAILABLE,
    and `NotFoundError` for a version that does not exist.
    """

    @property
    def entry(self) -> GraphEntry | ModelEntry:
        """The entry of the configuration."""

    @property
    def name(self) -> str:
        """The name that clients use."""

    @property
    def adapters(self) -> Sequence[str]:
        """The names of its adapters, under which it answers too."""

    @property
    def state(self) -> ServableState:
        """The state; for a model, the state of its most advanced version."""

    @property
    def reason(self) -> str:
        """The reason for the state FAILED, for clients: no paths of this machine; "" otherwise."""

    @property
    def failure(self) -> str:
        """Why the files cannot be served, in whole or in part, though an earlier state of them may
        answer; for clients; "" if all that was to be loaded is loaded."""

    @property
    def http_role(self) -> HttpRole | None:
        """The part that it plays below ``/v3/``; None if it takes no HTTP requests."""

    @property
    def created(self) -> int:
        """The time of loading, Unix time in seconds."""

    @property
    def unavailable_reason(self) -> str:
        """The reason why an AVAILABLE servable cannot answer now; "" if it can."""

    def idle_seconds(self) -> float:
        """Return the seconds since the last request ended; 0 during a request."""

    def loaded(self, version: str) -> LoadedServable:
        """Return the loaded graph or version; "" and "0" stand for the highest version."""

    def is_outdated(self) -> bool:
        """True if files have changed since the last attempt to load; False if nothing is loaded.

        Reads files: for a thread.
        """

    def inherit(self, old: Servable) -> None:
        """Let `load` take what ``old`` has loaded, as far as it fits; ``old`` is being replaced.

        It is held until `load` or `retire` ends, so that ``old`` may be retired before.
        """

    def rescale(self, scale: Scale) -> None:
        """Take another number of replicas, if there are any. Must be called on the event loop."""

    async def prepare(self) -> None:
        """Read the names of adapters, before loading or deferring."""

    async def looked(self) -> None:
        """Wait for `prepare` if it is running."""

    async def load(self) -> None:
        """Load, unless the state is UNLOADING. A failure is logged and kept as `reason`."""

    def defer(self) -> None:
        """Let the next request load it. It must not be loaded."""

    async def retire(self) -> None:
        """Refuse new requests, wait for requests in flight, close everything."""

    def loading(self) -> Sequence[Loading]:
        """Return what is being loaded: a graph, or versions of a model; empty if nothing is."""

    def status(self, note: str = "") -> dict[str, object]:
        """Return its part of ``GET /v1/config``; ``note`` is a text to add."""

    def index(self) -> Sequence[IndexEntry]:
        """Return its lines of the repository's index."""

    def is_ready(self, version: str) -> bool:
        """See `servers.contract.data_plane.DataPlane.is_model_ready`."""

    def metadata(self, version: str) -> ModelMetadata:
        """See `servers.contract.data_plane.DataPlane.metadata`."""


@runtime_checkable
class ShowsGraph(Protocol):
    """A servable whose files can be drawn, loaded or not."""

    def read_shown(self) -> ShownGraph:
        """See `servers.serving.graph_definition.GraphDefinition.read_shown`."""
