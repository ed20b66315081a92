"""`ModelProvider`: the service that gives sessions their models."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from calculators.tensors.openvino.directory_models import DirectoryModels, PlainModelSource
from calculators.tensors.openvino.model import Model
from graph_runtime import GraphService


class ModelProvider(Protocol):
    """Models by name and version. A server of graphs provides one as the service `MODELS`."""

    async def get(self, name: str, version: int | None = None) -> Model:
        """Load the model if needed and return it; without ``version``, the default version.

        Raises:
            GraphError: no such model (NOT_FOUND), or it cannot be loaded (FAILED_PRECONDITION).
        """

    def file_of(self, name: str) -> Path | None:
        """Return the file of the model's default version; None if there is no such model.

        Reads folders. The model need not be loaded.

        Raises:
            GraphError: the model has no version, or no file (FAILED_PRECONDITION).
        """


class ModelSources(ModelProvider, Protocol):
    """Models that can be loaded elsewhere."""

    async def source(self, name: str, version: int | None = None) -> PlainModelSource:
        """Return what the model is loaded from, without loading it.

        Raises:
            GraphError: no such model (NOT_FOUND), or there are no files (FAILED_PRECONDITION).
        """


def _here() -> ModelProvider:
    return DirectoryModels(Path())


#: A graph without a provider takes its models from the working directory.
MODELS: Final = GraphService[ModelProvider]("graphrt::ModelProvider", _here)
