"""One served graph: its entry in the configuration, its state, and what is loaded."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from calculators.kit.file_threads import in_file_thread
from calculators.kit.graph_directory import MissingFileError, find_graph_file
from calculators.tensors.openvino.directory_models import DirectoryModels
from graph_runtime import (
    Code,
    GraphError,
    KeptResources,
    NodePlan,
    Registry,
    ResourceError,
    ValidationError,
)
from graph_runtime.authoring.author_frame import author_frame
from graph_runtime.errors import reason_of
from graphrt_base.interrupts import contained, is_being_cancelled
from servers.config import GraphEntry
from servers.config.entries import Scale
from servers.contract.data_plane import (
    SERVABLE_TRANSITIONS,
    IndexEntry,
    ModelMetadata,
    ServableEvent,
    ServableState,
)
from servers.page.live_graph import ShownGraph
from servers.serving.graph_source import GraphSource
from servers.serving.loaded_graph import GraphSettings, LoadedGraph, load_graph, shown_graph
from servers.serving.models.model_definition import GraphModels
from servers.serving.servable import (
    VERSION,
    VERSIONS,
    HttpRole,
    Loading,
    Servable,
    index_entry,
    unavailable_error,
    version_status,
)
from servers.serving.watched_files import (
    Marks,
    WatchedFiles,
    files_around,
    files_of,
    named_files,
    source_of,
    store_addresses,
)

if TYPE_CHECKING:
    from servers.serving.stored_entry import StoredOptions

_log: Final = logging.getLogger(__name__)

#: The names of a graph's adapters, and the part that the graph plays below ``/v3/``.
_Declared: TypeAlias = tuple[tuple[str, ...], HttpRole | None]


class _Looked(NamedTuple):
    """The files of a graph before it is loaded.

    Attributes:
        files: those that are read, with their digest.
        around: the same and files around the graph that may repair a failure, with their digest.
        named: a word for the files that options name, which are models' mostly.
        declared: what the files declare.
        addresses: the addresses of object stores that options of nodes name.
    """

    files: tuple[WatchedFiles, str]
    around: tuple[WatchedFiles, str]
    named: str
    declared: _Declared
    addresses: tuple[str, ...] = ()


_NOTHING_SEEN: Final = _Looked((WatchedFiles(), ""), (WatchedFiles(), ""), "", ((), None))


async def _alone() -> None:
    """Wait for no other graph."""


#: The directories of an absolute path, but not of a URL or ``type.googleapis.com/...``.
_DIRECTORIES: Final = re.compile(r"""(?<![\w.:/~-])(?:/[^\s/'"`,;:()]+)+/(?=[^\s/])""")


class GraphDefinition:
    """A graph by name, through loading, answering and retiring: a `Servable`.

    Attributes:
        entry: the name and the files.
        graph: the loaded graph; None unless the state is AVAILABLE.
        state: the state.
        reason: why loading failed, for clients, without paths of this machine; "" otherwise.
        adapters: further names for requests, from the files as they were when last read.
        http_role: the part that it plays below ``/v3/``, from the files as they were when last
            read, and from the graph when it was last loaded.
        created: when the graph was loaded, or first deferred, Unix time in seconds.
        hold_up: a text about a node that has blocked the event loop since the graph was loaded; ""
            if none has.
    """

    def __init__(
        self,
        entry: GraphEntry,
        registry: Registry,
        settings: GraphSettings | None = None,
        models: GraphModels | None = None,
        shared: tuple[Path, ...] = (),
        owner_of: Callable[[str], str] = lambda name: "",
        others_looked: Callable[[], Awaitable[None]] = _alone,
        on_ways: Callable[[], object] = lambda: None,
    ) -> None:
        """
        Args:
            models: the models of session nodes; None: the models beside the graph.
            shared: modules whose calculators are in ``registry``; watched like the graph's own.
            owner_of: returns the other owner of a name, in words; "" if there is none.
            others_looked: waits until the names of the graphs before this one are known.
            on_ways: called when adapters or endpoints have been found, by which requests reach the
                graph without its name.
        """
        self.entry = entry
        self._registry = registry
        self._settings = settings
        self._models = models
        self._shared = shared
        #: The files as they were when the graph was loaded, or loading it failed.
        self._seen = _NOTHING_SEEN
        #: Marks of the files before loading, until the first check after it.
        self._marks: Marks | None = None
        #: The word for the files that options name, when they were last looked at.
        self._named = ""
        #: The file for want of which loading failed, as the graph names it; "" otherwise.
        self._wanted = ""
        self._owner_of = owner_of
        self._others_looked = others_looked
        self._on_ways = on_ways
        self.adapters: tuple[str, ...] = ()
        self.http_role: HttpRole | None = None
        #: Reads the files; None before that, and after loading has succeeded or failed.
        self._looking: asyncio.Task[_Looked] | None = None
        self.graph: LoadedGraph | None = None
        self.reason = ""
        self.created = 0
        self.hold_up = ""
        self.state = ServableState.START
        self._loading: Loading | None = None
        #: The models of sessions as they were when loading failed.
        self._failed_with: object = None
        #: The files in stores that options of nodes name.
        self._stored: StoredOptions | None = None
        #: The resources of the graph that this one replaces, for `load`.
        self._kept = KeptResources()

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def failure(self) -> str:
        """The same as `reason`: a graph is loaded as a whole."""
        return self.reason

    @property
    def unavailable_reason(self) -> str:
        """The reason why the loaded graph cannot answer now; "" if it can."""
        return self.graph.unavailable_reason if self.graph is not None else ""

    def inherit(self, old: Servable) -> None:
        """Let `load` take what ``old`` has loaded and this graph would load once more."""
        if isinstance(old, GraphDefinition) and old.graph is not None:
            # One edited line of a graph loaded its model a second time, beside the first (decision
            # 0056).
            self._kept = old.graph.keep_resources()
            if self._models is not None and old._models is not None:
                self._models.follow(old._models)

    async def load(self) -> None:
        """Load the graph unless it is loaded. A failure is logged and kept as `reason`."""
        if self.state is ServableState.AVAILABLE:
            return
        kept, self._kept = self._kept, KeptResources()
        try:
            await self._load(kept)
        finally:
            await kept.let_go()

    async def _load(self, kept: KeptResources) -> None:
        self._move(ServableEvent.LOAD)
        self.reason = self.hold_up = ""
        _log.info("%s: loading", self.name)
        self._loading = loading = Loading(self.name)
        loading.progress.begin("reading the graph", 0.0)
        try:
            # First, so that a change during loading is detected afterwards.
            await self.prepare()
            looking, self._looking = self._looking, None
            assert looking is not None, "it has looked"
            self._seen = looking.result()
            self.adapters, _ = self._seen.declared
            await self.check_names()
            if self.entry.refusal:
                raise GraphError(self.entry.refusal, code=Code.FAILED_PRECONDITION)
            if self._seen.addresses:
                # Here: a server without models in a store needs none of it.
                from servers.serving.stored_entry import StoredOptions

                self._stored = StoredOptions(self._seen.addresses, self._settings)
                await self._stored.bring_here()
            self.graph = await load_graph(
                self.entry, self._registry, self._settings, self._models, loading.progress, kept
            )
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                self.reason = "its loading was interrupted"
                self._move(ServableEvent.LOAD_FAILED)
                raise
            # One graph that fails stays FAILED with its reason; the others serve (decision 0036).
            self._fail(contained(error))
            return
        finally:
            self._loading = None
        for warning in self.graph.plan.warnings:
            _log.warning("%s: %s", self.name, warning)
        self.created = int(time.time())
        self.http_role = self.graph.http_role
        self._note_ways()
        self._move(ServableEvent.LOADED)
        _log.info("%s: loaded in %.1f s", self.name, loading.seconds)

    def rescale(self, scale: Scale) -> None:
        """Do nothing: the graph is loaded once, in this process."""

    async def prepare(self) -> None:
        """Read the names of adapters, before loading or deferring. `load` reports errors."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look(), name=f"look at {self.name}")
        try:
            await self.looked()
        except asyncio.CancelledError:
            self._looking.cancel()  # a replacement that is given up here belongs to nobody
            raise

    async def looked(self) -> None:
        """Wait for `prepare` if it is running."""
        if self._looking is not None and not self._looking.done():
            await asyncio.wait({self._looking})

    def defer(self) -> None:
        """Let the next request load the graph."""
        self.reason = ""
        self.created = self.created or int(time.time())
        self._move(ServableEvent.DEFER)

    def is_outdated(self) -> bool:
        """True if files have changed since the last attempt to load. Reads files: for a thread."""
        if self.state not in (ServableState.AVAILABLE, ServableState.FAILED):
            return False
        has_failed = self.state is ServableState.FAILED
        if has_failed and self._stored is not None and self._stored.may_be_tried_again():
            return True
        if has_failed and self._models is not None and self._models.used() != self._failed_with:
            return True  # what did not fit a model may fit the one of now
        files, digest = self._seen.around if has_failed else self._seen.files
        # Graphs are read in several places and processes, so no digest is of the very bytes: times,
        # sizes and inodes before and after tell (decision 0092).
        marks, self._marks = self._marks, None
        if marks is not None and marks != self._seen.around[0].marks():
            return True  # it may have been another while it was loaded, and the old one again
        return files.digest() != digest or (
            has_failed and (self._has_other_models() or self._has_found_file())
        )

    def _has_other_models(self) -> bool:
        """Return True if the files that options name are others, and did not change since the last
        call: copying a model's files takes time."""
        # Model files are compared by time and place, not by content: reading gigabytes at each
        # check takes as long as loading (decisions 0037, 0050).
        before, self._named = self._named, named_files(self.entry, self._source())
        return before == self._named != self._seen.named

    def _has_found_file(self) -> bool:
        """Return True if the file for want of which loading failed is there now."""
        if not self._wanted:
            return False
        models = self._models or DirectoryModels(self.entry.directory)
        try:
            find_graph_file(self._wanted, self.entry.directory, models.file_of)
        except MissingFileError:
            return False
        return True

    @property
    def _own_files(self) -> str:
        return f'the files of the graph "{self.name}"'

    async def _look(self) -> _Looked:
        found = await in_file_thread(self._own_files, self._read)
        self.adapters, role = found.declared
        # Facts of the model are known once it has been loaded, and so are endpoints in modules of
        # the graph's own.
        known = self.http_role
        if (
            role is None
            or known is None
            or role.task != known.task
            or role.endpoints not in ((), known.endpoints)
        ):
            self.http_role = role
        self._note_ways()
        return found

    def _note_ways(self) -> None:
        if self.adapters or (self.http_role is not None and self.http_role.endpoints):
            self._on_ways()

    def _read(self) -> _Looked:
        source = self._source()
        files = files_of(self.entry, source, self._shared)
        around = files_around(self.entry, files)
        self._marks = around.marks()
        digests = files.digest(), around.digest()
        named = named_files(self.entry, source)
        declared: _Declared = (), None
        if source is not None:
            with suppress(GraphError):  # `load` reports it
                declared = source.further_names(), source.http_role()
        addresses = () if source is None else store_addresses(source)
        return _Looked((files, digests[0]), (around, digests[1]), named, declared, addresses)

    def _source(self) -> GraphSource | None:
        return source_of(self.entry, self._registry)

    def read_shown(self) -> ShownGraph:
        """Read the files of the graph for its drawing, whether it can run or not. For a thread.

        Raises:
            GraphError: the file cannot be read or does not parse (FAILED_PRECONDITION).
        """
        path, directory = str(self.entry.graph_path), str(self.entry.directory)
        try:
            source = GraphSource(path, self._registry, text=self.entry.graph_text)
        except GraphError as error:
            text = without_directories(_text_of(error), directory)
            raise GraphError(text, code=Code.FAILED_PRECONDITION) from error
        try:
            return shown_graph(self.entry, source, source.validate())
        except ValidationError as error:
            found = tuple(without_directories(str(each), directory) for each in error.findings)
            return shown_graph(self.entry, source, None, found)

    def fingerprint(self) -> str:
        """Return a digest of all files that loading would read. For a thread."""
        files = files_of(self.entry, self._source(), self._shared)
        return files_around(self.entry, files).digest()

    async def check_names(self) -> None:
        """Check that no other servable has one of the names.

        Raises:
            ResourceError: one has.
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
        self._failed_with = None if self._models is None else self._models.used()
        cause = error.__cause__
        self._wanted = cause.path if isinstance(cause, MissingFileError) else ""
        self._move(ServableEvent.LOAD_FAILED)
        # Errors of graphrt name place and cause; others need a traceback.
        is_known = isinstance(error, GraphError) and not _log.isEnabledFor(logging.DEBUG)
        findings = error.findings if isinstance(error, ValidationError) else ()
        frames = (author_frame(each) for each in (error, *findings))
        frame = next((each for each in frames if each is not None), None)
        _log.error(
            "%s: could not be loaded: %s%s",
            self.name,
            text,
            "" if frame is None else f" (raised at {frame})",
            exc_info=None if is_known else error,
        )

    async def retire(self) -> None:
        """Refuse new requests, wait for requests in flight, let go of the resources."""
        kept, self._kept = self._kept, KeptResources()
        await kept.let_go()
        if self.state in (ServableState.UNLOADING, ServableState.END):
            return
        if self._stored is not None:
            self._stored.close()
        # A replacement that it is loading would belong to nobody.
        if self._looking is not None and not self._looking.done():
            self._looking.cancel()
            await asyncio.wait({self._looking})
        graph, self.graph = self.graph, None
        self._move(ServableEvent.RETIRE)
        if graph is not None:
            try:
                await graph.close()
            except BaseException as error:
                if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
                    raise
                _log.error("%s: its resources could not be closed", self.name, exc_info=error)
            _log.info("%s: unloaded", self.name)
        self._move(ServableEvent.UNLOADED)

    # Status ---------------------------------------------------------------------------------------

    def loading(self) -> Sequence[Loading]:
        """Return how far loading is; empty if nothing is being loaded."""
        return () if self._loading is None else (self._loading,)

    def status(self, note: str = "") -> dict[str, object]:
        """Return the graph's part of ``GET /v1/config``. A graph has one version."""
        stuck = self.graph.stuck if self.graph is not None else ""
        note = "; ".join(each for each in (note, self.hold_up, stuck) if each)
        return {
            "model_version_status": [
                version_status(
                    VERSION,
                    self.state,
                    self.reason,
                    self.unavailable_reason,
                    note,
                    self._loading,
                )
            ]
        }

    def holds(self, node: NodePlan) -> bool:
        """Return True if the node belongs to the loaded graph. Safe in any thread."""
        graph = self.graph
        return graph is not None and any(each is node for each in graph.plan.nodes)

    def index(self) -> Sequence[IndexEntry]:
        """Return the graph's lines of the repository's index."""
        return [index_entry(self.name, VERSION, self.state, self.reason, self.unavailable_reason)]

    def is_ready(self, version: str) -> bool:
        """Return True if the graph would answer now.

        Raises:
            NotFoundError: the loaded graph has no such version.
        """
        if self.state is ServableState.ON_DEMAND:
            return version in VERSIONS
        return self.graph is not None and self.graph.is_ready(version)

    def metadata(self, version: str) -> ModelMetadata:
        """See `servers.contract.data_plane.DataPlane.metadata`."""
        return self.loaded(version).metadata(version)

    # Answering ------------------------------------------------------------------------------------

    def loaded(self, version: str) -> LoadedGraph:
        """Return the loaded graph.

        Raises:
            UnavailableError: the graph is not loaded.
            NotFoundError: there is no such version.
        """
        graph = self.graph
        if graph is None:
            raise unavailable_error(f'The model "{self.name}"', self.state, self.reason)
        if version:
            graph.check_version(version)
        return graph

    def idle_seconds(self) -> float:
        """Return the seconds since the last request ended; 0 during a request."""
        return 0.0 if self.graph is None else self.graph.users.idle_seconds()

    def _move(self, event: ServableEvent) -> None:
        self.state = SERVABLE_TRANSITIONS[self.state, event]


def without_directories(text: str, directory: str) -> str:
    """Replace absolute paths in a text, and ``directory``, by their last names.

    The result is one line, for JSON and for the logs of clients.
    """
    text = text.replace(directory + os.sep, "").replace(directory, os.path.basename(directory))
    return " ".join(_DIRECTORIES.sub("", text).split())


def _text_of(error: Exception) -> str:
    if isinstance(error, ValidationError):  # without the line above the findings
        return "\n".join(str(finding) for finding in error.findings)
    return reason_of(error)
