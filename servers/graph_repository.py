"""The served graphs by name: the data plane that all fronts share."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from calculators.http_payload import HttpPayload
from graph_runtime import NotFoundError, Registry, UnavailableError
from graph_runtime.errors import did_you_mean
from servers.config import GraphEntry
from servers.data_plane import ModelDescription
from servers.graph_definition import GraphDefinition
from servers.graph_states import GraphState
from servers.loaded_graph import Emit, GraphSettings

#: Longer names are of no graph, and looking for near ones would take long.
_LONGEST_NAME = 256


class GraphRepository:
    """Implements `servers.data_plane.DataPlane`. Belongs to one event loop."""

    def __init__(
        self,
        entries: Iterable[GraphEntry],
        registry: Registry,
        settings: GraphSettings | None = None,
    ) -> None:
        self._definitions = {entry.name: GraphDefinition(entry) for entry in entries}
        self._registry = registry
        self._settings = settings
        self._loading: list[asyncio.Task[None]] = []
        self._was_loaded = False
        self._is_draining = False

    # Life -----------------------------------------------------------------------------------------

    async def load_all(self) -> None:
        """Load every graph, all at the same time. Failures are logged and kept."""
        self._loading = [
            asyncio.create_task(
                definition.load(self._registry, self._settings), name=f"load {definition.name}"
            )
            for definition in self._definitions.values()
        ]
        await asyncio.gather(*self._loading, return_exceptions=True)
        self._was_loaded = True

    def begin_draining(self) -> None:
        """Not ready any more, no new requests; those in flight go on."""
        self._is_draining = True

    async def close(self) -> None:
        """Retire every graph, which waits for requests in flight. Ends `load_all` too."""
        self.begin_draining()
        for task in self._loading:
            task.cancel()
        await asyncio.gather(*self._loading, return_exceptions=True)
        await asyncio.gather(*(each.retire() for each in self._definitions.values()))

    # The data plane -------------------------------------------------------------------------------

    def models(self) -> Sequence[ModelDescription]:
        """What answers now, in the order of the configuration."""
        return [
            ModelDescription(each.name, each.created)
            for each in self._definitions.values()
            if each.graph is not None
        ]

    def statuses(self) -> dict[str, object]:
        """Every graph, those that failed included, with the reason."""
        return {name: each.status() for name, each in self._definitions.items()}

    @property
    def is_ready(self) -> bool:
        """Has everything been loaded, and can every graph that loaded work?

        A graph that could not be loaded does not make the others unready, as in OpenVINO Model
        Server; if none could be, there is nothing to be ready for.
        """
        if self._is_draining or not self._was_loaded:
            return False
        graphs = [each.graph for each in self._definitions.values() if each.graph is not None]
        has_any = bool(graphs) or not self._definitions
        return has_any and not any(graph.unavailable_reason for graph in graphs)

    async def answer(self, model: str, payload: HttpPayload, emit: Emit) -> None:
        """See `servers.data_plane.DataPlane.answer`.

        Raises:
            NotFoundError, UnavailableError, RunError: as there.
            RequestError: the model's graph takes no HTTP requests, or no more for now.
        """
        definition = self._definitions.get(model)
        if definition is None:
            raise self._unknown(model)
        if definition.graph is None or self._is_draining:
            raise self._unavailable(definition)
        await definition.graph.answer(payload, emit)

    def definitions(self) -> Sequence[GraphDefinition]:
        """Every graph that the configuration names, in its order."""
        return tuple(self._definitions.values())

    def _unknown(self, model: str) -> NotFoundError:
        if len(model) > _LONGEST_NAME:
            return NotFoundError(
                f"The model does not exist: no name is longer than {_LONGEST_NAME} characters"
            )
        near = did_you_mean(model, self._definitions)
        return NotFoundError(f'The model "{model}" does not exist.{near}')

    def _unavailable(self, definition: GraphDefinition) -> UnavailableError:
        name = definition.name
        if self._is_draining:
            return UnavailableError("The server is shutting down")
        if definition.state is GraphState.FAILED:
            return UnavailableError(f'The model "{name}" could not be loaded: {definition.reason}')
        if definition.state in (GraphState.START, GraphState.LOADING):
            return UnavailableError(f'The model "{name}" is still loading')
        return UnavailableError(f'The model "{name}" is not served any more')
