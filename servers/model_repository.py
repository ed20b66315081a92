"""The served graphs and plain models by name: the data plane that all fronts share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

from calculators.http_payload import ClientConnection, HttpPayload
from calculators.inference import InferRequest, InferResponse
from graph_runtime import Code, GraphError, NotFoundError, Registry, UnavailableError
from graph_runtime.errors import did_you_mean
from servers.config import GraphEntry, ModelEntry
from servers.data_plane import (
    IndexEntry,
    InferAnswer,
    InferStream,
    ModelDescription,
    ModelMetadata,
)
from servers.graph_definition import GraphDefinition
from servers.loaded_graph import Emit, GraphSettings
from servers.models.graph_models import GraphModels
from servers.models.model_definition import ModelDefinition
from servers.servable import Servable
from servers.servable_states import ServableState
from servers.servable_status import unavailable_error

#: Longer names are of no model, and looking for near ones would take long.
_LONGEST_NAME = 256


class ModelRepository:
    """Implements `servers.data_plane.DataPlane`. Belongs to one event loop."""

    def __init__(
        self,
        graphs: Iterable[GraphEntry],
        registry: Registry,
        settings: GraphSettings | None = None,
        models: Iterable[ModelEntry] = (),
    ) -> None:
        configured = {entry.name: ModelDefinition(entry, settings) for entry in models}
        self._servables: dict[str, Servable] = {
            entry.name: GraphDefinition(
                entry, registry, settings, GraphModels(configured, entry.directory)
            )
            for entry in graphs
        }
        self._servables.update(configured)
        self._loading: dict[str, asyncio.Task[None]] = {}
        self._retiring: set[asyncio.Task[None]] = set()
        self._was_loaded = False
        self._is_draining = False

    # Life -----------------------------------------------------------------------------------------

    async def load_all(self) -> None:
        """Load everything at the same time; a graph waits for the models that it asks for.

        Failures are logged and kept.
        """
        loading = [self._begin_loading(servable) for servable in self._servables.values()]
        await asyncio.gather(*loading, return_exceptions=True)
        self._was_loaded = True

    def begin_draining(self) -> None:
        """Not ready any more, no new requests; those in flight go on."""
        self._is_draining = True

    async def close(self) -> None:
        """Retire everything, which waits for requests in flight. Ends `load_all` too."""
        self.begin_draining()
        loading = list(self._loading.values())
        for task in loading:
            task.cancel()
        await asyncio.gather(*loading, return_exceptions=True)
        await asyncio.gather(*(each.retire() for each in self._servables.values()))
        await asyncio.gather(*self._retiring)

    # The data plane -------------------------------------------------------------------------------

    def models(self) -> Sequence[ModelDescription]:
        """What answers now: graphs first, each in the order of the configuration."""
        return [ModelDescription(each.name, each.created) for each in self._available()]

    def statuses(self) -> dict[str, object]:
        """Everything, what failed included, with the reason."""
        return {name: each.status() for name, each in self._servables.items()}

    @property
    def is_ready(self) -> bool:
        """Has everything been loaded, and can everything that loaded work?

        What could not be loaded does not make the others unready, as in OpenVINO Model Server; nor
        does what was unloaded. If nothing could be loaded, there is nothing to be ready for.
        """
        if self._is_draining or not self._was_loaded:
            return False
        available = self._available()
        if not available:
            unloaded = (ServableState.UNLOADING, ServableState.END)
            return all(each.state in unloaded for each in self._servables.values())
        return not any(each.unavailable_reason for each in available)

    async def answer(self, model: str, payload: HttpPayload, emit: Emit) -> None:
        """See `servers.data_plane.DataPlane.answer`.

        Raises:
            NotFoundError, UnavailableError, RunError: as there.
            RequestError: the model takes no HTTP requests, or no more for now.
        """
        await self._asked(model).answer(payload, emit)

    # KServe ---------------------------------------------------------------------------------------

    def is_model_ready(self, model: str, version: str = "") -> bool:
        """See `servers.data_plane.DataPlane.is_model_ready`."""
        return self._named(model).is_ready(version) and not self._is_draining

    def metadata(self, model: str, version: str = "") -> ModelMetadata:
        """See `servers.data_plane.DataPlane.metadata`."""
        return self._asked(model).metadata(version)

    async def infer(self, request: InferRequest, client: ClientConnection) -> InferResponse:
        """See `servers.data_plane.DataPlane.infer`."""
        return await self._asked(request.model).infer(request, client)

    @asynccontextmanager
    async def open_stream(
        self, first: InferRequest, client: ClientConnection, emit: Callable[[InferAnswer], object]
    ) -> AsyncIterator[InferStream]:
        """See `servers.data_plane.DataPlane.open_stream`."""
        async with self._asked(first.model).open_stream(first, client, emit) as stream:
            yield stream

    def index(self) -> Sequence[IndexEntry]:
        """Every version of everything that the configuration names."""
        return [entry for each in self._servables.values() for entry in each.index()]

    async def load(self, model: str) -> None:
        """Load it from its files if it is not loaded; of a plain model the versions that are there
        now and that its policy chooses. Who asks while it is loading waits for the same.

        Raises:
            NotFoundError: the configuration does not name it.
            UnavailableError: it is still being unloaded, or the server is shutting down.
            GraphError: it cannot be loaded (FAILED_PRECONDITION); the text says why.
        """
        servable = self._named(model)
        if self._is_draining:
            raise UnavailableError("The server is shutting down")
        if servable.state is ServableState.UNLOADING:
            raise UnavailableError(
                f'The model "{model}" is still being unloaded: requests in flight have not ended; '
                f"load it when it is unloaded"
            )
        # Whoever leaves does not end it for others.
        await asyncio.shield(self._loading.get(model) or self._begin_loading(servable))
        if servable.state is not ServableState.AVAILABLE:
            raise GraphError(
                f'The model "{model}" could not be loaded: {servable.reason}',
                code=Code.FAILED_PRECONDITION,
            )

    async def unload(self, model: str) -> None:
        """Take no more requests, and give everything back when those in flight have ended.

        Graphs whose runs hold a plain model go on with it; later runs are told that it is not
        served any more.

        Raises:
            NotFoundError: the configuration does not name it.
            UnavailableError: it is loading.
        """
        servable = self._named(model)
        if model in self._loading:
            raise UnavailableError(
                f'The model "{model}" is still loading; unload it when it is loaded'
            )
        retiring = asyncio.create_task(servable.retire(), name=f"unload {model}")
        self._retiring.add(retiring)
        retiring.add_done_callback(self._retiring.discard)
        # Its first step: from then on nothing new is taken.
        await asyncio.sleep(0)

    def servables(self) -> Sequence[Servable]:
        """Everything that the configuration names: graphs, then plain models, each in its order."""
        return tuple(self._servables.values())

    # Names ----------------------------------------------------------------------------------------

    def _begin_loading(self, servable: Servable) -> asyncio.Task[None]:
        name = servable.name
        task = asyncio.create_task(servable.load(), name=f"load {name}")
        self._loading[name] = task
        task.add_done_callback(lambda _: self._loading.pop(name, None))
        return task

    def _available(self) -> list[Servable]:
        return [each for each in self._servables.values() if each.state is ServableState.AVAILABLE]

    def _named(self, model: str) -> Servable:
        servable = self._servables.get(model)
        if servable is None:
            raise self._unknown(model)
        return servable

    def _asked(self, model: str) -> Servable:
        """One that answers."""
        servable = self._named(model)
        if self._is_draining:
            raise UnavailableError("The server is shutting down")
        if servable.state is not ServableState.AVAILABLE:
            raise unavailable_error(f'The model "{model}"', servable.state, servable.reason)
        return servable

    def _unknown(self, model: str) -> NotFoundError:
        if len(model) > _LONGEST_NAME:
            return NotFoundError(
                f"The model does not exist: no name is longer than {_LONGEST_NAME} characters"
            )
        near = did_you_mean(model, self._servables)
        return NotFoundError(f'The model "{model}" does not exist.{near}')
