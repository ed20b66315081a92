"""`Servable`: a graph or plain model, as the repository sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

from calculators.kit.model_card import NO_CARD, ModelCard
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.tasks import AuthorEndpoint
from graph_runtime import Code, LoadProgress, UnavailableError
from servers.config import GraphEntry, ModelEntry
from servers.config.entries import Scale
from servers.contract.data_plane import (
    SHOWN,
    IndexEntry,
    LoadedServable,
    ModelMetadata,
    ServableState,
)
from servers.page.live_graph import ShownGraph

#: The one version of a graph. "" and "0" stand for it.
VERSION: Final = "1"
VERSIONS: Final = frozenset(("", "0", VERSION))


@dataclass(frozen=True, slots=True)
class HttpRole:
    """The part that a graph plays below ``/v3/``.

    Attributes:
        task: the name of its task; "" for a graph of the author's own.
        facts: further members of the model in ``/v3/models``; empty before it is loaded.
        endpoints: the paths that its nodes of authors answer.
        card: what clients of Ollama's API ask of it; empty before it is loaded.
    """

    task: str = ""
    facts: Mapping[str, object] = field(default_factory=dict)
    endpoints: tuple[AuthorEndpoint, ...] = ()
    card: ModelCard = NO_CARD


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


class UseCount:
    """Counts and limits requests in flight. Belongs to one event loop.

    Put ``with users:`` around each request, and ``with users.stream():`` around a stream whose
    requests are counted one by one.

    Attributes:
        requests: the number of requests in flight, abandoned runs included.
        limit: the most of them.
    """

    def __init__(self, name: str, limit: int) -> None:
        """
        Args:
            name: the model's name, for errors.
            limit: the most requests in flight.
        """
        self.requests = 0
        self._streams = 0
        self._name = name
        self.limit = limit
        self._idle_since = time.monotonic()
        self._none_left: asyncio.Future[None] | None = None
        self._is_closed = False

    def __enter__(self) -> None:
        """
        Raises:
            RequestError: the limit is reached (RESOURCE_EXHAUSTED).
            UnavailableError: `close` has returned.
        """
        if self.requests >= self.limit:
            raise RequestError(
                f'The model "{self._name}" has {self.requests} requests in flight, as many as it '
                f"takes; try again later",
                code=Code.RESOURCE_EXHAUSTED,
                retry_after=1,
            )
        if self._is_closed:
            raise self._unavailable()
        self.requests += 1

    def __exit__(self, *raised: object) -> None:
        self.requests -= 1
        if not self.requests and not self._streams:
            self._note_idle()

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Count an open stream, to which the limit does not apply.

        Raises:
            UnavailableError: `close` has returned.
        """
        if self._is_closed:
            raise self._unavailable()
        self._streams += 1
        try:
            yield
        finally:
            self._streams -= 1
            if not self.requests and not self._streams:
                self._note_idle()

    def hold(self, ending: asyncio.Future[None]) -> None:
        """Count a request until ``ending`` is done, even above the limit."""
        self.requests += 1
        ending.add_done_callback(self.__exit__)

    def touch(self) -> None:
        """Restart the idle time."""
        self._idle_since = time.monotonic()

    def idle_seconds(self) -> float:
        """Return the seconds since the last request or stream ended; 0 during one."""
        is_used = self.requests or self._streams
        return 0.0 if is_used else time.monotonic() - self._idle_since

    async def close(self) -> None:
        """Wait until there are no requests and streams, and refuse new ones afterwards.

        Open streams may send requests until then.
        """
        while self.requests or self._streams:
            self._none_left = asyncio.get_running_loop().create_future()
            await self._none_left
        self._is_closed = True

    def _note_idle(self) -> None:
        self._idle_since = time.monotonic()
        if self._none_left is not None and not self._none_left.done():
            self._none_left.set_result(None)

    def _unavailable(self) -> UnavailableError:
        return UnavailableError(f'The model "{self._name}" is not served any more')


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


#: The note about a servable that the next request loads.
ON_DEMAND: Final = "available on demand: not loaded now, the next request loads it"

#: The repository's index has three states.
_INDEX_STATES: Final[dict[ServableState, str]] = {
    ServableState.START: "LOADING",
    ServableState.LOADING: "LOADING",
    ServableState.FAILED: "UNAVAILABLE",
    ServableState.AVAILABLE: "READY",
    ServableState.UNLOADING: "UNAVAILABLE",
    ServableState.END: "UNAVAILABLE",
    ServableState.ON_DEMAND: "READY",
}
_REASONS: Final[dict[ServableState, str]] = {
    ServableState.UNLOADING: "unloading",
    ServableState.END: "unloaded",
    ServableState.ON_DEMAND: ON_DEMAND,
}
#: The messages of `/v1/config` for states without a reason; the one of AVAILABLE is "OK".
_WORDS: Final[dict[ServableState, str]] = {
    ServableState.START: "not loaded yet",
    ServableState.LOADING: "loading",
    ServableState.UNLOADING: "unloading: no new requests; those in flight go on to their end",
    ServableState.END: "unloaded",
    ServableState.ON_DEMAND: ON_DEMAND,
}


def version_status(
    version: str,
    state: ServableState,
    reason: str = "",
    unavailable: str = "",
    note: str = "",
    loading: Loading | None = None,
) -> dict[str, object]:
    """Return one version for ``GET /v1/config``, as in OpenVINO Model Server, but with the reason.

    Args:
        reason: why the state is FAILED.
        unavailable: why the loaded servable cannot answer now: a resource is being made again.
        note: further text, for example that a newer version could not be loaded.
        loading: how far loading is, in a member that OpenVINO Model Server's answers do not have.
    """
    shown, code = SHOWN[state]
    reason = reason or _WORDS.get(state, "")
    if unavailable:
        shown, code, reason = "LOADING", "UNKNOWN", unavailable
    text = "; ".join(each for each in (reason, note) if each) or code
    found: dict[str, object] = {
        "version": version,
        "state": shown,
        "status": {"error_code": code, "error_message": text},
    }
    if loading is not None:
        found["loading"] = loading.as_json()
    return found


def index_entry(
    name: str, version: str, state: ServableState, reason: str = "", unavailable: str = ""
) -> IndexEntry:
    """Return one line of the repository's index; arguments as in `version_status`."""
    if unavailable:
        return IndexEntry(name, version, "UNAVAILABLE", unavailable)
    return IndexEntry(name, version, _INDEX_STATES[state], reason or _REASONS.get(state, ""))


def failure_of(versions: Iterable[tuple[str, str]]) -> str:
    """Return one text about the versions that failed, of their numbers and reasons; "" if none."""
    return "; ".join(f"version {number}: {reason}" for number, reason in versions)


def unavailable_error(what: str, state: ServableState, reason: str = "") -> UnavailableError:
    """Return the error for a call in a state other than AVAILABLE. ``what`` begins the sentence."""
    if state is ServableState.FAILED:
        return UnavailableError(f"{what} could not be loaded: {reason}")
    if state in (ServableState.START, ServableState.LOADING):
        return UnavailableError(f"{what} is still loading")
    return UnavailableError(f"{what} is not served any more")
