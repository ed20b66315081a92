"""One served graph: what the configuration says of it, and where it stands."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from calculators.file_threads import in_file_thread
from calculators.openvino.model_provider import ModelProvider
from graph_runtime import GraphError, NodePlan, Registry, ResourceError, ValidationError
from graph_runtime.engine.states import next_state
from graph_runtime.errors import reason_of
from servers.config import GraphEntry
from servers.contract.data_plane import IndexEntry, ModelMetadata
from servers.contract.servable_states import SERVABLE_TRANSITIONS, ServableEvent, ServableState
from servers.serving.adapter_names import adapter_names_of
from servers.serving.graph_inference.graph_interface import VERSION, VERSIONS
from servers.serving.loaded_graph import GraphSettings, LoadedGraph, load_graph
from servers.serving.servable_status import index_entry, unavailable_error, version_status
from servers.serving.watched_files import WatchedFiles, files_around, files_of

_log: Final = logging.getLogger(__name__)

#: Files, and their digest.
_Watched: TypeAlias = tuple[WatchedFiles, str]
#: What it is made from, of a failure what lies around too, and its adapters.
_Looked: TypeAlias = tuple[_Watched, _Watched, tuple[str, ...]]


async def _alone() -> None:
    """Nobody else is there to wait for."""


#: The directories of an absolute path; no URL, and no ``type.googleapis.com/...``.
_DIRECTORIES: Final = re.compile(r"""(?<![\w.:/~-])(?:/[^\s/'"`,;:()]+)+/(?=[^\s/])""")


class GraphDefinition:
    """A graph by name, through loading, answering and retiring: a `Servable`.

    Attributes:
        entry: its name and files.
        graph: what answers; None unless it is AVAILABLE.
        state: where it stands.
        reason: why it could not be loaded, for clients: no paths of this machine; "" otherwise.
        adapters: further names under which it answers, as its files said when it was made or last
            loaded.
        created: when it was loaded, or could be, Unix time in seconds.
        hold_up: how a node of it held up the event loop, in words; "" when none has since it was
            loaded.
    """

    def __init__(
        self,
        entry: GraphEntry,
        registry: Registry,
        settings: GraphSettings | None = None,
        models: ModelProvider | None = None,
        shared: tuple[Path, ...] = (),
        owner_of: Callable[[str], str] = lambda name: "",
        others_looked: Callable[[], Awaitable[None]] = _alone,
        on_adapters: Callable[[], object] = lambda: None,
    ) -> None:
        """
        Args:
            models: of its session nodes; without, those beside the graph.
            shared: modules whose calculators ``registry`` has, which are watched like its own.
            owner_of: who else answers under a name, in words; "" is nobody.
            others_looked: waits until the names of those that come before it are known.
            on_adapters: called when it is known to have adapters.
        """
        self.entry = entry
        self._registry = registry
        self._settings = settings
        self._models = models
        self._shared = shared
        #: What it was made from, with the digest; of a failure also what lies around.
        self._files = self._around = (WatchedFiles(), "")
        self._owner_of = owner_of
        self._others_looked = others_looked
        self._on_adapters = on_adapters
        self.adapters: tuple[str, ...] = ()
        #: Looks at its files; None before, and once it is loaded or could not be.
        self._looking: asyncio.Task[_Looked] | None = None
        self.graph: LoadedGraph | None = None
        self.reason = ""
        self.created = 0
        self.hold_up = ""
        self.state = ServableState.START

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def unavailable_reason(self) -> str:
        """Why it cannot answer now though it is loaded; "" while it can."""
        return self.graph.unavailable_reason if self.graph is not None else ""

    async def load(self) -> None:
        """Load it unless it is loaded. A failure is logged and kept as `reason`, not raised."""
        if self.state is ServableState.AVAILABLE:
            return
        self._move(ServableEvent.LOAD)
        self.reason = self.hold_up = ""
        _log.info("%s: loading", self.name)
        start = time.monotonic()
        try:
            # Before: what changes while it loads is seen as a change afterwards.
            await self.prepare()
            looking, self._looking = self._looking, None
            assert looking is not None, "it has looked"
            self._files, self._around, self.adapters = looking.result()
            await self._check_names()
            self.graph = await load_graph(self.entry, self._registry, self._settings, self._models)
        except Exception as error:
            self._fail(error)
            return
        except asyncio.CancelledError:
            if self._looking is not None:
                self._looking.cancel()
            self.reason = "its loading was interrupted"
            self._move(ServableEvent.LOAD_FAILED)
            raise
        for warning in self.graph.plan.warnings:
            _log.warning("%s: %s", self.name, warning)
        self.created = int(time.time())
        self._move(ServableEvent.LOADED)
        _log.info("%s: loaded in %.1f s", self.name, time.monotonic() - start)

    async def prepare(self) -> None:
        """See under which names it answers, before it is loaded or deferred. What cannot be read
        is told by `load`."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name=f"look at {self.name}")
        await self.looked()

    async def looked(self) -> None:
        """Wait until `adapters` are known, if that is under way."""
        if self._looking is not None and not self._looking.done():
            await asyncio.wait({self._looking})

    def defer(self) -> None:
        """The next request is to load it."""
        self.reason = ""
        self.created = self.created or int(time.time())
        self._move(ServableEvent.DEFER)

    def is_outdated(self) -> bool:
        """Are its files others than when it was loaded, or could not be? For a thread."""
        if self.state is ServableState.AVAILABLE:
            files, digest = self._files
        elif self.state is ServableState.FAILED:
            files, digest = self._around
        else:
            return False
        return files.digest() != digest

    async def _look(self) -> _Looked:
        what = f'the files of the graph "{self.name}"'
        found = await in_file_thread(what, self._read)
        self.adapters = found[2]
        if self.adapters:
            self._on_adapters()
        return found

    def _read(self) -> _Looked:
        files = files_of(self.entry, self._registry, self._shared)
        around = files_around(self.entry, files)
        adapters = adapter_names_of(self.entry, self._registry)
        return (files, files.digest()), (around, around.digest()), adapters

    async def _check_names(self) -> None:
        """See that nobody else answers under its names.

        Raises:
            ResourceError: somebody does.
        """
        if self.adapters:
            await self._others_looked()
        if owner := self._owner_of(self.name):
            raise ResourceError(f'the name "{self.name}" is that of {owner}; choose another')
        for adapter in self.adapters:
            if owner := self._owner_of(adapter):
                raise ResourceError(
                    f'the adapter "{adapter}" has the name of {owner}; name it otherwise'
                )

    def _fail(self, error: Exception) -> None:
        text = _text_of(error)
        self.reason = without_directories(text, str(self.entry.directory))
        self._move(ServableEvent.LOAD_FAILED)
        # What graphrt reports says where and what; of the rest only the traceback tells.
        is_known = isinstance(error, GraphError) and not _log.isEnabledFor(logging.DEBUG)
        _log.error(
            "%s: could not be loaded: %s", self.name, text, exc_info=None if is_known else error
        )

    async def retire(self) -> None:
        """Take no new requests, wait for those in flight, close the resources."""
        if self.state in (ServableState.UNLOADING, ServableState.END):
            return
        if self._looking is not None and not self._looking.done():
            self._looking.cancel()
            await asyncio.wait({self._looking})
        graph, self.graph = self.graph, None
        self._move(ServableEvent.RETIRE)
        if graph is not None:
            try:
                await graph.close()
            except Exception:
                _log.exception("%s: its resources could not be closed", self.name)
            _log.info("%s: unloaded", self.name)
        self._move(ServableEvent.UNLOADED)

    # What it says of itself -----------------------------------------------------------------------

    def status(self, note: str = "") -> dict[str, object]:
        """Its part of ``GET /v1/config``. Graphs have one version, as there."""
        stuck = self.graph.stuck if self.graph is not None else ""
        note = "; ".join(each for each in (note, self.hold_up, stuck) if each)
        return {
            "model_version_status": [
                version_status(VERSION, self.state, self.reason, self.unavailable_reason, note)
            ]
        }

    def holds(self, node: NodePlan) -> bool:
        """Is it one of the nodes of what answers now? For any thread."""
        graph = self.graph
        return graph is not None and any(each is node for each in graph.plan.nodes)

    def index(self) -> Sequence[IndexEntry]:
        """Its part of the repository's index."""
        return [index_entry(self.name, VERSION, self.state, self.reason, self.unavailable_reason)]

    def is_ready(self, version: str) -> bool:
        """Would it answer now?

        Raises:
            NotFoundError: it is loaded, and has no such version.
        """
        if self.state is ServableState.ON_DEMAND:
            return version in VERSIONS
        return self.graph is not None and self.graph.is_ready(version)

    def metadata(self, version: str) -> ModelMetadata:
        """See `servers.contract.data_plane.DataPlane.metadata`."""
        return self.loaded(version).metadata(version)

    # Answering ------------------------------------------------------------------------------------

    def loaded(self, version: str) -> LoadedGraph:
        """What answers.

        Raises:
            UnavailableError: it is not loaded.
            NotFoundError: no such version.
        """
        graph = self.graph
        if graph is None:
            raise unavailable_error(f'The model "{self.name}"', self.state, self.reason)
        graph.check_version(version)
        return graph

    def idle_seconds(self) -> float:
        """How long nobody has used what is loaded; 0 while somebody does."""
        return 0.0 if self.graph is None else self.graph.users.idle_seconds()

    def _move(self, event: ServableEvent) -> None:
        self.state = next_state(SERVABLE_TRANSITIONS, self.state, event)


def without_directories(text: str, directory: str) -> str:
    """A text without absolute paths: of each, and of ``directory``, the last name is left.

    One line, for JSON and for logs of clients.
    """
    text = text.replace(directory + os.sep, "").replace(directory, os.path.basename(directory))
    return " ".join(_DIRECTORIES.sub("", text).split())


def _text_of(error: Exception) -> str:
    if isinstance(error, ValidationError):  # without the line above the findings
        return "\n".join(str(finding) for finding in error.findings)
    return reason_of(error)
