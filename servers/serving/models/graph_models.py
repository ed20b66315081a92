"""`GraphModels`: where the sessions of a served graph find their models."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from calculators.openvino.directory_models import DirectoryModels
from calculators.openvino.model import Model
from graph_runtime import NotFoundError
from graph_runtime.errors import did_you_mean
from servers.serving.models.model_definition import ModelDefinition


class ConfiguredModels(Protocol):
    """The plain models of the configuration, as it is now."""

    def model_names(self) -> Collection[str]:
        """Those that sessions may name."""

    async def awake_model(self, name: str) -> ModelDefinition | None:
        """The model, loaded if that is to be on demand; None if there is none of this name.

        Raises:
            UnavailableError: it cannot be loaded now.
        """


class GraphModels:
    """A `calculators.openvino.model_provider.ModelProvider`: models of the configuration, which
    graphs and clients share, then those beside the graph.
    """

    def __init__(self, configured: ConfiguredModels, directory: Path) -> None:
        self._configured = configured
        self._beside = DirectoryModels(directory)

    async def get(self, name: str, version: int | None = None) -> Model:
        """The model; one of the configuration that is still loading is waited for.

        Raises:
            NotFoundError: no such model or version.
            UnavailableError: the configuration has it, but it could not be loaded, or was unloaded.
            GraphError: OpenVINO cannot load it (FAILED_PRECONDITION).
        """
        definition = await self._configured.awake_model(name)
        if definition is not None:
            return await definition.for_session(version)
        try:
            return await self._beside.get(name, version)
        except NotFoundError as error:
            near = did_you_mean(name, self._configured.model_names())
            raise NotFoundError(f"{error}{near}") from None
