"""`ServedEntry`: a name of the configuration and its servable, through all replacements.

`Groups` gives turns to servables that are not to be in memory together.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from calculators.kit.file_threads import in_file_thread
from graph_runtime import UnavailableError
from servers.config import GraphEntry, ModelEntry
from servers.contract.data_plane import ServableState
from servers.serving.loaded_graph import GraphSettings
from servers.serving.models.model_definition import ModelDefinition
from servers.serving.servable import Loading, Servable, UseCount, unavailable_error

if TYPE_CHECKING:
    from servers.serving.stored_entry import StoredEntry

Entry: TypeAlias = GraphEntry | ModelEntry

_log: Final = logging.getLogger(__name__)

#: Seconds that a request waits for loading on demand; loading continues afterwards.
LOAD_WAIT_SECONDS: Final = 300.0
#: States in which changes in a store are looked for.
_LOOKED_AT: Final = (ServableState.AVAILABLE, ServableState.FAILED)
#: Seconds after a failure in which requests get its reason instead of loading again.
RETRY_SECONDS: Final = 10.0
#: Seconds that a group stays loaded at least: a request that waited for it has no other hold on it
#: between the end of loading and its own start.
LEAST_SECONDS: Final = 0.5


class Groups:
    """Sees to it that the servables of one group at most are loaded. Belongs to one event loop.

    Groups are loaded in the order in which they were asked for. OpenVINO Model Server, whose
    groups these are, lets requests for the loaded group go before, so that others may wait for
    ever (its ``idle_servable_management.md``).

    Attributes:
        loaded: the group that is loaded, or being loaded; "" for none.
        leaving: the group that is being unloaded; "" for none.
    """

    def __init__(self, entries: Callable[[], Iterable[ServedEntry]]) -> None:
        """``entries``: returns what the configuration names now."""
        self.loaded = ""
        self.leaving = ""
        self._entries = entries
        self._lock = asyncio.Lock()
        self._turns: dict[str, asyncio.Task[None]] = {}

    def members(self, group: str) -> list[ServedEntry]:
        return [entry for entry in self._entries() if entry.group == group]

    def claim(self, group: str) -> bool:
        """True if members of ``group`` may be loaded now; the first group that asks is loaded."""
        if group and not self.loaded and not self._turns:
            self.loaded = group
        return group in ("", self.loaded)

    def turn_of(self, group: str) -> asyncio.Task[None]:
        """Return the job that makes this the loaded group, and begin it unless it is running."""
        turn = self._turns.get(group)
        if turn is None:
            turn = asyncio.create_task(self._load(group), name=f"load the group {group}")
            self._turns[group] = turn
            turn.add_done_callback(lambda _: self._turns.pop(group))
        return turn

    async def _load(self, group: str) -> None:
        async with self._lock:
            if self.loaded == group:
                return
            self.leaving, self.loaded = self.loaded, ""
            left = self.members(self.leaving) if self.leaving else []
            # Graphs first: a request in flight may still ask for a model of the group.
            for kind in (GraphEntry, ModelEntry):
                await asyncio.gather(*(one.leave() for one in left if isinstance(one.entry, kind)))
            self.leaving, self.loaded = "", group
            _log.info("the group %s is loaded", group)
            self.begin_loading(group)

    async def close(self) -> None:
        """Cancel all turns."""
        for turn in (turns := tuple(self._turns.values())):
            turn.cancel()
        await asyncio.gather(*turns, return_exceptions=True)

    def begin_loading(self, group: str) -> list[asyncio.Task[None]]:
        """Begin to load the members that are not, and return the jobs."""
        return [
            each.begin_loading()
            for each in self.members(group)
            if each.servable.state is ServableState.ON_DEMAND
        ]


class ServedEntry:
    """The servable of one name. One job at a time loads, replaces or unloads it.

    Belongs to one event loop.

    Attributes:
        entry: the present entry of the configuration.
        servable: the servable that answers, perhaps made from an older entry.
        rejected: the replacement that could not be loaded, or None.
    """

    def __init__(
        self,
        entry: Entry,
        make: Callable[[Entry], Servable],
        settings: GraphSettings,
        groups: Groups,
    ) -> None:
        self.entry = entry
        self.servable = make(entry)
        self.rejected: Servable | None = None
        self._make = make
        self._settings = settings
        self._groups = groups
        self._job: asyncio.Task[None] | None = None
        self._is_replacing = False
        #: The replacement that is being loaded.
        self._incoming: Servable | None = None
        self._refreshing: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._waiting = UseCount(entry.name, settings.request_limit)
        self._failed_at = 0.0
        #: When the last job ended.
        self._settled_at = 0.0
        self._stored: StoredEntry | None = None
        #: The ones before it, whose files may still be in use.
        self._stored_before: list[StoredEntry] = []
        self._is_here = asyncio.Event()
        self._take_stored(entry)

    @property
    def name(self) -> str:
        return self.entry.name

    @property
    def is_busy(self) -> bool:
        """True while the servable is being loaded, replaced, or unloaded as idle."""
        return self._job is not None

    @property
    def leaving(self) -> int:
        """The number of replaced servables that still have requests."""
        return len(self._leaving)

    @property
    def loads_on_demand(self) -> bool:
        """True if a request may have to load the servable."""
        policy = self.entry.residence
        return policy.is_on_demand or self._idle_limit > 0 or bool(self.group)

    @property
    def group(self) -> str:
        """The group with which it is loaded and unloaded; "" if it is on its own."""
        return self.entry.residence.group if self._settings.idle_unload_seconds > 0 else ""

    @property
    def idle_seconds(self) -> float | None:
        """How long it may be without requests until it is unloaded; None: it stays."""
        return (self._idle_limit or math.inf) if self.loads_on_demand else None

    @property
    def _idle_limit(self) -> float:
        return self.entry.residence.idle_limit(self._settings.idle_unload_seconds)

    def loading(self) -> Sequence[Loading]:
        """Return what is being loaded under this name; empty if nothing is."""
        incoming = () if self._incoming is None else self._incoming.loading()
        download = self.download
        return [*self.servable.loading(), *incoming, *([download] if download else ())]

    def note(self) -> str:
        """A text beside the state of `servable`, such as the error of its replacement."""
        download = self.download
        if download is not None:
            return f"its files are being downloaded: {download.percent} %"
        if self._is_replacing and self.servable.state is ServableState.AVAILABLE:
            return "a changed version is being loaded; the previous one answers meanwhile"
        if self.rejected is not None:
            return (
                f"the changed version could not be loaded, so the previous one answers: "
                f"{self.rejected.reason}"
            )
        return ""

    def failure(self) -> str:
        """Return why the entry and its files as they are now are not served in full; else ""."""
        return (self.rejected or self.servable).failure

    # Files in a store -----------------------------------------------------------------------------

    @property
    def is_stored(self) -> bool:
        """True if its files are in a store."""
        return self._stored is not None

    @property
    def download(self) -> Loading | None:
        """How far the download of its files is; None if they are not being downloaded."""
        return None if self._stored is None else self._stored.loading

    async def is_here(self) -> None:
        """Wait until it is known what it is, which files in a store show when they are here."""
        await self._is_here.wait()

    async def look_at_store(self) -> str:
        """List its files, if they are in a store; return why that failed, "" if it did not."""
        if self._stored is None or self.servable.state not in _LOOKED_AT:
            return ""
        return await self._stored.look()

    def _take_stored(self, entry: Entry) -> None:
        """Take the entry's files in a store, if there are any, and give up another entry's."""
        stored = entry if isinstance(entry, ModelEntry) and entry.stored is not None else None
        if self._stored is not None and self._stored.entry != stored:
            self._stored_before.append(self._stored)
            self._stored = None
        if stored is None:
            self._is_here.set()
        elif self._stored is None:
            # Here: a server without models in a store needs none of it.
            from servers.serving.stored_entry import StoredEntry

            self._stored = StoredEntry(stored, self._settings)

    async def _entry_here(self, entry: Entry) -> Entry:
        """Return the entry, with its files here; they are downloaded if they are in a store."""
        self._take_stored(entry)
        return entry if self._stored is None else await self._stored.here()

    def _release(self) -> None:
        """Give up copies of files in a store that nothing uses any more."""
        if self._leaving or self._job is not None:
            return
        while self._stored_before:
            self._stored_before.pop().close()
        if self._stored is not None:
            self._stored.release()

    # Loading --------------------------------------------------------------------------------------

    def begin(self) -> asyncio.Task[None]:
        """Load at the start of the server, or leave that to the first request."""
        if self.entry.residence.is_on_demand or not self._groups.claim(self.group):
            self.servable.defer()
            return self._begin(self.servable.prepare(), "look at")
        return self.begin_loading()

    def begin_loading(self) -> asyncio.Task[None]:
        """Begin to load, unless a job is running, and return the job."""
        return self._job or self._begin(self._load(), "load")

    async def ensure_loaded(self) -> Servable:
        """Return the servable. If it loads on demand, load it first.

        Raises:
            UnavailableError: it does not answer, or is still loading; the text says why.
            RequestError: too many requests wait for it already (RESOURCE_EXHAUSTED).
        """
        if self.servable.state is ServableState.AVAILABLE:
            return self.servable
        if not self.loads_on_demand and not self._is_replacing:
            raise self.unavailable()
        with self._waiting:
            return await self._woken()

    async def _woken(self) -> Servable:
        deadline = time.monotonic() + LOAD_WAIT_SECONDS
        while self.servable.state is not ServableState.AVAILABLE:
            if self._job is None and not self._may_load():
                raise self.unavailable()
            left = deadline - time.monotonic()
            # Shielded: a caller that is cancelled must not cancel the loading for others.
            # 300 s at most, then 503: loading goes on, and a later request finds it (decision
            # 0038).
            done, _ = await asyncio.wait({self.next_job()}, timeout=max(left, 0))
            if not done:
                raise self._still_waiting()
            if done.pop().cancelled():
                raise UnavailableError("The server is shutting down")
        return self.servable

    def next_job(self) -> asyncio.Task[None]:
        """Return the running job, or begin the next one on the way to an answer.

        It loads the servable, with its group; if another group is loaded, it makes room before.
        """
        if self._job is None and self.group:
            if not self._groups.claim(self.group):
                return self._groups.turn_of(self.group)
            self._groups.begin_loading(self.group)
        return self.begin_loading()

    def _still_waiting(self) -> UnavailableError:
        before = self._groups.leaving
        is_loading = self._job is not None or not before
        why = "is still loading" if is_loading else f'waits for requests of the group "{before}"'
        return UnavailableError(
            f'The model "{self.name}" {why}, after {LOAD_WAIT_SECONDS:g} s; try again later'
        )

    def _may_load(self) -> bool:
        state = self.servable.state
        if state is ServableState.FAILED:
            # A model that cannot be loaded is tried again after 10 s, not by each request (decision
            # 0038).
            return time.monotonic() - self._failed_at >= RETRY_SECONDS
        return state is ServableState.ON_DEMAND

    def unavailable(self) -> UnavailableError:
        """Return the error for requests that the servable does not answer."""
        servable = self.servable
        return unavailable_error(f'The model "{self.name}"', servable.state, servable.reason)

    async def _load(self) -> None:
        if self._stored is not None:
            if self.servable.state is ServableState.AVAILABLE:
                await self._refresh(self.entry, is_overwritten=False)
                return
            entry = await self._entry_here(self.entry)
            if entry != self.servable.entry:
                new = self._make(entry)
                await new.prepare()
                self._let_go(self.servable)
                self.servable = new
            self._is_here.set()
        await self._load_servable()

    async def _load_servable(self) -> None:
        await self.servable.load()
        if self.servable.state is ServableState.FAILED:
            self._failed_at = time.monotonic()

    # Replacing ------------------------------------------------------------------------------------

    def is_outdated(self) -> bool:
        """Return True if `begin_refreshing` would change anything. Reads files: for a thread."""
        if self.is_busy or self._refreshing:
            return False
        newest = self.rejected or self.servable
        if self._stored is not None and newest.state in _LOOKED_AT and self._stored.has_changed():
            return True
        return newest.is_outdated()

    def is_overwritten(self) -> bool:
        """Return True if files of a plain model's loaded version have changed. For a thread."""
        old = self.servable
        if self.is_busy or self._refreshing or not isinstance(old, ModelDefinition):
            return False
        return old.is_overwritten()

    def begin_refreshing(self, entry: Entry, *, is_overwritten: bool = False) -> asyncio.Task[None]:
        """Replace the servable by one made from ``entry`` and its files as they are now.

        The old one answers until the new one does. If the new one cannot be loaded, that is logged,
        it is kept as `rejected`, and the old one stays if it answers. A running job ends first.

        Args:
            is_overwritten: load versions of a plain model again whose files have changed.
        """
        self.entry = entry
        task = asyncio.create_task(self._refresh_next(is_overwritten), name=f"refresh {self.name}")
        self._refreshing.add(task)
        task.add_done_callback(self._refreshing.discard)
        return task

    async def _refresh_next(self, is_overwritten: bool) -> None:
        while self._job is not None:
            await asyncio.wait({self._job})
        # The entry of this moment: several changes during one job become one reload.
        await asyncio.wait({self._begin(self._refresh(self.entry, is_overwritten), "reload")})

    async def _refresh(self, entry: Entry, is_overwritten: bool) -> None:
        old = self.servable
        if old.state is ServableState.AVAILABLE:
            entry = await self._entry_here(entry)
        else:
            self._take_stored(entry)
        is_same = old.entry == entry
        if is_same and self._stored is not None:
            if isinstance(old, ModelDefinition) and isinstance(entry, ModelEntry):
                old.entry = entry  # perhaps with other folders
                is_overwritten = await self._reads(old.is_overwritten)
            elif not await self._reads(old.is_outdated):
                await self._drop_rejected()
                return
        if is_same and isinstance(old, ModelDefinition):
            # A rejected model of an equal entry was made of files that had been overwritten.
            if self.rejected is not None:
                is_overwritten = await self._reads(old.is_overwritten)
            if not is_overwritten:
                await self._drop_rejected()
                if old.state is ServableState.AVAILABLE:
                    await self._load_servable()  # loaded versions stay
                else:
                    await self._load()
                return
            is_same = False
        if is_same and self.rejected is not None and not await self._reads(old.is_outdated):
            await self._drop_rejected()  # the change was reverted
            return
        new = self._make(entry)
        await new.prepare()
        if old.state is not ServableState.AVAILABLE:
            await self._drop_rejected()
            await self._take_over(old, new, is_same=is_same)
            return
        _log.info("%s: it has changed", self.name)
        self._is_replacing = True
        try:
            if entry.residence.unloads_first:
                await self._drop_rejected()
                new.inherit(old)
                self.servable = new
                new.defer()
                self._let_go(old)
                await asyncio.wait(self._leaving)
                await self._load_servable()
                return
            self._incoming = new
            new.inherit(old)
            # Beside the old one: unloading it first would leave a gap without a servable, and
            # nothing to return to after a failure (decision 0038).
            await new.load()
        finally:
            self._is_replacing = False
            self._incoming = None
        await self._drop_rejected()
        if new.state is ServableState.AVAILABLE:
            self.servable = new
            self._let_go(old)
        else:
            # Kept for its reason, and for the files that it was made of: mending them is the change
            # to look for (decision 0092).
            self.rejected = new
            _log.warning("%s: the previous version of it goes on answering", self.name)

    async def _reads(self, question: Callable[[], bool]) -> bool:
        return await in_file_thread(f'the files of "{self.name}"', question)

    async def _take_over(self, old: Servable, new: Servable, *, is_same: bool) -> None:
        """Replace a servable that does not answer; its state decides if the new one is loaded."""
        was = old.state
        self.servable = new
        self._let_go(old)
        if is_same and was in (ServableState.UNLOADING, ServableState.END):
            await new.retire()  # a client unloaded it, and only its modules have changed
        elif self.entry.residence.is_on_demand or (
            (was is ServableState.ON_DEMAND and self.loads_on_demand)
            or not self._groups.claim(self.group)
        ):
            new.defer()
        else:
            await self._load()

    async def _drop_rejected(self) -> None:
        rejected, self.rejected = self.rejected, None
        if rejected is not None:
            await rejected.retire()

    def _let_go(self, old: Servable) -> None:
        """Retire a replaced servable in the background, after its last request."""
        leaving = asyncio.create_task(old.retire(), name=f"retire {self.name}")
        self._leaving.add(leaving)
        leaving.add_done_callback(self._left)

    def _left(self, leaving: asyncio.Task[None]) -> None:
        self._leaving.discard(leaving)
        self._release()

    def update_residence(self, entry: Entry) -> asyncio.Task[None] | None:
        """Take an equal entry, whose load policy and scale may differ."""
        self.entry = entry
        self.servable.rescale(entry.scale)
        state = self.servable.state
        if state is ServableState.ON_DEMAND and not self.loads_on_demand:
            return self.begin_loading()
        if state is ServableState.AVAILABLE and not self._groups.claim(self.group):
            return asyncio.create_task(self.leave(), name=f"unload {self.name}")
        return None

    # Unloading ------------------------------------------------------------------------------------

    def unload_if_idle(self) -> None:
        """Unload the servable and its group if all have been idle for longer than their limit."""
        if not self._is_idle():
            return
        together = self._groups.members(self.group) if self.group else [self]
        loaded = [each for each in together if each.servable.state is ServableState.AVAILABLE]
        if any(each.is_busy for each in together) or not all(each._is_idle() for each in loaded):
            return
        for each in loaded:
            _log.info("%s: idle for %g s: unloading", each.name, each._idle_limit)
            each._job = each._begin(each._unload_idle(), "unload")

    def release(self) -> None:
        """Unload the servable if it has no request now and the next one loads it again.

        One with a group stays, because the group's other members may have requests.
        """
        is_used = self.is_busy or self._waiting.requests or not self.servable.idle_seconds()
        loaded = self.servable.state is ServableState.AVAILABLE
        if loaded and self.loads_on_demand and not self.group and not is_used:
            _log.info("%s: a client lets it go: unloading", self.name)
            self._job = self._begin(self._unload_idle(), "unload")

    def _is_idle(self) -> bool:
        return (
            not self.is_busy
            and self.servable.state is ServableState.AVAILABLE
            and 0 < self._idle_limit <= self.servable.idle_seconds()
        )

    async def leave(self) -> None:
        """Unload the servable after its last request, so that the next one loads it again."""
        while self._job is not None:
            await asyncio.wait({self._job})
        await asyncio.sleep(self._settled_at + LEAST_SECONDS - time.monotonic())
        if not self.is_busy and self.servable.state is ServableState.AVAILABLE:
            await asyncio.wait({self._begin(self._unload_idle(), "unload")})

    async def _unload_idle(self) -> None:
        await self._drop_rejected()
        self._let_go(self.servable)
        await asyncio.wait(self._leaving)
        self.servable.defer()

    async def close(self) -> None:
        """Cancel the job and retire everything after its last request in flight."""
        if self._stored is not None:
            self._stored.stop()
        for task in (*self._refreshing, *filter(None, [self._job])):
            task.cancel()
            await asyncio.wait({task})
        await self._drop_rejected()
        await asyncio.gather(self.servable.retire(), *self._leaving)
        for stored in (*self._stored_before, *filter(None, [self._stored])):
            stored.close()

    def _begin(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        self._job = asyncio.create_task(work, name=f"{what} {self.name}")
        self._job.add_done_callback(self._end_job)
        return self._job

    def _end_job(self, job: asyncio.Task[None]) -> None:
        self._job = None
        self._settled_at = time.monotonic()
        if not job.cancelled() and job.exception() is not None:
            _log.error("%s: %s failed", self.name, job.get_name(), exc_info=job.exception())
        self._release()
