"""`ObservedDataPlane`: the data plane of one front, with every request counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from servers.contract.data_plane import (
    DataPlane,
    IndexEntry,
    LoadedServable,
    Method,
    ModelDescription,
    ModelMetadata,
    TensorMetadata,
)
from servers.operations.metrics.graph_requests import METADATA, READY, LookupCounts
from servers.operations.metrics.observed_graph import observed_graph
from servers.operations.metrics.observed_model import ObservedModel
from servers.operations.metrics.server_metrics import ServerMetrics


class ObservedDataPlane:
    """A `servers.contract.data_plane.DataPlane` that counts the requests to another one."""

    def __init__(self, plane: DataPlane, metrics: ServerMetrics, interface: str) -> None:
        """``interface``: the label of the front, `REST` or `GRPC`."""
        self._plane = plane
        self._metrics = metrics
        self._interface = interface

    # Counted --------------------------------------------------------------------------------------

    async def resolve(self, model: str, method: Method, version: str = "") -> LoadedServable:
        """See `DataPlane.resolve`. Requests to models that are not served are not counted."""
        resolving = self._plane.resolve(model, method, version)
        graph = self._metrics.graph(model)
        if graph is not None:
            counts = graph.calls[method, self._interface]
            return await observed_graph(resolving, graph.current, counts)
        observed = self._observed_model(model, method, version)
        if observed is None:
            return await resolving
        await observed.resolve(resolving)
        return observed

    def _observed_model(self, model: str, method: Method, version: str) -> ObservedModel | None:
        requests = self._metrics.model(model)
        counts = None if requests is None else requests.infer(version, method, self._interface)
        if requests is None or counts is None:
            return None
        return ObservedModel(requests, counts, self._interface)

    def is_model_ready(self, model: str, version: str = "") -> bool:
        with self._lookup(READY, model, version):
            return self._plane.is_model_ready(model, version)

    async def metadata(self, model: str, version: str = "") -> ModelMetadata:
        with self._lookup(METADATA, model, version):
            return await self._plane.metadata(model, version)

    @contextmanager
    def _lookup(self, method: str, name: str, version: str) -> Iterator[None]:
        found: Any = self._metrics.graph(name) or self._metrics.model(name)
        counts: LookupCounts | None = None
        if found is not None:
            counts = found.lookup(method, self._interface, version)
        try:
            yield
        except Exception:
            if counts is not None:
                counts.fail.counted += 1
            raise
        if counts is not None:
            counts.success.counted += 1

    # Not counted ----------------------------------------------------------------------------------

    async def inputs_of(self, model: str, version: str = "") -> Sequence[TensorMetadata]:
        return await self._plane.inputs_of(model, version)

    def models(self) -> Sequence[ModelDescription]:
        return self._plane.models()

    def statuses(self) -> dict[str, object]:
        return self._plane.statuses()

    @property
    def is_ready(self) -> bool:
        return self._plane.is_ready

    def index(self) -> Sequence[IndexEntry]:
        return self._plane.index()

    async def reload(self) -> bool:
        return await self._plane.reload()

    async def load(self, model: str) -> None:
        await self._plane.load(model)

    async def unload(self, model: str) -> None:
        await self._plane.unload(model)
