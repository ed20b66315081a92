"""`ModelSource`: all that loading a model needs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from calculators.tensors.openvino.model_settings import ModelSettings

if TYPE_CHECKING:
    from calculators.tensors.openvino.model import Model
    from graph_runtime import LoadProgress


@dataclass(frozen=True, slots=True)
class ModelSource:
    """The arguments of `calculators.tensors.openvino.model_loading.load_model`."""

    file: Path
    name: str
    version: int
    settings: ModelSettings

    def load(self, progress: LoadProgress | None = None) -> Model:
        """Call `load_model`."""
        from calculators.tensors.openvino.model_loading import (
            load_model,  # here: checks load nothing
        )

        return load_model(self.file, self.name, self.version, self.settings, progress)
