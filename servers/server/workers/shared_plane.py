"""`SharedDataPlane`: the data plane of one worker, with states and commands of all workers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from graph_runtime import Code, GraphError, NotFoundError, UnavailableError
from servers.contract.data_plane import (
    DataPlane,
    IndexEntry,
    LoadedServable,
    Method,
    ModelDescription,
    ModelMetadata,
    ReloadError,
    TensorMetadata,
)
from servers.server.workers.messages import Action, Entry, Failure, Outcome, State

READY: Final = "READY"
#: States of the index, the worst last.
_ORDER: Final = (READY, "LOADING", "UNAVAILABLE")
_AVAILABLE: Final = "AVAILABLE"

#: Lets all workers do an action; returns the outcome.
Perform = Callable[[Action, str], Awaitable[Outcome]]


class SharedDataPlane:
    """Implements `servers.contract.data_plane.DataPlane`.

    Requests run on this worker's own plane. Loading, unloading and reloading happen in all workers.
    A model is ready when it is ready in each.

    Attributes:
        peers: the states of the other workers.
    """

    def __init__(self, own: DataPlane, perform: Perform) -> None:
        self.own = own
        self.peers: Sequence[State] = ()
        self._perform = perform

    def state(self) -> State:
        """Return the state of this worker alone."""
        index = [Entry(e.name, e.version, e.state, e.reason) for e in self.own.index()]
        return State(self.own.is_ready, index, self.own.statuses())

    # This worker ----------------------------------------------------------------------------------

    def models(self) -> Sequence[ModelDescription]:
        """See `DataPlane.models`."""
        return self.own.models()

    async def resolve(self, model: str, method: Method, version: str = "") -> LoadedServable:
        """See `DataPlane.resolve`."""
        return await self.own.resolve(model, method, version)

    async def metadata(self, model: str, version: str = "") -> ModelMetadata:
        """See `DataPlane.metadata`."""
        return await self.own.metadata(model, version)

    async def inputs_of(self, model: str, version: str = "") -> Sequence[TensorMetadata]:
        """See `DataPlane.inputs_of`."""
        return await self.own.inputs_of(model, version)

    # All workers ----------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """True if all workers are ready."""
        return self.own.is_ready and all(peer.is_ready for peer in self.peers)

    def is_model_ready(self, model: str, version: str = "") -> bool:
        """See `DataPlane.is_model_ready`."""
        if not self.own.is_model_ready(model, version):
            return False
        wanted = version if version not in ("", "0") else ""
        for peer in self.peers:
            states = [
                each.state
                for each in peer.index
                if each.name == model and (not wanted or each.version == wanted)
            ]
            # An adapter is not in the index; its model is loaded from the same files everywhere.
            if states and READY not in states:
                return False
        return True

    def statuses(self) -> dict[str, object]:
        """Return the status of each model in the worker where it is furthest from available."""
        found = self.own.statuses()
        for peer in self.peers:
            for name, status in peer.statuses.items():
                if name not in found or (_is_available(found[name]) and not _is_available(status)):
                    found[name] = status
        return found

    def index(self) -> Sequence[IndexEntry]:
        """Return each version with its worst state."""
        found = {(each.name, each.version): each for each in self.own.index()}
        for peer in self.peers:
            for each in peer.index:
                known = found.get((each.name, each.version))
                if known is None or _rank(each.state) > _rank(known.state):
                    entry = IndexEntry(each.name, each.version, each.state, each.reason)
                    found[each.name, each.version] = entry
        return list(found.values())

    async def reload(self) -> bool:
        """See `DataPlane.reload`."""
        return (await self._done(Action.RELOAD)).has_changed

    async def load(self, model: str) -> None:
        """See `DataPlane.load`."""
        await self._done(Action.LOAD, model)

    async def unload(self, model: str) -> None:
        """See `DataPlane.unload`."""
        await self._done(Action.UNLOAD, model)

    async def _done(self, action: Action, model: str = "") -> Outcome:
        outcome = await self._perform(action, model)
        if outcome.failure is not None:
            raise error_of(outcome.failure)
        return outcome


async def perform_on(plane: DataPlane, action: Action, model: str) -> tuple[bool, Failure | None]:
    """Do an action on one worker's plane; return whether anything has changed, and the failure."""
    try:
        match action:
            case Action.RELOAD:
                return await plane.reload(), None
            case Action.LOAD:
                await plane.load(model)
            case Action.UNLOAD:
                await plane.unload(model)
            case _:
                return False, None
    except GraphError as error:
        return False, failure_of(error)
    return True, None


def failure_of(error: GraphError) -> Failure:
    """Return an error as a message."""
    if isinstance(error, ReloadError):
        return Failure(error.message, error.code.name, list(error.reloaded), error.failed)
    return Failure(error.message, error.code.name)


def error_of(failure: Failure) -> GraphError:
    """Return the error of a message."""
    if failure.failed is not None:
        return ReloadError(failure.message, failure.reloaded or (), failure.failed)
    code = Code[failure.code]
    if code is Code.NOT_FOUND:
        return NotFoundError(failure.message)
    if code is Code.UNAVAILABLE:
        return UnavailableError(failure.message)
    return GraphError(failure.message, code=code)


def _rank(state: str) -> int:
    return _ORDER.index(state) if state in _ORDER else len(_ORDER)


def _is_available(status: Any) -> bool:
    versions = status.get("model_version_status", ()) if isinstance(status, dict) else ()
    return bool(versions) and all(each.get("state") == _AVAILABLE for each in versions)
