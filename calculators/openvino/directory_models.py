"""`DirectoryModels`: models in a directory, in the layout of OpenVINO Model Server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from calculators.openvino.model import Model
from calculators.openvino.model_folder import NO_FILE, SUFFIXES, model_in, versions_in
from calculators.openvino.model_loading import load_model
from calculators.openvino.model_settings import ModelSettings
from graph_runtime import GraphError, NotFoundError
from graph_runtime.errors import did_you_mean


class DirectoryModels:
    """Finds the model NAME as ``NAME/VERSION/ANY.xml``, else as ``NAME.xml``, which is version 1.

    VERSION is a positive number; a request without one gets the highest. Besides OpenVINO's
    ``.xml`` (with its ``.bin``) a file may be ONNX, TensorFlow, PaddlePaddle or TensorFlow Lite.
    A model is loaded once, when it is first requested, and kept.
    """

    def __init__(
        self,
        directory: Path,
        *,
        target_device: str = "CPU",
        plugin_config: Mapping[str, Any] | None = None,
        nireq: int = 0,
    ) -> None:
        """``nireq``: infer requests per model; 0 is the number that OpenVINO recommends."""
        self._directory = directory
        self._settings = ModelSettings(
            target_device=target_device, plugin_config=dict(plugin_config or {}), nireq=nireq
        )
        self._lock = threading.Lock()
        self._models: dict[tuple[str, int], Model] = {}

    async def get(self, name: str, version: int | None = None) -> Model:
        """The model, loaded in a thread; see `calculators.openvino.model_provider.ModelProvider`.

        Raises:
            NotFoundError: no such model or version.
            GraphError: OpenVINO cannot load it (FAILED_PRECONDITION), or its tensors cannot be
                NumPy arrays (UNIMPLEMENTED).
        """
        return await asyncio.to_thread(self._get, name, version)

    def check(self, name: str, version: int | None = None) -> None:
        """Check that the model exists, without loading it.

        Raises:
            NotFoundError: no such model or version.
        """
        self._find(name, version)

    def _get(self, name: str, version: int | None) -> Model:
        with self._lock:
            file, found = self._find(name, version)
            model = self._models.get((name, found))
            if model is None:
                model = self._models[name, found] = self._load(file, name, found)
            return model

    def _find(self, name: str, version: int | None) -> tuple[Path, int]:
        """The model's file and version."""
        if Path(name).name != name:
            raise NotFoundError(f'"{name}" is not the name of a model: it has folders in it')
        folder = self._directory / name
        versions = versions_in(folder)
        if not versions:
            file = next(
                (path for suffix in SUFFIXES if (path := Path(f"{folder}{suffix}")).is_file()),
                None,
            )
            if file is None:
                raise NotFoundError(self._no_model(name))
            versions = {1: file}
        wanted = max(versions) if version is None else version
        if wanted not in versions:
            raise NotFoundError(
                f'the model "{name}" has no version {wanted}; '
                f"it has {', '.join(map(str, sorted(versions)))}"
            )
        path = versions[wanted]
        return (_model_file(path, name, wanted) if path.is_dir() else path), wanted

    def _load(self, file: Path, name: str, version: int) -> Model:
        try:
            return load_model(file, name, version, self._settings)
        except GraphError as error:
            raise GraphError(
                f'the model "{name}" (version {version}) cannot be loaded: {error}', code=error.code
            ) from error

    def _no_model(self, name: str) -> str:
        known = [
            path.name if path.is_dir() else path.stem
            for path in (self._directory.iterdir() if self._directory.is_dir() else ())
            if versions_in(path) or path.suffix in SUFFIXES
        ]
        return (
            f'there is no model "{name}": neither {name}/1/model.xml nor {name}.xml beside the '
            f"graph.{did_you_mean(name, known)}"
        )


def _model_file(folder: Path, name: str, version: int) -> Path:
    file = model_in(folder)
    if file is None:
        raise NotFoundError(f'version {version} of the model "{name}" {NO_FILE}')
    return file
