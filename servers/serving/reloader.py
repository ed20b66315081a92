"""`Reloader`: detects changes of the configuration and its files, and applies them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from calculators.kit.file_threads import FilesNotAnsweringError, in_file_thread
from calculators.kit.seen_files import SeenFiles, forget_contents
from graphrt_base.regular_file import DescriptorsExhaustedError
from servers.config import ConfigError, ServerConfig
from servers.contract.data_plane import ReloadError
from servers.contract.failure import clean
from servers.contract.finding import Finding
from servers.serving.graph_definition import without_directories
from servers.serving.model_repository import ModelRepository
from servers.serving.python_path import SharedModules
from servers.serving.served_entry import Entry

_log: Final = logging.getLogger(__name__)

#: The time between two checks is at least this many times the duration of a check.
_REST: Final = 10.0
_CONFIG_FILES: Final = "the files of the configuration"
#: The key of the configuration that only a start reads, and what a reload says of its change.
_MONITORING: Final = "monitoring"
_NEEDS_RESTART: Final = "a change of it takes effect when the server is started again"
#: The most errors or names in one text.
_MOST_TEXTS: Final = 10


class Reloader:
    """Reloads the configuration, one reload at a time. Belongs to its repository's event loop.

    A configuration that cannot be used changes nothing. It is logged, reported by ``/v1/config``,
    and read again when a file changes that was read for it, or missed. A reload that is asked for
    reads in any case.
    """

    def __init__(
        self,
        repository: ModelRepository,
        shared: SharedModules,
        config: ServerConfig,
        reread: Callable[[], ServerConfig],
    ) -> None:
        """
        Args:
            shared: the modules of the configuration.
            config: the configuration that the repository serves.
            reread: reads the configuration again, in a thread; raises `ConfigError`.
        """
        self._repository = repository
        self._shared = shared
        self._config = config
        #: The ``monitoring`` that the server was started with.
        self._monitoring = config.metrics
        self._reread = reread
        #: The files of the last reading, of a configuration in use or a refused one; None: read.
        self._seen: SeenFiles | None = None
        #: Findings of the last reading; the start of the server has reported the first reading's.
        self._findings: tuple[Finding, ...] | None = None
        self._lock = asyncio.Lock()
        self._reloads: set[asyncio.Task[bool]] = set()
        self._finishing: set[asyncio.Task[None]] = set()
        repository.reloads_by = self.reload

    async def watch(
        self, seconds: float, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        """Check for changes every ``seconds``, or less often if a check takes long. Never returns.

        Slow loading does not delay later changes. ``pause`` waits for the next check.
        """
        reported = ""
        took = 0.0
        while True:
            # Ten times the duration of a check: 20,000 entries on a slow disk would otherwise keep
            # a thread busy all the time.
            await pause(max(seconds, took * _REST))
            began = time.monotonic()
            try:
                await self.look()
                reported = ""
            except (FilesNotAnsweringError, DescriptorsExhaustedError) as error:
                if str(error) != reported:
                    _log.error("changed files are not seen: %s", error)
                reported = str(error)
            except Exception:
                _log.exception("looking for changed files failed; it will be tried again")
            took = time.monotonic() - began

    async def step(self) -> bool:
        """Check once, load changes, and return True if there were any."""
        touched = await self.look()
        await self._finished()
        return bool(touched)

    async def reload(self) -> bool:
        """Do a `step` that also retries what could not be loaded. Cancelling does not end it.

        Raises:
            ReloadError: the configuration cannot be used, or part of it cannot be loaded.
        """
        task = asyncio.create_task(self._reload(), name="reload")
        self._reloads.add(task)
        task.add_done_callback(self._reloads.discard)
        # A client that leaves must not stop a reload half-way.
        return await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel reloads."""
        tasks = [*self._reloads, *self._finishing]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _reload(self) -> bool:
        # Before the lock: a store that does not answer must not delay what the watch finds.
        stored = [slot for slot in self._repository.slots() if slot.is_stored]
        problems = await asyncio.gather(*(slot.look_at_store() for slot in stored))
        touched = await self.look(retries=True)
        await self._finished()
        if self._repository.problem:
            raise ReloadError(f"Reloading config file failed: {self._repository.problem}")
        looked = zip(stored, problems, strict=True)
        failed = {slot.name: problem for slot, problem in looked if problem}
        failed |= {
            slot.name: failure for slot in self._repository.slots() if (failure := slot.failure())
        }
        if self._config.metrics != self._monitoring:
            failed[_MONITORING] = _NEEDS_RESTART
        if failed:
            reloaded = [name for name in touched if name not in failed]
            raise ReloadError(_summary(reloaded, failed), reloaded, failed)
        return bool(touched)

    async def look(self, *, retries: bool = False) -> Sequence[str]:
        """Check once, begin to load changes, and return the names of everything that is touched.

        Args:
            retries: read every file, whatever its times say, retry what could not be loaded, even
                if it has not changed, and load versions of plain models again whose files have
                changed.
        """
        async with self._lock:
            if retries:
                # A reload that is asked for forgets all digests: an operator must be able to mend
                # what coarse times hide (decision 0092).
                forget_contents()
                self._seen = None
            self._take(await in_file_thread(_CONFIG_FILES, self._read, self._seen))
            changed = set(await in_file_thread("the files of graphs and models", self._outdated))
            paths = self._config.python_path
            is_outdated = await in_file_thread(
                "the files of python_path", self._shared.is_outdated, paths
            )
            failures = self._shared.failures
            if is_outdated or (retries and failures):
                await asyncio.to_thread(self._shared.import_again, paths)
            if is_outdated or self._shared.failures != failures:
                self._repository.registry = self._shared.registry
                self._repository.shared = self._shared.paths
            configured: list[Entry] = [*self._config.graphs, *self._config.models]
            graphs = self._config.graphs
            graphs += self._shared.endpoint_graphs({entry.name for entry in configured})
            if is_outdated or self._shared.failures != failures:
                changed.update(entry.name for entry in graphs)
            overwritten: Collection[str] = ()
            if retries:
                changed.update(slot.name for slot in self._repository.slots() if slot.failure())
                overwritten = await in_file_thread("the files of models", self._overwritten)
                changed.update(overwritten)
            entries: list[Entry] = [*graphs, *self._config.models]
            names, work = await self._repository.update(entries, changed, overwritten)
            finishing = asyncio.create_task(_finish(names, work), name="finish reload")
            self._finishing.add(finishing)
            finishing.add_done_callback(self._finishing.discard)
            return names

    async def _finished(self) -> None:
        """Wait until everything that has begun to load is loaded or has failed."""
        if self._finishing:
            await asyncio.wait(self._finishing)

    # In a thread ----------------------------------------------------------------------------------

    def _read(self, seen: SeenFiles | None) -> ServerConfig | ConfigError | None:
        """Return the present configuration, or why it cannot be used; None if none of its files has
        changed."""
        if seen is not None and not seen.have_changed():
            return None
        try:
            return self._reread()
        except ConfigError as error:
            return error

    def _outdated(self) -> list[str]:
        return [slot.name for slot in self._repository.slots() if slot.is_outdated()]

    def _overwritten(self) -> list[str]:
        return [slot.name for slot in self._repository.slots() if slot.is_overwritten()]

    # Readings -------------------------------------------------------------------------------------

    def _take(self, reading: ServerConfig | ConfigError | None) -> None:
        if reading is None:
            return
        self._seen = reading.seen
        if isinstance(reading, ConfigError) or any(
            finding.severity == "error" for finding in reading.findings
        ):
            self._refuse(reading.findings, reading.path or self._config.path)
            return
        config = reading
        if self._findings is not None:
            known = set(self._findings)
            for finding in config.findings:
                if finding not in known:
                    _log.warning("%s", finding.to_text())
        self._findings = config.findings
        if self._repository.problem:
            _log.info("the configuration can be used again")
            self._repository.problem = ""
        if config.metrics not in (self._monitoring, self._config.metrics):
            _log.warning("%s: %s: %s", config.path, _MONITORING, _NEEDS_RESTART)
        self._config = config

    def _refuse(self, findings: Collection[Finding], path: Path) -> None:
        texts = [finding.to_text() for finding in findings if finding.severity == "error"]
        text = "; ".join(texts[:_MOST_TEXTS])
        problem = clean(without_directories(text, str(path.absolute().parent)))
        if problem != self._repository.problem:
            self._repository.problem = problem
            _log.error("the changed configuration is not in use:\n%s", "\n".join(texts))


def _summary(reloaded: Sequence[str], failed: Mapping[str, str]) -> str:
    """Return a text about a reload that failed in part."""
    if reloaded:
        begin = f"Reloading config file took effect in part: reloaded {_some(reloaded)}; failed: "
    else:
        begin = "Reloading config file failed: "
    return begin + _some([f"{name}: {reason}" for name, reason in failed.items()], "; ")


def _some(texts: Sequence[str], separator: str = ", ") -> str:
    more = [f"and {len(texts) - _MOST_TEXTS} more"] if len(texts) > _MOST_TEXTS else []
    return separator.join([*texts[:_MOST_TEXTS], *more])


async def _finish(names: Sequence[str], work: Sequence[asyncio.Task[None]]) -> None:
    if work:
        await asyncio.wait(work)
    if names:
        _log.info("reloaded: %s", _some(names))
