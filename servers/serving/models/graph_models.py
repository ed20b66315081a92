"""`GraphModels`: the models for the sessions of a served graph."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from calculators.tensors.openvino.directory_models import DirectoryModels
from calculators.tensors.openvino.model import Model
from calculators.tensors.openvino.model_source import ModelSource
from graph_runtime import NotFoundError
from graph_runtime.errors import did_you_mean
from servers.serving.models.model_definition import ModelDefinition


class ConfiguredModels(Protocol):
    """The plain models of the present configuration."""

    def model_names(self) -> Collection[str]:
        """Return the names that sessions may use."""

    def find_model(self, name: str) -> ModelDefinition | None:
        """Return the model, loaded or not; None if there is no such name."""

    async def awake_model(self, name: str) -> ModelDefinition | None:
        """Return the model, loaded if it loads on demand; None if there is no such name.

        Raises:
            UnavailableError: the model cannot be loaded now.
        """


class GraphModels:
    """The `calculators.tensors.openvino.model_provider.ModelSources` of a graph.

    It has the models of the configuration, which graphs and clients share, and then the models
    beside the graph.
    """

    def __init__(self, configured: ConfiguredModels, directory: Path) -> None:
        self._configured = configured
        self._beside = DirectoryModels(directory)

    def follow(self, other: GraphModels) -> None:
        """Take the models beside the graph from ``other``, unless their files have changed."""
        self._beside.follow(other._beside)

    async def get(self, name: str, version: int | None = None) -> Model:
        """Return the model. Waits for a model of the configuration that is still loading.

        Raises:
            NotFoundError: there is no such model or version.
            UnavailableError: the model of the configuration could not be loaded, or was unloaded.
            GraphError: OpenVINO cannot load the model (FAILED_PRECONDITION).
        """
        definition = await self._configured.awake_model(name)
        if definition is not None:
            return await definition.for_session(version)
        with self._naming_others(name):
            return await self._beside.get(name, version)

    async def source(self, name: str, version: int | None = None) -> ModelSource:
        """See `calculators.tensors.openvino.model_provider.ModelSources`."""
        definition = self._configured.find_model(name)
        if definition is not None:
            return await definition.source(version)
        with self._naming_others(name):
            return await self._beside.source(name, version)

    @contextmanager
    def _naming_others(self, name: str) -> Iterator[None]:
        try:
            yield
        except NotFoundError as error:
            near = did_you_mean(name, self._configured.model_names())
            raise NotFoundError(f"{error}{near}") from None
