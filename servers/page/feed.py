"""`LiveFeed`: one task that watches everything for all readers, while there are any."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from statistics import median
from time import perf_counter_ns
from typing import Final

import msgspec

from calculators.kit.child_process.supervisor import running_children
from calculators.kit.memory import resident_bytes
from calculators.kit.requests.request_record import RequestRecord
from graph_runtime import UnavailableError, ValidatedGraph
from graph_runtime.observe.run_totals import RunTotals
from servers import NAME, version
from servers.operations.request_log import RequestEnd
from servers.page.events import (
    EVENTS,
    End,
    EngineNow,
    Hello,
    Hour,
    LastPackets,
    LogLine,
    LogLines,
    Moment,
    PacketSeen,
    Processes,
    ProcessNow,
    RequestNow,
    ServableNow,
    Servables,
)
from servers.page.live_graph import LiveGraph, ShownGraph, Snapshot
from servers.page.request_feed import FollowedRequests, RequestFeed
from servers.page.settings import PageSettings

#: The length of a moment in seconds.
EVERY: Final = 10
_EVERY_NS: Final = EVERY * 1_000_000_000
_KEPT: Final = 3600 // EVERY
#: Times of a moment that a median is made of.
_MOST_TIMES: Final = 64
_FIRST_ERROR: Final = 400


class _Counts:
    """Counts of one moment."""

    __slots__ = ("cache", "errors", "number", "requests", "running", "tokens", "tpot", "ttft",
                 "waiting")  # fmt: skip

    def __init__(self, number: int, engines: Iterable[EngineNow]) -> None:
        found = list(engines)
        self.number = number
        self.requests = self.errors = self.tokens = 0
        self.ttft: list[int] = []
        self.tpot: list[float] = []
        self.running = sum(each.running for each in found)
        self.waiting = sum(each.waiting for each in found)
        self.cache = max((each.cache for each in found), default=None)


class LastHour:
    """Counts requests at their ends. No task runs, so times without requests have no moments.

    Queues and caches of a moment are as they were when its first request ended.
    """

    def __init__(self, engines: Callable[[], Iterable[EngineNow]]) -> None:
        """``engines``: returns the engines of language models."""
        self._engines = engines
        self._counts: deque[_Counts] = deque(maxlen=_KEPT)

    def end(self, record: RequestRecord, end: RequestEnd, ended: int) -> None:
        """Count a request of a model. ``ended`` is of ``time.perf_counter_ns``."""
        number = ended // _EVERY_NS
        if not self._counts or self._counts[-1].number < number:
            self._counts.append(_Counts(number, self._engines()))
        counts = self._counts[-1]
        counts.requests += 1
        status = end.status
        if status >= _FIRST_ERROR if isinstance(status, int) else status != "OK":
            counts.errors += 1
        for each in record.generations:
            counts.tokens += each.completion_tokens
            if each.first_token and len(counts.ttft) < _MOST_TIMES:
                counts.ttft.append(each.first_token - each.began)
                later = each.completion_tokens / max(1, len(each.finish_reasons)) - 1
                if later > 0:
                    counts.tpot.append((each.ended - each.first_token) / later)

    def event(self) -> Hour:
        """Return the moments of the last hour that are over, the oldest first."""
        present = perf_counter_ns() // _EVERY_NS
        return Hour(
            EVERY,
            [
                Moment(
                    end_us=(each.number + 1) * EVERY * 1_000_000,
                    tokens=each.tokens,
                    ttft_ms=_milliseconds(each.ttft),
                    tpot_ms=_milliseconds(each.tpot),
                    running=each.running,
                    waiting=each.waiting,
                    cache=each.cache,
                    requests=each.requests,
                    errors=each.errors,
                )
                for each in self._counts
                if present - _KEPT <= each.number < present
            ],
        )


def _milliseconds(times: Sequence[float]) -> float | None:
    return round(median(times) / 1e6, 2) if times else None


_log: Final = logging.getLogger(__name__)

#: Readers at a time.
MOST_READERS: Final = 8
#: Shortest time between two polls of the state, in seconds.
PERIOD: Final = 0.2
#: The feed rests this many times as long as a poll took, so it uses at most 1 % of a core.
REST: Final = 100
#: Shortest times between two polls of what changes seldom.
_SERVABLES_EVERY: Final = 1.0
_ENGINES_EVERY: Final = 0.25
_PACKETS_EVERY: Final = 0.5
_PROCESSES_EVERY: Final = 2.0


#: Lines that are kept, and characters of one.
MOST_LINES: Final = 500
LINE_CHARS: Final = 2000
#: Its lines are prompts and answers (`--log_prompts`).
_OF_PROMPTS: Final = "graphrt.prompts"


class LastLines(logging.Handler):
    """Keeps the last lines of the log, without prompts and tracebacks.

    Attributes:
        count: the number of the newest line.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._lines: deque[LogLine] = deque(maxlen=MOST_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == _OF_PROMPTS:
            return
        try:
            text = record.getMessage()
        except Exception:  # a mistake of the caller, which the log itself reports
            return
        # A traceback repeats what a calculator was given.
        if record.exc_info and record.exc_info[0] is not None:
            text += f" ({record.exc_info[0].__name__}; the traceback is in the log)"
        shown = "".join(_escaped(each) for each in text[:LINE_CHARS])
        number = self.count + 1
        self._lines.append(
            LogLine(number, round(record.created, 3), record.levelname, record.name, shown)
        )
        self.count = number

    def since(self, number: int) -> list[LogLine]:
        """Return the lines after a number, the oldest first."""
        # Other threads log meanwhile.
        return [line for line in self._lines.copy() if line.number > number]


def _escaped(character: str) -> str:
    """Return a character, escaped if it would move or turn the text beside it."""
    if character.isprintable() or character == "\n":
        return character
    return f"\\u{ord(character):04x}"


def processes_now() -> list[ProcessNow]:
    """Return the server's process and the children that it watches."""
    found = [ProcessNow("server", os.getpid(), time.process_time(), resident_bytes(os.getpid()))]
    for name, pid, seconds in running_children():
        found.append(ProcessNow(name, pid, seconds, resident_bytes(pid)))
    return found


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
        if self.state.log is not None:
            logging.getLogger().addHandler(self.state.log)
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
        if self.state.log is not None:
            logging.getLogger().removeHandler(self.state.log)
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
        if self.settings.operations and self._is_due(_PROCESSES_EVERY):
            self.state.processes = Processes(time.perf_counter_ns() // 1000, processes_now())
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
        """Return True if a poll with this period in seconds is due."""
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


VERSION: Final = 1
#: The most events per second and graph.
FASTEST_HZ: Final = 5.0
#: Events about requests per second.
REQUESTS_PER_SECOND: Final = 50
_NAMES: Final = {kind: name.encode() for name, kind in EVENTS.items()}
_ENCODER: Final = msgspec.json.Encoder()


def encode_event(event: msgspec.Struct) -> bytes:
    """Return a server-sent event."""
    return b"event: %b\ndata: %b\n\n" % (_NAMES[type(event)], _ENCODER.encode(event))


class LiveState:
    """The newest state of everything that readers get. Each value is replaced, not changed.

    Attributes:
        settings: the permissions of the page.
        allows_control: clients may load and unload.
        graphs: the loaded graphs by name.
        servables: everything that is configured.
        engines: the engines of language models, by graph and node.
        packets: the last packets of the nodes in focus, by graph and node.
        requests: the requests of all fronts.
        hour: their last hour.
        processes, log: of the server; None where the operator does not allow to show them.
    """

    def __init__(
        self, settings: PageSettings, requests: RequestFeed, hour: LastHour, *, allows_control: bool
    ) -> None:
        self.settings = settings
        self.allows_control = allows_control
        self.requests = requests
        self.hour = hour
        self.graphs: dict[str, LiveGraph] = {}
        self.servables: Sequence[ServableNow] = ()
        self.engines: dict[tuple[str, str], EngineNow] = {}
        self.packets: dict[tuple[str, str], list[PacketSeen]] = {}
        self.processes: Processes | None = None
        self.log = LastLines() if settings.operations else None


class LiveReader:
    """Sends the changes since its client's last state, whenever the client is ready.

    A client that reads slowly gets fewer events: changes are made from the newest state only, and
    there is no queue.

    Attributes:
        graphs: names of the graphs that the client watches, loaded or not.
        focus: graph and node of the nodes whose last packets it wants.
        is_ready: the client read fast enough at the last poll.
    """

    def __init__(
        self,
        state: LiveState,
        graphs: Sequence[str] = (),
        hz: float = FASTEST_HZ,
        focus: Sequence[tuple[str, str]] = (),
    ) -> None:
        self.graphs = tuple(dict.fromkeys(graphs))
        self.focus = tuple(dict.fromkeys(focus))
        self.is_ready = True
        self._state = state
        self._hz = hz
        self._woken = asyncio.Event()
        self._has_ended = False
        #: Revisions that the last hello named.
        self._revisions: dict[str, str] | None = None
        self._snapshots: dict[str, Snapshot] = {}
        self._servables: Sequence[ServableNow] | None = None
        self._engines: dict[tuple[str, str], EngineNow] = {}
        self._packets: dict[tuple[str, str], list[PacketSeen]] = {}
        self._request = -1
        self._requests_at = 0.0
        self._has_hour = False
        self._processes: Processes | None = None
        self._line = 0

    def wake(self) -> None:
        """Note that there may be something new."""
        self._woken.set()

    def end(self) -> None:
        """End the stream: the server stops."""
        self._has_ended = True
        self._woken.set()

    async def run(
        self,
        emit: Callable[[bytes], object],
        is_writable: Callable[[], bool],
        spent: Callable[[float], object],
    ) -> None:
        """Send events until `end`; see `LiveFeed.read`.

        ``spent`` gets the CPU time of each turn in seconds.
        """
        period = 0.0 if self._hz >= FASTEST_HZ else 1 / self._hz
        due = 0.0
        while not self._has_ended:
            now = time.monotonic()
            self.is_ready = is_writable()
            if now >= due and self.is_ready:
                due = now + period
                began = time.thread_time()
                data = b"".join(map(encode_event, self._changes(now)))
                if data:
                    emit(data)
                spent(time.thread_time() - began)
            await self._woken.wait()
            self._woken.clear()
        emit(encode_event(End("draining")))

    def _changes(self, now: float) -> Iterator[msgspec.Struct]:
        """Yield the events that lead from the client's state to the present one."""
        state = self._state
        graphs = {name: state.graphs[name] for name in self.graphs if name in state.graphs}
        revisions = {name: graph.revision for name, graph in graphs.items()}
        if revisions != self._revisions:
            for name in self._snapshots.keys() - {
                name for name, revision in revisions.items()
                if self._revisions and self._revisions.get(name) == revision
            }:  # fmt: skip
                del self._snapshots[name]
            self._revisions = revisions
            yield Hello(
                VERSION,
                f"{NAME} {version()}",
                time.perf_counter_ns() // 1000,
                self._hz,
                state.settings.contents,
                state.settings.edit,
                state.allows_control,
                state.settings.operations,
                {name: graph.shape for name, graph in graphs.items()},
            )
        if not self._has_hour:
            self._has_hour = True
            yield state.hour.event()
        if state.servables is not self._servables:
            self._servables = state.servables
            yield Servables(list(state.servables))
        for name, graph in graphs.items():
            snapshot, before = graph.snapshot, self._snapshots.get(name)
            if snapshot is not None and snapshot is not before:
                self._snapshots[name] = snapshot
                yield snapshot.since(name, before)
        for key, engine in state.engines.items():
            if self._engines.get(key) is not engine:
                self._engines[key] = engine
                yield engine
        yield from self._requests(now)
        for key in self.focus:
            last = state.packets.get(key)
            if last is not None and last is not self._packets.get(key):
                self._packets[key] = last
                yield LastPackets(key[0], key[1], last)
        if state.processes is not None and state.processes is not self._processes:
            self._processes = state.processes
            yield state.processes
        if state.log is not None and state.log.count > self._line:
            lines = state.log.since(self._line)
            self._line = lines[-1].number
            yield LogLines(lines)

    def _requests(self, now: float) -> Iterator[RequestNow]:
        requests = self._state.requests
        if self._request < 0:
            # At first the last ended requests, and those that run.
            self._request, self._requests_at = requests.count, now
            yield from requests.ends()
            yield from requests.running()
            return
        if requests.count == self._request:
            return
        most = max(1, int(REQUESTS_PER_SECOND * min(1.0, now - self._requests_at)))
        self._requests_at = now
        events, skipped = requests.since(self._request, most)
        self._request = requests.count
        for event in events:
            yield msgspec.structs.replace(event, skipped=skipped) if skipped else event
            skipped = 0
