"""`MODELS`: the service that gives sessions their models, by default from a directory.

In the layout of OpenVINO Model Server a model is a folder by its name, which has a folder for each
version: ``NAME/VERSION/model.xml``. A `PlainModelSource` names the file of one version, and loads
it.
"""

from __future__ import annotations

import asyncio
import glob
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from calculators.tensors.openvino.model_settings import ModelSettings
from graph_runtime import Code, GraphError, GraphService, LoadProgress, NotFoundError, identity_of
from graph_runtime.errors import did_you_mean

if TYPE_CHECKING:
    from calculators.tensors.openvino.model import Model

#: The files that OpenVINO reads, in the order of OpenVINO Model Server.
SUFFIXES: Final = (".xml", ".onnx", ".pb", ".pdmodel", ".tflite")
NO_FILE: Final = f"has no file that ends in {', '.join(SUFFIXES)}"

#: The file of a TensorFlow model, which is read as a folder.
_SAVED_MODEL: Final = "saved_model.pb"


def versions_in(folder: Path) -> dict[int, Path]:
    """Return the folders of versions in a model's folder, by their numbers, in rising order."""
    if not folder.is_dir():
        return {}
    found = {
        int(path.name): path
        for path in folder.iterdir()
        if path.name.isascii() and path.name.isdecimal() and int(path.name) > 0 and path.is_dir()
    }
    return dict(sorted(found.items()))


def model_in(folder: Path) -> Path | None:
    """Return the file or folder that OpenVINO can read in the folder of a version, or None.

    Raises:
        GraphError: there are several (FAILED_PRECONDITION).
    """
    if (folder / _SAVED_MODEL).is_file():
        return folder
    for suffix in SUFFIXES:
        found = sorted(folder.glob(f"*{suffix}"))
        if len(found) > 1:
            names = ", ".join(file.name for file in found[:10])
            raise GraphError(
                f'the folder "{folder.name}" holds {len(found)} models: {names}; leave one of '
                f"them, or serve a model of several files by a graph.pbtxt beside them",
                code=Code.FAILED_PRECONDITION,
            )
        if found:
            return found[0]
    return None


@dataclass(frozen=True, slots=True)
class PlainModelSource:
    """The arguments of `calculators.tensors.openvino.model_loading.load_model`."""

    file: Path
    name: str
    version: int
    settings: ModelSettings

    def load(self, progress: LoadProgress | None = None) -> Model:
        """Call `load_model`."""
        # Here: checks load nothing.
        from calculators.tensors.openvino.model_loading import load_model

        return load_model(self.file, self.name, self.version, self.settings, progress)


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


class _Loaded(NamedTuple):
    """A model, and the identity of its files before it was read; "" if they changed meanwhile."""

    model: Model
    identity: str


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
        self._models: dict[tuple[str, int], _Loaded] = {}
        #: Models that were loaded for the graph before, until this one needs them.
        self._before: dict[tuple[str, int], _Loaded] = {}

    def follow(self, other: DirectoryModels) -> None:
        """Take models that ``other`` has used from there, unless their files have changed.

        Both have the same settings.
        """
        # What was not used between two changes of a graph is not kept for ever. Without the lock,
        # which a thread holds while it loads a model: a dict is copied in one step.
        self._before = dict(other._models or other._before)

    async def get(self, name: str, version: int | None = None) -> Model:
        """Return the model, loaded in a thread; see
        `ModelProvider`.

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

    def file_of(self, name: str) -> Path | None:
        """See `ModelProvider.file_of`."""
        versions = self._versions(name)
        if not versions:
            return None
        number, path = max(versions.items())
        return _model_file(path, name, number) if path.is_dir() else path

    async def source(self, name: str, version: int | None = None) -> PlainModelSource:
        """See `ModelSources`."""
        file, found = await asyncio.to_thread(self._find, name, version)
        return PlainModelSource(file, name, found, self._settings)

    def _get(self, name: str, version: int | None) -> Model:
        with self._lock:
            file, found = self._find(name, version)
            key = name, found
            loaded = self._models.get(key)
            if loaded is None:
                identity = _identity_of(file)
                loaded = self._before.pop(key, None)
                if loaded is None or loaded.identity != identity:
                    loaded = None  # free it first
                    model = self._load(file, name, found)
                    loaded = _Loaded(model, identity if _identity_of(file) == identity else "")
                self._models[key] = loaded
            return loaded.model

    def _find(self, name: str, version: int | None) -> tuple[Path, int]:
        """Return the model's file and version."""
        if Path(name).name != name:
            raise NotFoundError(f'"{name}" is not the name of a model: it has folders in it')
        versions = self._versions(name)
        if not versions:
            raise NotFoundError(self._no_model(name))
        wanted = max(versions) if version is None else version
        if wanted not in versions:
            raise NotFoundError(
                f'the model "{name}" has no version {wanted}; '
                f"it has {', '.join(map(str, sorted(versions)))}"
            )
        path = versions[wanted]
        return (_model_file(path, name, wanted) if path.is_dir() else path), wanted

    def _versions(self, name: str) -> dict[int, Path]:
        """Return the folders of a model's versions, or its only file; empty: no such model."""
        folder = self._directory / name
        if versions := versions_in(folder):
            return versions
        files = (Path(f"{folder}{suffix}") for suffix in SUFFIXES)
        file = next((file for file in files if file.is_file()), None)
        return {} if file is None else {1: file}

    def _load(self, file: Path, name: str, version: int) -> Model:
        try:
            return PlainModelSource(file, name, version, self._settings).load()
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


def _identity_of(file: Path) -> str:
    """Return the identity of a model's files: weights have the name of their model."""
    return identity_of(files=[file, *file.parent.glob(f"{glob.escape(file.stem)}.*")])


def _model_file(folder: Path, name: str, version: int) -> Path:
    file = model_in(folder)
    if file is None:
        raise NotFoundError(f'version {version} of the model "{name}" {NO_FILE}')
    return file


def _here() -> ModelProvider:
    return DirectoryModels(Path())


#: A graph without a provider takes its models from the working directory.
MODELS: Final = GraphService[ModelProvider]("graphrt::ModelProvider", _here)
