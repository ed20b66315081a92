"""The repository of served graphs and plain models, which is the data plane of all fronts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

from calculators.kit.file_threads import in_file_thread
from graph_runtime import Code, GraphError, NotFoundError, Registry, UnavailableError
from graph_runtime.errors import did_you_mean
from servers.config import GraphEntry, ModelEntry
from servers.config.entries import PERMANENT
from servers.contract.data_plane import (
    IndexEntry,
    LoadedServable,
    Method,
    ModelDescription,
    ModelMetadata,
    ServableState,
    ServedEndpoint,
    TensorMetadata,
)
from servers.operations.metrics.exposition import MetricsText
from servers.serving.graph_definition import GraphDefinition
from servers.serving.loaded_graph import GraphSettings
from servers.serving.models.model_definition import GraphModels, ModelDefinition
from servers.serving.servable import Loading, Servable
from servers.serving.served_entry import Entry, Groups, ServedEntry

T = TypeVar("T")

#: The longest name of a model in characters: finding near names for longer ones would be slow.
_LONGEST_NAME = 256
#: Near names are found among this many names at most: each takes some ten microseconds.
_MOST_COMPARED = 1000
#: The most names in an error.
_MOST_NAMED: Final = 10
#: Seconds that `load` waits for unloading: processes end in a moment, requests perhaps in hours.
UNLOAD_SECONDS = 10.0
#: Entries that are handled in one turn of the event loop.
_AT_ONCE = 100
_ANSWERING = (ServableState.AVAILABLE, ServableState.ON_DEMAND)


class Changes(NamedTuple):
    """The changes of an update.

    Attributes:
        names: the names of everything that is loaded, replaced or retired.
        work: ends when everything new is loaded or has failed. Retired servables may still have
            requests then.
    """

    names: Sequence[str]
    work: Sequence[asyncio.Task[None]]


class Holding(NamedTuple):
    """The contents of a slot. ``leaving`` counts replaced servables that still have requests."""

    servable: Servable
    state: ServableState
    leaving: int

    @property
    def is_loaded(self) -> bool:
        return self.state is ServableState.AVAILABLE


class Elsewhere(Protocol):
    """Makes servables that run in other processes, such as on a cluster."""

    def __call__(
        self, definition: GraphDefinition | ModelDefinition, repository: ModelRepository
    ) -> Servable:
        """Return the servable for a definition, which is never loaded itself."""

    async def metrics_text(
        self,
        repository: ModelRepository,
        own: Callable[[str], Awaitable[MetricsText]],
        accept: str,
    ) -> MetricsText:
        """Return the metrics of this process, which ``own`` returns, and of the others."""


async def in_turns(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items and let the event loop run in between, because there may be thousands."""
    for number, item in enumerate(items, 1):
        yield item
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)


class ModelRepository:
    """Implements `servers.contract.data_plane.DataPlane`. Belongs to one event loop.

    Attributes:
        registry: the calculators for graphs that are loaded from now on.
        shared: modules from the configuration whose calculators are in ``registry``.
        problem: why the present configuration is not in use; "" if it is.
        reloads_by: the function that `reload` calls; None if there is nothing to read again.
    """

    def __init__(
        self,
        graphs: Iterable[GraphEntry],
        registry: Registry,
        settings: GraphSettings | None = None,
        models: Iterable[ModelEntry] = (),
        shared: tuple[Path, ...] = (),
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """``elsewhere``: makes a servable that runs elsewhere; None: all run in this process."""
        self._elsewhere = elsewhere
        self.registry = registry
        self.shared = shared
        self.problem = ""
        self.reloads_by: Callable[[], Awaitable[bool]] | None = None
        self._settings = settings or GraphSettings()
        entries: list[Entry] = [*graphs, *models]
        #: Names of graphs that have or had adapters or endpoints: few, even among thousands.
        self._with_ways: set[str] = set()
        self._groups = Groups(self.slots)
        self._slots = {entry.name: self._slot(entry) for entry in entries}
        self._leaving: dict[asyncio.Task[None], ServedEntry] = {}
        self._retiring: dict[asyncio.Task[None], str] = {}
        self._was_loaded = False
        self._is_draining = False

    # Life -----------------------------------------------------------------------------------------

    async def load_all(self) -> None:
        """Load everything at once, except what is loaded on demand.

        A graph waits for the models that it uses. Failures are logged and kept.
        """
        begun = [
            slot.begin()
            async for slot in in_turns(self.slots())
            if self._slots.get(slot.name) is slot  # the configuration may have changed meanwhile
        ]
        await asyncio.gather(*begun, return_exceptions=True)
        self._was_loaded = True

    async def update(
        self,
        entries: Sequence[Entry],
        changed: Collection[str],
        overwritten: Collection[str] = (),
    ) -> Changes:
        """Serve these entries, in this order: load new ones, replace changed ones, retire others.

        Requests in flight finish on the servable they began with. Failures are logged and kept.

        Args:
            changed: names of entries whose files have changed, or that are to be retried.
            overwritten: names of plain models with changed files of loaded versions, which are
                loaded again.

        Raises:
            UnavailableError: the server is shutting down.
        """
        if self._is_draining:
            raise UnavailableError("The server is shutting down")
        old = self._slots
        slots: dict[str, ServedEntry] = {}
        async for entry in in_turns(entries):
            slots[entry.name] = old.get(entry.name) or self._slot(entry)
        # The event loop had turns meanwhile.
        if self._is_draining:
            raise UnavailableError("The server is shutting down")
        self._slots = slots
        touched: list[str] = []
        work: list[asyncio.Task[None] | None] = []
        async for entry in in_turns(entries):
            name = entry.name
            slot = slots[name]
            if name not in old:
                touched.append(name)
                work.append(slot.begin())
            elif slot.entry != entry or name in changed:
                touched.append(name)
                work.append(slot.begin_refreshing(entry, is_overwritten=name in overwritten))
            else:
                work.append(slot.update_residence(entry))
        async for name in in_turns(old):
            if name not in slots:
                touched.append(name)
                self._let_go(old[name])
        return Changes(touched, [task for task in work if task is not None])

    def unload_idle(self) -> None:
        """Begin to unload everything that has been idle for longer than its limit."""
        for slot in self._slots.values():
            slot.unload_if_idle()

    def begin_draining(self) -> None:
        """Stop being ready and refuse new requests. Requests in flight continue."""
        self._is_draining = True

    async def close(self) -> None:
        """Retire everything after its last request in flight. Cancels `load_all` too."""
        self.begin_draining()
        await self._groups.close()
        await asyncio.gather(*(slot.close() for slot in self._slots.values()))
        await asyncio.gather(*self._leaving, *self._retiring)

    # The data plane -------------------------------------------------------------------------------

    def models(self) -> Sequence[ModelDescription]:
        """Return every graph that answers HTTP requests, now or when loaded on demand.

        They are in the order of the configuration, each followed by its adapters.
        """
        found: list[ModelDescription] = []
        for slot in self._slots.values():
            each, role = slot.servable, slot.servable.http_role
            if role is None or each.state not in _ANSWERING:
                continue
            found += (
                ModelDescription(
                    name,
                    each.created,
                    "" if name == each.name else each.name,
                    role.task,
                    role.facts,
                    role.card,
                    each.state is ServableState.AVAILABLE,
                    slot.idle_seconds,
                )
                for name in (each.name, *each.adapters)
            )
        return found

    def endpoints(self) -> Sequence[ServedEndpoint]:
        """See `servers.contract.data_plane.DataPlane.endpoints`."""
        return [
            ServedEndpoint(slot.name, each)
            for slot in self._reached_otherwise()
            if (role := slot.servable.http_role) is not None
            for each in role.endpoints
        ]

    def statuses(self) -> dict[str, object]:
        """Return the status of everything, with the reasons of failures.

        What the configuration no longer names is listed last, until its last request is over.
        """
        problem = self.problem and f"the changed configuration is not in use: {self.problem}"
        found: dict[str, object] = {}
        for name, slot in self._slots.items():
            note = "; ".join(each for each in (slot.note(), problem) if each)
            found[name] = slot.servable.status(note)
        for slot in self._leaving.values():
            found.setdefault(slot.name, slot.servable.status())
        return found

    def loading(self) -> list[Loading]:
        """Return what is being loaded now."""
        return [each for slot in self._slots.values() if slot.is_busy for each in slot.loading()]

    @property
    def is_ready(self) -> bool:
        """True if loading is over and everything loaded can answer.

        As in OpenVINO Model Server, servables that failed to load, or were unloaded, do not make
        the others unready. If everything failed, the server is not ready.
        """
        if self._is_draining or not self._was_loaded:
            return False
        answering = self._answering()
        if not answering:
            unloaded = (ServableState.UNLOADING, ServableState.END)
            return all(each.state in unloaded for each in self.servables())
        return not any(each.unavailable_reason for each in answering)

    async def resolve(self, model: str, method: Method, version: str = "") -> LoadedServable:
        """See `servers.contract.data_plane.DataPlane.resolve`."""
        return (await self._ready_servable(model)).loaded(version)

    # KServe ---------------------------------------------------------------------------------------

    def is_model_ready(self, model: str, version: str = "") -> bool:
        """See `servers.contract.data_plane.DataPlane.is_model_ready`."""
        return self._entry_for_request(model).servable.is_ready(version) and not self._is_draining

    async def metadata(self, model: str, version: str = "") -> ModelMetadata:
        """See `servers.contract.data_plane.DataPlane.metadata`."""
        metadata = (await self._ready_servable(model)).metadata(version)
        return replace(metadata, name=model)

    async def inputs_of(self, model: str, version: str = "") -> Sequence[TensorMetadata]:
        """See `servers.contract.data_plane.DataPlane.inputs_of`."""
        return (await self.metadata(model, version)).inputs

    def index(self) -> Sequence[IndexEntry]:
        """Return every version of everything in the configuration."""
        return [entry for each in self.servables() for entry in each.index()]

    async def reload(self) -> bool:
        """See `servers.contract.data_plane.DataPlane.reload`.

        Raises:
            UnavailableError: the server is shutting down.
        """
        if self._is_draining:
            raise UnavailableError("The server is shutting down")
        return await self.reloads_by() if self.reloads_by is not None else False

    async def load(self, model: str) -> None:
        """Load a graph or model from its files unless it is loaded.

        For a plain model, load the versions that exist now and that its policy chooses, and load
        again those whose files have changed. Concurrent calls wait for the same loading.

        Raises:
            NotFoundError: the configuration does not name it.
            UnavailableError: it is still being unloaded after `UNLOAD_SECONDS`, or the server is
                shutting down.
            GraphError: it, or a version of it, cannot be loaded (FAILED_PRECONDITION); the text
                says why.
        """
        slot = self._named(model)
        retiring = [task for task, name in self._retiring.items() if name == model]
        if retiring:
            await asyncio.wait(retiring, timeout=UNLOAD_SECONDS)
        if self._is_draining:
            raise UnavailableError("The server is shutting down")
        if slot.servable.state is ServableState.ON_DEMAND:  # perhaps another group is loaded
            await asyncio.shield(slot.next_job())
        if slot.servable.state is ServableState.UNLOADING and not slot.is_busy:
            raise UnavailableError(
                f'The model "{model}" is still being unloaded: requests in flight have not ended; '
                f"load it when it is unloaded"
            )
        is_model = isinstance(slot.servable, ModelDefinition)
        what = f'the files of the model "{model}"'
        is_loaded = slot.servable.state is ServableState.AVAILABLE
        if is_model and is_loaded and await in_file_thread(what, slot.is_overwritten):
            # Shielded: a caller that is cancelled must not cancel the loading for others.
            await asyncio.shield(slot.begin_refreshing(slot.entry, is_overwritten=True))
        else:
            await asyncio.shield(slot.begin_loading())
        if slot.servable.state is ServableState.ON_DEMAND:  # it was being unloaded as idle
            await asyncio.shield(slot.begin_loading())
        if slot.servable.state is not ServableState.AVAILABLE:
            raise GraphError(
                f'The model "{model}" could not be loaded: {slot.servable.reason}',
                code=Code.FAILED_PRECONDITION,
            )
        if is_model and slot.failure():
            raise GraphError(
                f'The model "{model}" could not be loaded as its files are now, and what was '
                f"loaded before answers: {slot.failure()}",
                code=Code.FAILED_PRECONDITION,
            )

    async def unload(self, model: str) -> None:
        """Refuse requests, and close everything when requests in flight have ended.

        Running graphs keep a plain model that they use. Later runs fail, because it is no longer
        served.

        Raises:
            NotFoundError: the configuration does not name it.
            UnavailableError: it is loading.
        """
        slot = self._named(model)
        if slot.is_busy:
            raise UnavailableError(
                f'The model "{model}" is still loading; unload it when it is loaded'
            )
        retiring = asyncio.create_task(slot.servable.retire(), name=f"unload {model}")
        self._retiring[retiring] = model
        retiring.add_done_callback(lambda task: self._retiring.pop(task, None))
        # Wait for its first step, which refuses new requests.
        await asyncio.sleep(0)

    def release(self, model: str) -> None:
        """See `servers.contract.data_plane.DataPlane.release`."""
        self._entry_for_request(model).release()

    # Plain models for graphs ----------------------------------------------------------------------

    def model_names(self) -> Collection[str]:
        """See `servers.serving.models.model_definition.ConfiguredModels`."""
        return [each.name for each in self.servables() if isinstance(each, ModelDefinition)]

    def find_model(self, name: str) -> ModelDefinition | None:
        """See `servers.serving.models.model_definition.ConfiguredModels`."""
        slot = self._slots.get(name)
        servable = None if slot is None else slot.servable
        return servable if isinstance(servable, ModelDefinition) else None

    async def awake_model(self, name: str, group: str) -> ModelDefinition | None:
        """See `servers.serving.models.model_definition.ConfiguredModels`."""
        slot = self._slots.get(name)
        if slot is None or not isinstance(slot.servable, ModelDefinition):
            return None
        if slot.group not in ("", group):
            raise UnavailableError(
                f'The model "{name}" is of the group "{slot.group}", and a graph that uses it must '
                f'be of that group too, or the model of the group "{PERMANENT}"'
            )
        if slot.loads_on_demand:
            servable = await slot.ensure_loaded()
        else:
            await slot.is_here()
            servable = slot.servable
        return servable if isinstance(servable, ModelDefinition) else None

    # Names ----------------------------------------------------------------------------------------

    def servables(self) -> Sequence[Servable]:
        """Return everything in the configuration: graphs, then plain models, each in its order."""
        return tuple(slot.servable for slot in self._slots.values())

    def slots(self) -> Sequence[ServedEntry]:
        """Return the entries of `servables`, in the same order."""
        return tuple(self._slots.values())

    def holdings(self) -> Sequence[Holding]:
        """Return what is in memory. The result is equal until something is loaded or unloaded."""
        slots = (*self._slots.values(), *self._leaving.values())
        return [Holding(slot.servable, slot.servable.state, slot.leaving) for slot in slots]

    def _slot(self, entry: Entry) -> ServedEntry:
        return ServedEntry(entry, self._make, self._settings, self._groups)

    def _make(self, entry: Entry) -> Servable:
        definition = self._definition(entry)
        return definition if self._elsewhere is None else self._elsewhere(definition, self)

    def _definition(self, entry: Entry) -> GraphDefinition | ModelDefinition:
        if isinstance(entry, ModelEntry):
            return ModelDefinition(entry, self._settings)
        models = GraphModels(self, entry.directory, entry.residence.group)
        owner_of = partial(self._owner_of, asker=entry.name)
        return GraphDefinition(
            entry,
            self.registry,
            self._settings,
            models,
            self.shared,
            owner_of,
            partial(self._looked_before, entry.name),
            partial(self._with_ways.add, entry.name),
        )

    def _let_go(self, slot: ServedEntry) -> None:
        """Retire, in the background, what the configuration no longer names."""
        leaving = asyncio.create_task(slot.close(), name=f"retire {slot.name}")
        self._leaving[leaving] = slot
        leaving.add_done_callback(self._leaving.pop)

    def _answering(self) -> list[Servable]:
        return [each for each in self.servables() if each.state in _ANSWERING]

    def _named(self, model: str) -> ServedEntry:
        """Return the entry with this name, for loading and unloading."""
        slot = self._entry_for_request(model)
        if slot.name != model:
            raise NotFoundError(
                f'"{model}" is an adapter of the model "{slot.name}", which is what is loaded'
            )
        return slot

    def _entry_for_request(self, model: str) -> ServedEntry:
        """Return the entry with this name or with an adapter of this name, for requests."""
        slot = self._slots.get(model)
        if slot is not None:
            return slot
        for slot in self._reached_otherwise():
            if model in slot.servable.adapters:
                return slot
        raise self._unknown(model)

    def _owner_of(self, name: str, *, asker: str) -> str:
        """Return the owner of a name other than ``asker``, in words; "" if there is none.

        If two graphs have the same adapter and neither is loaded, the one that the configuration
        names first owns it.
        """
        if name in self._slots and name != asker:
            return f'the model "{name}"'
        for slot in self._reached_otherwise():
            if slot.name != asker and name in slot.servable.adapters:
                has_it = slot.servable.state in _ANSWERING
                if has_it or (name != asker and self._is_before(slot.name, asker)):
                    return f'an adapter of the model "{slot.name}"'
        return ""

    def _reached_otherwise(self) -> list[ServedEntry]:
        """Return the entries that may have adapters or endpoints, in the configuration's order."""
        if len(self._with_ways) > 1:
            return [slot for name, slot in self._slots.items() if name in self._with_ways]
        return [self._slots[name] for name in self._with_ways if name in self._slots]

    def _is_before(self, one: str, other: str) -> bool:
        """Return True if the configuration names ``one`` before ``other``."""
        return next(name for name in self._slots if name in (one, other)) == one

    async def _looked_before(self, asker: str) -> None:
        """Wait until the adapters of all entries before ``asker`` are known."""
        for slot in self.slots():
            if slot.name == asker:
                return
            await slot.servable.looked()

    async def _ready_servable(self, model: str) -> Servable:
        """Return the servable for a request."""
        slot = self._slots.get(model) or self._entry_for_request(model)
        if self._is_draining:
            raise UnavailableError("The server is shutting down")
        servable = slot.servable
        if servable.state is ServableState.AVAILABLE:
            return servable
        return await slot.ensure_loaded()

    def _unknown(self, model: str) -> NotFoundError:
        if len(model) > _LONGEST_NAME:
            return NotFoundError(
                f"The model does not exist: no name is longer than {_LONGEST_NAME} characters"
            )
        if len(self._slots) > _MOST_COMPARED:
            return NotFoundError(f'The model "{model}" does not exist.')
        adapters = (name for each in self._answering() for name in each.adapters)
        names = [*self._slots, *adapters]
        near = did_you_mean(model, names)
        if not near and 0 < len(names) <= _MOST_NAMED:
            near = f" There is {', '.join(names)}." if names else ""
        return NotFoundError(f'The model "{model}" does not exist.{near}')
