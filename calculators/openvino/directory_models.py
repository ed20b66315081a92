"""`DirectoryModels`: models in a directory, in the layout of OpenVINO Model Server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from calculators.openvino.model import Model
from calculators.openvino.openvino_reason import openvino_reason
from graph_runtime import Code, GraphError, NotFoundError
from graph_runtime.errors import did_you_mean

#: What OpenVINO reads, in the order of OpenVINO Model Server.
_SUFFIXES: Final = (".xml", ".onnx", ".pb", ".pdmodel", ".tflite")


class DirectoryModels:
    """Finds the model NAME as ``NAME/VERSION/ANY.xml``, else as ``NAME.xml``, which is version 1.

    VERSION is a positive number; without one in the question it is the highest. Besides OpenVINO's
    ``.xml`` (with its ``.bin``) a file may be ONNX, TensorFlow, PaddlePaddle or TensorFlow Lite.
    A model is loaded once, when it is first asked for, and kept.
    """

    def __init__(
        self,
        directory: Path,
        *,
        target_device: str = "CPU",
        plugin_config: Mapping[str, Any] | None = None,
        nireq: int = 0,
    ) -> None:
        """``nireq``: infer requests per model, 0 is as many as OpenVINO advises."""
        self._directory = directory
        self._target_device = target_device
        self._plugin_config = dict(plugin_config or {})
        self._nireq = nireq
        self._lock = threading.Lock()
        self._core: Any = None
        self._models: dict[tuple[str, int], Model] = {}

    async def get(self, name: str, version: int | None = None) -> Model:
        """The model, loaded in a thread; see `calculators.openvino.model_provider.ModelProvider`.

        Raises:
            NotFoundError: no such model or version.
            GraphError: OpenVINO cannot load it (FAILED_PRECONDITION), or its tensors cannot be
                NumPy arrays (UNIMPLEMENTED).
        """
        return await asyncio.to_thread(self._get, name, version)

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
        versions = _versions(folder)
        if not versions:
            file = next(
                (path for suffix in _SUFFIXES if (path := Path(f"{folder}{suffix}")).is_file()),
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

    def _no_model(self, name: str) -> str:
        known = [
            path.name if path.is_dir() else path.stem
            for path in (self._directory.iterdir() if self._directory.is_dir() else ())
            if _versions(path) or path.suffix in _SUFFIXES
        ]
        return (
            f'there is no model "{name}": neither {name}/1/model.xml nor {name}.xml beside the '
            f"graph.{did_you_mean(name, known)}"
        )

    def _load(self, file: Path, name: str, version: int) -> Model:
        import openvino  # here: processes without such a model do not load it

        if self._core is None:
            self._core = openvino.Core()
        try:
            compiled = self._core.compile_model(file, self._target_device, self._plugin_config)
        except Exception as error:
            raise GraphError(
                f'the model "{name}" (version {version}) cannot be loaded on '
                f"{self._target_device}: {openvino_reason(error)}",
                code=Code.FAILED_PRECONDITION,
            ) from error
        return Model(compiled, name, version, self._nireq)


def _versions(folder: Path) -> dict[int, Path]:
    """The folders of versions in a model's folder."""
    if not folder.is_dir():
        return {}
    return {
        int(path.name): path
        for path in folder.iterdir()
        if path.name.isascii() and path.name.isdecimal() and int(path.name) > 0 and path.is_dir()
    }


def _model_file(folder: Path, name: str, version: int) -> Path:
    for suffix in _SUFFIXES:
        found = sorted(folder.glob(f"*{suffix}"))
        if found:
            return found[0]
    raise NotFoundError(
        f'version {version} of the model "{name}" has no file that ends in {", ".join(_SUFFIXES)}'
    )
