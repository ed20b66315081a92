"""One plain model of the configuration with its versions."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from calculators.kit.file_threads import in_file_thread
from calculators.tensors.inference import quoted
from calculators.tensors.openvino.directory_models import DirectoryModels, PlainModelSource
from graph_runtime import GraphError, NotFoundError, UnavailableError
from graph_runtime.errors import did_you_mean
from servers.config import ModelEntry
from servers.config.entries import Scale
from servers.contract.data_plane import IndexEntry, ModelMetadata, ServableState
from servers.serving.loaded_graph import GraphSettings
from servers.serving.models.version_folders import VersionFolders, find_versions, source_of
from servers.serving.servable import (
    Loading,
    Servable,
    failure_of,
    index_entry,
    unavailable_error,
    version_status,
)

if TYPE_CHECKING:
    from calculators.tensors.openvino.model import Model
    from servers.serving.models.model_version import ModelVersion

_log: Final = logging.getLogger(__name__)

#: The state of a model is the first of these that one of its versions has.
_FIRST: Final = (
    ServableState.AVAILABLE,
    ServableState.LOADING,
    ServableState.UNLOADING,
    ServableState.FAILED,
    ServableState.START,
    ServableState.ON_DEMAND,
    ServableState.END,
)


class ModelDefinition:
    """A `servers.serving.servable.Servable`. Belongs to one event loop.

    Attributes:
        versions: in ascending order: the versions that the policy chose at the last load, and
            earlier ones until these are loaded and the last request to the earlier ones is over.
    """

    def __init__(self, entry: ModelEntry, settings: GraphSettings | None = None) -> None:
        self.entry = entry
        self.versions: dict[int, ModelVersion] = {}
        self._settings = settings or GraphSettings()
        #: The state of the model while it has no versions.
        self._state = ServableState.START
        #: Why the last load found no version; "" if it found one.
        self._reason = ""
        self._was_loaded = asyncio.Event()
        self._created = 0
        self._found = VersionFolders()
        self._file: Path | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def adapters(self) -> Sequence[str]:
        return ()

    @property
    def state(self) -> ServableState:
        # A copy, because other threads may read while versions come and go.
        states = {version.state for version in [*self.versions.values()]} or {self._state}
        return next(state for state in _FIRST if state in states)

    @property
    def reason(self) -> str:
        """The reason why no version could be loaded; "" otherwise."""
        if self.state is not ServableState.FAILED:
            return ""
        reasons = [each.reason for each in self.versions.values() if each.reason]
        return reasons[-1] if reasons else self._reason

    @property
    def failure(self) -> str:
        """Why a version that was to be loaded is not, though others may answer; "" otherwise."""
        if self.state is ServableState.FAILED:
            return self.reason
        versions = [*self.versions.values()]
        return self._reason or failure_of(
            (str(each.number), each.reason)
            for each in versions
            if each.state is ServableState.FAILED
        )

    @property
    def http_role(self) -> None:
        return None

    @property
    def created(self) -> int:
        return max((version.created for version in self._available()), default=self._created)

    @property
    def unavailable_reason(self) -> str:
        """Always "": a loaded version answers."""
        return ""

    # Life -----------------------------------------------------------------------------------------

    def inherit(self, old: Servable) -> None:
        """Take nothing: an entry that is the same keeps its servable, with its versions."""

    def rescale(self, scale: Scale) -> None:
        """Do nothing: a plain model is loaded once, in this process."""

    async def prepare(self) -> None:
        """Do nothing: a plain model has no adapters whose names would have to be read."""

    async def looked(self) -> None:
        """Do nothing: a plain model has no adapters whose names would have to be read."""

    async def load(self) -> None:
        """Load the versions that the policy chooses now; then retire others.

        Failures are logged and kept. If there is no version at all, loaded ones stay.
        """
        self._was_loaded.clear()
        self._file = None
        self._state, reason = ServableState.LOADING, "its loading was interrupted"
        try:
            self._found = await in_file_thread(
                f'the files of the model "{self.name}"', find_versions, self.entry
            )
            await self._load_versions(self._found.paths())
            reason = ""
        except GraphError as error:
            reason = str(error)
            _log.error("%s: could not be loaded: %s", self.name, error)
            if not self._available():
                self.versions = {}
        finally:
            self._state, self._reason = ServableState.FAILED, reason
            self._was_loaded.set()

    async def _load_versions(self, paths: Mapping[int, Path]) -> None:
        # In a thread, and here: most servers of language models have no plain models.
        await asyncio.to_thread(import_module, "servers.serving.models.model_version")
        from servers.serving.models.model_version import ModelVersion

        chosen = self.entry.policy.chosen(paths)
        kept = {number: each for number, each in self.versions.items() if _answers(each)}
        for number in chosen:
            if number not in kept:
                kept[number] = ModelVersion(self.entry, number, self._settings)
                kept[number].files = self._found.listings[number]
        self.versions = dict(sorted(kept.items()))
        await asyncio.gather(
            *(
                self.versions[each].load(paths.get(each))
                for each in chosen
                if not _answers(kept[each])
            )
        )
        # After loading, so that there is always a version that answers.
        if any(_answers(kept[number]) for number in chosen):
            for number, version in kept.items():
                if number not in chosen:
                    self._leave(version)
            await asyncio.sleep(0)  # versions without requests are gone after one turn

    def _leave(self, version: ModelVersion) -> None:
        """Retire, in the background, a version that the policy no longer chooses."""
        version.begin_retiring()

        async def end() -> None:
            await version.end_retiring()
            if self.versions.get(version.number) is version:
                del self.versions[version.number]

        leaving = asyncio.create_task(end(), name=f"unload version of {self.name}")
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)

    def defer(self) -> None:
        """Let the next request load the model."""
        self.versions = {}
        self._state, self._reason = ServableState.ON_DEMAND, ""
        self._created = self._created or int(time.time())

    def is_outdated(self) -> bool:
        """Return True if there are other versions, or other files of a failed one. For a thread."""
        if self.state not in (ServableState.AVAILABLE, ServableState.FAILED):
            return False
        loaded = {each.number for each in [*self.versions.values()] if _answers(each)}
        return not find_versions(self.entry).is_as(self._found, loaded)

    def is_overwritten(self) -> bool:
        """Return True if the files of a loaded version have changed. For a thread."""
        loaded = [each for each in [*self.versions.values()] if _answers(each)]
        present = find_versions(self.entry).listings if loaded else {}
        return any(present.get(each.number, ()) not in ((), each.files) for each in loaded)

    def fingerprint(self) -> str:
        """Return a word for the files that loading would read. For a thread.

        Machines that share the files find the same word.
        """
        found = find_versions(self.entry)
        files = [
            (number, name, marks and (marks.size, marks.modified_ns))
            for number, listing in found.listings.items()
            for name, marks in listing
        ]
        return repr((files, str(found.problem or "")))

    async def check_names(self) -> None:
        """Do nothing: a plain model has no adapters, whose names could be another servable's."""

    async def retire(self) -> None:
        """Refuse new requests and wait for requests in flight."""
        if not self.versions:
            self._state = ServableState.END
        await self._retire([*self.versions.values()])
        await asyncio.gather(*self._leaving)

    async def _retire(self, versions: Iterable[ModelVersion]) -> None:
        begun = [version for version in versions if version.begin_retiring()]
        for version in begun:  # returns at once without requests in flight
            await version.end_retiring()

    # Status ---------------------------------------------------------------------------------------

    def loading(self) -> Sequence[Loading]:
        """Return the versions that are being loaded; empty if none is."""
        loading = (version.loading for version in [*self.versions.values()])
        return [each for each in loading if each is not None]

    def status(self, note: str = "") -> dict[str, object]:
        """Return the model's part of ``GET /v1/config``."""
        if self._reason and self.state is ServableState.AVAILABLE:
            kept = f"the loaded versions answer, but loading them again would fail: {self._reason}"
            note = "; ".join(each for each in (kept, note) if each)
        return {
            "model_version_status": [
                version_status(
                    str(number), each.state, each.reason, note=note, loading=each.loading
                )
                for number, each in self.versions.items()
            ]
            or [version_status("1", self._state, self.reason, note=note)]
        }

    def index(self) -> Sequence[IndexEntry]:
        """Return a line per version, or one line without a version if there is none."""
        return [
            index_entry(self.name, str(number), each.state, each.reason)
            for number, each in self.versions.items()
        ] or [index_entry(self.name, "", self._state, self.reason)]

    def is_ready(self, version: str) -> bool:
        """Return True if this version answers, or any version for "" and "0".

        Raises:
            NotFoundError: there is no such version.
        """
        if self.state is ServableState.ON_DEMAND:
            return True  # the versions are known once it is loaded
        if version in ("", "0"):
            return bool(self._available())
        return self._named(version).model is not None

    def metadata(self, version: str) -> ModelMetadata:
        """Return the metadata of a loaded version.

        Raises:
            NotFoundError, UnavailableError: the version is not loaded.
        """
        from servers.serving.models.request_tensors import metadata_of  # here: see `_load_versions`

        model = self._model(self.loaded(version))
        return ModelMetadata(
            self.name,
            tuple(str(each.number) for each in self._available()),
            "OpenVINO",
            tuple(map(metadata_of, model.inputs)),
            tuple(map(metadata_of, model.outputs)),
            model.rt_info,
        )

    # Answering ------------------------------------------------------------------------------------

    def loaded(self, version: str) -> ModelVersion:
        """Return a loaded version. "" and "0" are the highest one, as in OpenVINO Model Server.

        Raises:
            NotFoundError, UnavailableError: the version is not loaded.
        """
        if version not in ("", "0"):
            found = self._named(version)
            if found.model is None:
                what = f'Version {found.number} of the model "{self.name}"'
                raise unavailable_error(what, found.state, found.reason)
            return found
        available = self._available()
        if not available:
            raise unavailable_error(f'The model "{self.name}"', self.state, self.reason)
        return available[-1]

    def idle_seconds(self) -> float:
        """Return the seconds since the last request to any version ended; 0 during one."""
        return min((each.users.idle_seconds() for each in self.versions.values()), default=0.0)

    async def for_session(self, version: int | None) -> Model:
        """Return the model for a graph, once it is loaded. Without a version, the default one.

        Raises:
            NotFoundError: there is no such version.
            UnavailableError: the model could not be loaded, or is no longer served.
        """
        await self._was_loaded.wait()
        found = self.loaded("" if version is None else str(version))
        found.users.touch()
        return self._model(found)

    async def source(self, version: int | None) -> PlainModelSource:
        """Return what a version is loaded from; without a number, the highest that is chosen.

        Raises:
            NotFoundError: there is no such version.
            GraphError: there is no version, or no model in its folder (FAILED_PRECONDITION).
        """
        what = f'the files of the model "{self.name}"'
        return await in_file_thread(what, self._source, version)

    def file(self) -> Path:
        """Return the file of the default version, as it was when the model was last loaded.

        Before that it is looked for, which reads folders.

        Raises:
            GraphError: there is no version, or no model in its folder (FAILED_PRECONDITION).
        """
        file = self._file or self._source(None).file
        if self._was_loaded.is_set():
            self._file = file  # graphs ask for it at each request
        return file

    def _source(self, version: int | None) -> PlainModelSource:
        paths = find_versions(self.entry).paths()
        chosen = self.entry.policy.chosen(paths)
        number = max(chosen) if version is None else version
        if number not in chosen:
            raise self._no_version(str(number), chosen)
        return source_of(self.entry, number, paths.get(number))

    # Versions -------------------------------------------------------------------------------------

    def _available(self) -> list[ModelVersion]:
        return [version for version in self.versions.values() if version.model is not None]

    def _named(self, text: str) -> ModelVersion:
        is_number = text.isascii() and text.isdecimal() and len(text) < 20
        found = self.versions.get(int(text)) if is_number else None
        if found is None:
            raise self._no_version(text, self.versions)
        return found

    def _no_version(self, text: str, versions: Iterable[int]) -> NotFoundError:
        there = ", ".join(map(str, versions)) or "none"
        return NotFoundError(
            f'The model "{self.name}" has no version {quoted(text)}; it has {there}'
        )

    def _model(self, version: ModelVersion) -> Model:
        if version.model is None:
            raise UnavailableError(f'The model "{self.name}" is not served any more')
        return version.model


def _answers(version: ModelVersion) -> bool:
    return version.state is ServableState.AVAILABLE


class ConfiguredModels(Protocol):
    """The plain models of the present configuration."""

    def model_names(self) -> Collection[str]:
        """Return the names that sessions may use."""

    def find_model(self, name: str) -> ModelDefinition | None:
        """Return the model, loaded or not; None if there is no such name."""

    async def awake_model(self, name: str, group: str) -> ModelDefinition | None:
        """Return the model, loaded if it loads on demand; None if there is no such name.

        Raises:
            UnavailableError: the model cannot be loaded now, or not beside ``group``, the graph's.
        """


class GraphModels:
    """The `calculators.tensors.openvino.directory_models.ModelSources` of a graph.

    It has the models of the configuration, which graphs and clients share, and then the models
    beside the graph.
    """

    def __init__(self, configured: ConfiguredModels, directory: Path, group: str = "") -> None:
        self._configured = configured
        self._group = group
        self._beside = DirectoryModels(directory)
        self._asked: set[str] = set()

    def used(self) -> object:
        """Return a mark of the configuration's models that were asked for. Safe in any thread.

        Equal marks are of the same models with the same versions.
        """
        found = [(name, self._configured.find_model(name)) for name in sorted(self._asked)]
        return [(name, each, each and [*each.versions.values()]) for name, each in found]

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
        self._asked.add(name)
        definition = await self._configured.awake_model(name, self._group)
        if definition is not None:
            return await definition.for_session(version)
        with self._naming_others(name):
            return await self._beside.get(name, version)

    def file_of(self, name: str) -> Path | None:
        """See `calculators.tensors.openvino.directory_models.ModelProvider.file_of`."""
        definition = self._configured.find_model(name)
        return self._beside.file_of(name) if definition is None else definition.file()

    async def source(self, name: str, version: int | None = None) -> PlainModelSource:
        """See `calculators.tensors.openvino.directory_models.ModelSources`."""
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
