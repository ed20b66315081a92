"""`LiveFeed`: one task that watches everything for all readers, while there are any."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from time import perf_counter_ns
from typing import Final

from calculators.kit.requests.request_record import RequestRecord
from graph_runtime import UnavailableError, ValidatedGraph
from graph_runtime.observe.run_totals import RunTotals
from servers.operations.request_log import RequestEnd
from servers.page.events import EngineNow, ServableNow
from servers.page.followed import FollowedRequests
from servers.page.hour import LastHour
from servers.page.live_graph import LiveGraph, ShownGraph
from servers.page.live_reader import LiveReader, LiveState
from servers.page.request_feed import RequestFeed
from servers.page.settings import PageSettings

_log: Final = logging.getLogger(__name__)

#: Readers at a time.
MOST_READERS: Final = 8
#: The least time between two looks, in seconds.
PERIOD: Final = 0.2
#: A look is followed by a rest of so many times what it took: at most 1 % of a core.
REST: Final = 100
#: The least time between two looks at what changes seldom.
_SERVABLES_EVERY: Final = 1.0
_ENGINES_EVERY: Final = 0.25
_PACKETS_EVERY: Final = 0.5


class LiveFeed:
    """Requests that run now, for the readers of ``GET /v1/live``. Belongs to one event loop.

    Without readers no task runs and no call of a graph is observed.

    Attributes:
        state: the newest state.
        settings: the permissions of the page.
        followed: the requests whose calls are recorded.
        requests: the requests of all fronts.
        hour: the figures of those that ended in the last hour.
        graphs: the loaded graphs by name.
        servables: returns everything that is configured; set by the server.
        engines: returns the engines of language models; set by the server.
    """

    def __init__(self, settings: PageSettings, *, allows_control: bool = True) -> None:
        self.settings = settings
        self.followed = FollowedRequests()
        self.requests = RequestFeed(self.followed)
        #: Returns the recorder of a run's calls if its request is followed, else None.
        self.begin_run = self.followed.begin_run
        #: Begins a request; for the journal.
        self.begin_request = self.requests.begin
        self.hour = LastHour(lambda: self.engines())
        self.state = LiveState(settings, self.requests, self.hour, allows_control=allows_control)
        self.graphs = self.state.graphs
        self.servables: Callable[[], Sequence[ServableNow]] = tuple
        self.engines: Callable[[], Iterable[EngineNow]] = tuple
        self._readers: set[LiveReader] = set()
        self._watched: set[LiveGraph] = set()
        self._task: asyncio.Task[None] | None = None
        self._is_draining = False
        #: CPU time in seconds of the looks and the readers since the last rest.
        self._spent = 0.0
        self._looked: dict[float, float] = {}

    @property
    def readers(self) -> int:
        """The number of live streams."""
        return len(self._readers)

    def all_readers(self) -> Sequence[LiveReader]:
        """Return the readers of the open streams."""
        return tuple(self._readers)

    # Called by what is served ---------------------------------------------------------------------

    def begin_graph(self, shown: ShownGraph, plan: ValidatedGraph, totals: RunTotals) -> LiveGraph:
        """Show a graph that is loaded now, until `end_graph`."""
        graph = self.graphs[shown.name] = LiveGraph(shown, plan, totals)
        self._watch()
        return graph

    def end_graph(self, graph: LiveGraph) -> None:
        """Forget a graph that is closed. Another may be loaded under its name."""
        graph.rest()
        self._watched.discard(graph)
        if self.graphs.get(graph.name) is graph:
            del self.graphs[graph.name]
            self.followed.forget_graph(graph.name)

    def end_request(self, record: RequestRecord, end: RequestEnd, ended: int) -> None:
        """End a request; for the journal."""
        self.requests.end(record, end, ended)
        if record.model:
            self.hour.end(record, end, ended)

    def drain(self) -> None:
        """End all live streams now, and refuse new ones: the server stops."""
        self._is_draining = True
        for reader in self._readers:
            reader.end()

    # Called by fronts -----------------------------------------------------------------------------

    def check_room(self) -> None:
        """Check that there may be one more reader.

        Raises:
            UnavailableError: there are `MOST_READERS`, or the server stops.
        """
        if self._is_draining:
            raise UnavailableError("The server is shutting down")
        if len(self._readers) >= MOST_READERS:
            raise UnavailableError(
                f"{MOST_READERS} live streams are open, as many as this server serves; close one"
            )

    async def read(
        self,
        reader: LiveReader,
        emit: Callable[[bytes], object],
        is_writable: Callable[[], bool],
    ) -> None:
        """Send a reader's events until the server stops. Cancel it when the client is gone.

        Args:
            emit: sends complete events.
            is_writable: returns whether the client reads fast enough for more.

        Raises:
            UnavailableError: see `check_room`.
        """
        self.check_room()
        self._readers.add(reader)
        try:
            self._watch()
            if self._task is None:
                await self._look()
            if self._task is None:
                self._task = asyncio.create_task(self._run(), name="live feed")
            await reader.run(emit, is_writable, self._note_spent)
        finally:
            self._readers.discard(reader)
            self._watch()
            if not self._readers and self._task is not None:
                self._task.cancel()
                self._task = None

    def _note_spent(self, seconds: float) -> None:
        self._spent += seconds

    # The task -------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except Exception:
                _log.exception("the live feed failed once; it goes on")
            for reader in self._readers:
                reader.wake()
            spent, self._spent = self._spent, 0.0
            await asyncio.sleep(max(PERIOD, spent * REST))

    async def _look(self) -> None:
        for graph in tuple(self._watched):
            await graph.take(self._note_spent)
        began = time.thread_time()
        self._look_at_others()
        self._note_spent(time.thread_time() - began)

    def _look_at_others(self) -> None:
        self.requests.look()
        if self._is_due(_SERVABLES_EVERY):
            servables = self.servables()
            if servables != self.state.servables:
                self.state.servables = servables
        if self._is_due(_ENGINES_EVERY):
            for engine in self.engines():
                key = (engine.g, engine.node)
                if self.state.engines.get(key) != engine:
                    self.state.engines[key] = engine
        if self._is_due(_PACKETS_EVERY):
            for key in {each for reader in self._readers for each in reader.focus}:
                found = self.graphs.get(key[0])
                if found is not None:
                    self._look_at_packets(key, found)

    def _look_at_packets(self, key: tuple[str, str], graph: LiveGraph) -> None:
        last = graph.last_packets(key[1])
        if last != self.state.packets.get(key):
            self.state.packets[key] = last

    def _is_due(self, every: float) -> bool:
        """Return whether a look that is taken every so many seconds is due."""
        now = perf_counter_ns() / 1e9
        # A little less, because the task wakes up at multiples of its period.
        if now - self._looked.get(every, 0.0) < every * 0.9:
            return False
        self._looked[every] = now
        return True

    def _watch(self) -> None:
        """Observe what readers want to see, and nothing else."""
        names = {name for reader in self._readers for name in reader.graphs}
        wanted = {self.graphs[name] for name in names if name in self.graphs}
        for graph in self._watched - wanted:
            graph.rest()
        for graph in wanted - self._watched:
            graph.watch(with_values=self.settings.contents)
        self._watched = wanted
        focus = {each for reader in self._readers for each in reader.focus}
        for graph in wanted:
            graph.focus([node for name, node in focus if name == graph.name])
        for key in self.state.packets.keys() - focus:
            del self.state.packets[key]


def split_focus(texts: Collection[str], graphs: Collection[str]) -> tuple[tuple[str, str], ...]:
    """Return graph and node of texts such as ``graph/node``: both may have slashes."""
    found = []
    for text in texts:
        names = [name for name in graphs if text.startswith(f"{name}/")]
        if names:
            name = max(names, key=len)
            found.append((name, text[len(name) + 1 :]))
    return tuple(found)
