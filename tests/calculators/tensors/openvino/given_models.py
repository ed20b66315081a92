"""A `ModelProvider` of models that a test has made."""

from __future__ import annotations

from typing import Any

from calculators.tensors.openvino.model import Model
from graph_runtime import NotFoundError
from tests.calculators.tensors.openvino.tiny_models import compiled


class GivenModels:
    """Provider of models by their own names, from the objects that it was made with."""

    def __init__(self, *models: Any) -> None:
        self._models = {
            each.get_friendly_name(): Model.of(compiled(each), each.get_friendly_name())
            for each in models
        }

    async def get(self, name: str, version: int | None = None) -> Model:
        if name not in self._models:
            raise NotFoundError(f'there is no model "{name}"')
        return self._models[name]

    def file_of(self, name: str) -> None:
        return None
