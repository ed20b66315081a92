"""`StoredEntry`: brings the files of one entry of the configuration here from a store.

`StoredOptions` brings those that options of a graph's nodes name.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeVar

from calculators.kit.examples import STORED_COPIES
from calculators.kit.file_threads import DaemonThreads
from calculators.kit.model_cache import ModelCache, user_cache
from calculators.kit.tasks import TaskError
from graph_runtime import Code, GraphError
from servers.config import GraphEntry, ModelEntry
from servers.config.entries import StoredFiles
from servers.config.server_config import entry_here
from servers.model_store.model_reference import ModelError
from servers.model_store.object_store import read_address
from servers.model_store.stored_model import StoredModel
from servers.serving.loaded_graph import GraphSettings
from servers.serving.servable import Loading

_log: Final = logging.getLogger(__name__)

T = TypeVar("T")

#: The time between two listings is at least this many times the duration of one.
_REST: Final = 10.0
#: Seconds after a failed download until the next one; doubled by each failure, up to the longest.
FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 300.0
#: Seconds that a reload waits for a listing.
LOOK_SECONDS: Final = 10.0


class StoredEntry:
    """The store's side of one entry. Belongs to one event loop.

    All that waits for the store runs in a thread of the entry's own, one after the other, so that a
    store that does not answer stops nothing else; the process does not wait for the thread at its
    end.

    Attributes:
        entry: the entry of the configuration; its ``stored`` is not None.
        loading: how far the download is; None unless it is running.
    """

    def __init__(self, entry: ModelEntry, settings: GraphSettings) -> None:
        assert entry.stored is not None
        self.entry = entry
        self.loading: Loading | None = None
        self._stored: StoredFiles = entry.stored
        self._settings = settings
        self._threads = DaemonThreads(1)
        self._model: StoredModel | None = None
        self._looking: Future[None] | None = None
        self._rests_until = 0.0
        #: Why the last listing failed; "" if it did not.
        self._problem = ""
        self._has_failed = False
        self._pause = FIRST_PAUSE
        self._retry_at = 0.0

    async def here(self) -> GraphEntry | ModelEntry:
        """Return the entry of the downloaded files: a graph's, or a plain model's.

        A failure is logged, and is the ``refusal`` of the entry that is returned.
        """
        self.loading = Loading(self.entry.name)
        try:
            found = await self._in_thread(self._fetch)
        except ModelError as error:
            reason = "; ".join(filter(None, (str(error), error.hint)))
            return self._refused(reason)
        except (TaskError, GraphError) as error:
            return self._refused(str(error))
        except Exception:
            _log.exception("%s: its files cannot be brought here", self.entry.name)
            return self._refused("internal error")
        finally:
            self.loading = None
        self._has_failed, self._pause = False, FIRST_PAUSE
        return found

    def _refused(self, reason: str) -> ModelEntry:
        # The reason is logged by the loading that it fails; the address is not for clients.
        _log.warning("%s: %s cannot be read", self.entry.name, self._stored.address)
        self._has_failed = True
        self._retry_at = time.monotonic() + self._pause
        self._pause = min(LONGEST_PAUSE, self._pause * 2)
        return replace(self.entry, stored=None, refusal=reason)

    def has_changed(self) -> bool:
        """Return True if `here` would find other files, or may succeed after a failure.

        Begins a listing for the next call, unless one is running.
        """
        now = time.monotonic()
        is_looking = self._looking is not None and not self._looking.done()
        if not is_looking and now >= self._rests_until:
            self._looking = self._threads.submit(self._look)
        if self._model is None or self._problem:
            return False
        return now >= self._retry_at if self._has_failed else self._model.has_changed()

    async def look(self) -> str:
        """List the files now, for `has_changed`; return why that failed, "" if it did not."""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._in_thread(self._look_twice)
        except TimeoutError:
            return "its store does not answer"
        self._retry_at = 0.0
        return self._problem

    def release(self) -> None:
        """Let the cache remove copies that the last download has replaced."""
        if self._model is not None and self.loading is None:
            self._model.release()

    def stop(self) -> None:
        """End a running download soon. Nothing more is downloaded or looked for."""
        self._threads.shutdown()
        if self._model is not None:
            self._model.has_ended.set()

    def close(self) -> None:
        """`stop`, and let the cache remove all copies."""
        self.stop()
        if self._model is not None:
            self._model.close()

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._threads.submit(work))

    # In the thread --------------------------------------------------------------------------------

    def _opened(self) -> StoredModel:
        if self._model is None:
            cache = _cache_of(self._settings)
            chosen = None if self._stored.is_whole else self.entry.policy.chosen
            self._model = StoredModel(read_address(self._stored.address), cache, chosen)
        return self._model

    def _fetch(self) -> GraphEntry | ModelEntry:
        loading = self.loading

        def report(done: int, total: int) -> None:
            if loading is not None and total:
                loading.progress.begin("downloading", done / total)

        files = self._opened().fetch(report)
        return entry_here(self.entry, files.path, files.folders)

    def _look(self) -> None:
        began = time.monotonic()
        try:
            self._opened().look()
            problem = ""
        except ModelError as error:
            problem = str(error)
        except Exception:
            problem = "its store cannot be listed"
            _log.exception("%s: %s", self.entry.name, problem)
        if problem and problem != self._problem:
            _log.warning("%s: changes in its store are not seen: %s", self.entry.name, problem)
        self._problem = problem
        ended = time.monotonic()
        self._rests_until = ended + (ended - began) * _REST

    def _look_twice(self) -> None:
        """List the files so that the listing counts at once."""
        self._look()
        if not self._problem:
            self._look()


def _cache_of(settings: GraphSettings) -> ModelCache:
    directory, most_bytes = settings.cache_dir, settings.cache_dir_size
    return ModelCache(Path(directory), most_bytes) if directory else user_cache(most_bytes)


class StoredOptions:
    """The files in stores that options of one graph's nodes name. Belongs to one event loop.

    They are brought here when the graph is loaded; what changes in a store then is taken when the
    graph is loaded again.
    """

    def __init__(self, addresses: Sequence[str], settings: GraphSettings | None) -> None:
        self._addresses = addresses
        self._settings = settings or GraphSettings()
        self._threads = DaemonThreads(1)
        self._models: list[StoredModel] = []
        self._failed_at: float | None = None

    async def bring_here(self) -> None:
        """Download what is not here, for `calculators.kit.examples.find_path`.

        Raises:
            GraphError: a store refuses or does not answer, or has nothing there
                (FAILED_PRECONDITION).
        """
        for address in self._addresses:
            try:
                copy = await asyncio.wrap_future(self._threads.submit(self._fetch, address))
            except ModelError as error:
                self._failed_at = time.monotonic()
                said = str(error).replace("its base_path", "the address")
                reason = "; ".join(filter(None, (said, error.hint)))
                text = f'"{address}" in the options of a node: {reason}'
                raise GraphError(text, code=Code.FAILED_PRECONDITION) from None
            STORED_COPIES[address] = copy

    def may_be_tried_again(self) -> bool:
        """Return True once `bring_here` has failed and some time has passed since."""
        return self._failed_at is not None and time.monotonic() - self._failed_at >= FIRST_PAUSE

    def close(self) -> None:
        """End a running download soon, and let the cache remove the copies."""
        self._threads.shutdown()
        for model in self._models:
            model.close()

    def _fetch(self, address: str) -> Path:
        model = StoredModel(read_address(address), _cache_of(self._settings), None)
        self._models.append(model)
        path = model.fetch(lambda done, total: None).path
        assert path is not None, "it has no versions"
        return path
