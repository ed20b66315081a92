"""The life of a server: listen, load, answer, drain, close."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Final, Self, TypeVar

from calculators.kit.file_threads import DaemonThreads
from calculators.kit.tasks import AuthorEndpoint
from graph_runtime import REGISTRY, GraphError, Registry
from graphrt_base.interrupts import raise_interrupt, without_interrupts
from graphrt_base.regular_file import DescriptorsExhaustedError, check_descriptors
from servers.access import Followed, follow
from servers.config import GraphEntry, MetricsConfig, ModelEntry, ServerConfig
from servers.contract.data_plane import DataPlane, ServableState
from servers.fronts.http import HttpSettings
from servers.fronts.kserve_grpc.settings import GrpcSettings
from servers.operations.loop_watchdog import LoopWatchdog
from servers.operations.metrics.exposition import MetricsText
from servers.operations.metrics.server_metrics import Served, ServerMetrics
from servers.operations.process import READY, STOPPING, freeze_garbage, logged_on_signal, notify
from servers.operations.request_log import RequestJournal
from servers.options.server_options import LifecycleOptions
from servers.page.engines import engines_now, memory_of
from servers.page.feed import LiveFeed
from servers.page.scratch import AuthorModules, Scratch
from servers.page.views import PageViews
from servers.server.fronts import Fronts
from servers.server.workers.worker import WorkerConnection
from servers.serving.loaded_graph import GraphSettings
from servers.serving.model_repository import Elsewhere, Holding, ModelRepository
from servers.serving.page_sources import StallReporter, servables_now, shown_graph_of
from servers.serving.python_path import SharedModules
from servers.serving.reloader import Reloader
from servers.serving.servable import Loading

if TYPE_CHECKING:
    from servers.batches.desk import BatchDesk
    from servers.batches.objects import BatchSettings

_loading_log: Final = logging.getLogger("graphrt.loading")

#: Seconds between two drawings on a terminal while something is being loaded.
DRAW_SECONDS: Final = 0.2
#: Seconds between two polls while nothing loads. Loading that takes less gets no line of the log.
LOOK_SECONDS: Final = 1.0
#: Seconds between two lines of the log about the same loading.
LINE_SECONDS: Final = 5.0

#: Shows what is being loaded now; called again and again, at last with nothing.
Show = Callable[[Sequence[Loading]], object]


async def draw_loading(loading: Callable[[], Sequence[Loading]], show: Show) -> None:
    """Call ``show`` with what is being loaded, until cancelled."""
    try:
        was_loading = False
        while True:
            now = loading()
            if now or was_loading:
                show(now)
            was_loading = bool(now)
            await asyncio.sleep(DRAW_SECONDS if now else LOOK_SECONDS)
    finally:
        show(())


async def log_loading(
    loading: Callable[[], Sequence[Loading]], line_seconds: float = LINE_SECONDS
) -> None:
    """Log the progress of each loading every ``line_seconds``, until cancelled.

    Its beginning and its end have lines of their own, so short ones have no further line.
    """
    due: dict[Loading, float] = {}
    while True:
        now = loading()
        due = {each: due.get(each, line_seconds) for each in now}
        for each in now:
            if each.seconds >= due[each]:
                due[each] = each.seconds + line_seconds
                _loading_log.info(
                    "%s: loading, %d%%: %s (%.0f s)",
                    each.name,
                    each.percent,
                    each.progress.phase,
                    each.seconds,
                    extra={"event": "loading", "fields": {"name": each.name, **each.as_json()}},
                )
        await asyncio.sleep(min(LOOK_SECONDS, line_seconds))


T = TypeVar("T")

_log: Final = logging.getLogger(__name__)

#: Seconds for closing resources after the last request.
CLOSE_SECONDS: Final = 15.0
#: Seconds from then until the process must have ended.
_EXIT_SECONDS: Final = 2.0
#: Seconds between two log lines about missing file descriptors.
_REPORT_SECONDS: Final = 60.0
#: With this many graphs and models, a full garbage collection takes most of a second.
_MANY: Final = 1000
#: Seconds between two checks for idle servables and changed files.
TEND_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class ServerSettings(LifecycleOptions):
    """The settings of a server.

    Attributes:
        graphs, models: the entries to serve (`servers.config`).
        http, grpc: addresses and limits of the fronts; None switches a front off.
        registry: the calculators of all graphs and the initializers of their resources.
        graph_settings: settings of all graphs.
        python_path: modules that register further calculators for all graphs.
        calculators: files of such modules besides, whatever a changed configuration says.
        endpoint_files: the ones of them that are served themselves, for their endpoints.
        calculator_modules: names of modules that ``registry`` has the calculators of.
        reread: reads the entries to serve again; None: nothing is reloaded.
        journal: records every request.
        metrics: the metrics to publish.
        monitoring: the choice of metrics in the configuration; None: it has none.
        batches: files and batches; None: they are not served.
        elsewhere: makes servables that run elsewhere; None: all run in this process.
    """

    graphs: tuple[GraphEntry, ...]
    http: HttpSettings | None
    registry: Registry = field(default=REGISTRY)
    graph_settings: GraphSettings = field(default_factory=GraphSettings)
    models: tuple[ModelEntry, ...] = ()
    grpc: GrpcSettings | None = None
    python_path: tuple[Path, ...] = ()
    calculators: tuple[Path, ...] = ()
    endpoint_files: tuple[Path, ...] = ()
    calculator_modules: tuple[str, ...] = ()
    reread: Callable[[], ServerConfig] | None = None
    journal: RequestJournal = field(default_factory=RequestJournal)
    metrics: MetricsConfig = field(default_factory=MetricsConfig)
    monitoring: MetricsConfig | None = None
    batches: BatchSettings | None = None
    elsewhere: Elsewhere | None = None


class Server:
    """One server on the running event loop: `start`, `load`, then `stop`."""

    def __init__(
        self,
        settings: ServerSettings,
        show_loading: Show | None = None,
        worker: WorkerConnection | None = None,
    ) -> None:
        """``show_loading`` shows what is being loaded; None: the log does.

        ``worker``: the connection to the other processes of this server; None: it is alone.
        """
        self.settings = settings
        self.worker = worker
        self._show_loading = show_loading
        self.metrics = ServerMetrics(settings.metrics) if settings.metrics.enable else None
        self.views = self._page_views()
        live = None if self.views is None else self.views.feed
        graph_settings = replace(settings.graph_settings, metrics=self.metrics, live=live)
        shared = SharedModules(
            settings.registry,
            settings.python_path,
            settings.calculators,
            settings.endpoint_files,
            settings.calculator_modules,
        )
        self._shared = shared
        entries: list[GraphEntry | ModelEntry] = [*settings.graphs, *settings.models]
        named = {each.name for each in entries}
        self.repository = ModelRepository(
            (*settings.graphs, *shared.endpoint_graphs(named)),
            shared.registry,
            graph_settings,
            settings.models,
            shared.paths,
            settings.elsewhere,
        )
        if self.metrics is not None:
            self.metrics.served = self._served
            settings.journal.counts = self.metrics.end_request
            settings.journal.forgets = self.metrics.forget_generation
        if self.views is not None:
            self.views.registry = lambda: self.repository.registry
            self.views.read_graph = partial(shown_graph_of, self.repository)
            self.views.feed.servables = partial(
                servables_now, self.repository, partial(memory_of, self.metrics)
            )
            settings.journal.watcher = self.views.feed
        self._reloader: Reloader | None = None
        if settings.reread is not None:
            config = ServerConfig(
                Path(),
                settings.graphs,
                settings.models,
                settings.monitoring,
                python_path=settings.python_path,
            )
            self._reloader = Reloader(self.repository, shared, config, settings.reread)
        self._reloading: asyncio.Task[None] | None = None
        self._watching: list[asyncio.Task[None]] = []
        self._plane: DataPlane = self.repository
        text: Callable[[str], Awaitable[MetricsText]] | None = None
        if self.metrics is not None and settings.elsewhere is not None:
            own = self.metrics.text_in_turns
            text = partial(settings.elsewhere.metrics_text, self.repository, own)
        if worker is not None:
            self._plane = worker.plane_of(self.repository)
            if self.metrics is not None:
                worker.write_metrics(text or self.metrics.text_in_turns)
                text = worker.metrics_text
        self._fronts = Fronts(settings.journal, self.metrics, text)
        self._batches: BatchDesk | None = None
        if settings.batches is not None and settings.http is not None:
            # Late: a server without batches imports none of their modules.
            from servers.batches.desk import BatchDesk, publish_batches

            self._batches = BatchDesk(settings.batches)
            if self.metrics is not None:
                publish_batches(self.metrics.families, self._batches)

    def _page_views(self) -> PageViews | None:
        """Return the answers for the page; None if it is not served."""
        http = self.settings.http
        if http is None or not http.page.page:
            return None
        feed = LiveFeed(http.page, allows_control=http.access.allows_control)
        if self.metrics is not None:
            feed.engines = partial(engines_now, self.metrics, feed.requests)
            readers = self.metrics.families.gauge(
                "graphrt_live_readers", "Live streams that are open."
            )
            readers.of({}).follow(lambda: feed.readers)
        views = PageViews(feed)
        if http.page.edit:
            views.scratch = Scratch(self._author_modules)
        return views

    def _author_modules(self) -> AuthorModules:
        shared = self._shared
        return AuthorModules(self.settings.calculator_modules, shared.paths, shared.digest)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The URLs of all listening sockets, with the real ports."""
        return self._fronts.urls

    async def start(self) -> None:
        """Listen. The server is live from now on, but not ready.

        Raises:
            ListenError: an address is taken or invalid.
            StoreError: the directory of batches cannot be used.
        """
        http, batches = self.settings.http, self._batches
        document = partial(self._document, http) if http is not None else None
        if batches is not None:
            await batches.open()
        grpc = self.settings.grpc
        # Before loading: orchestrators restart a server that does not answer while a large model
        # loads (decision 0036).
        await self._fronts.start(self._plane, http, grpc, document, self.views, batches)
        fronts = [front for front in (http, grpc) if front is not None]
        files: set[Followed | None] = {front.access.keys for front in fronts}
        files |= {front.tls for front in fronts}
        self._watch(follow(each for each in files if each is not None), "follow keys and TLS")
        if self.worker is not None:
            self._watch(self.worker.report(), "report states to the other workers")

    async def take(self, connected: socket.socket) -> None:
        """Serve HTTP on a connection that was made otherwise. HTTP must be started."""
        await self._fronts.take(connected)

    def _served(self) -> Iterator[Served]:
        """Yield everything that the configuration names: each has series of metrics."""
        for each in self.repository.servables():
            is_ready = self.repository.is_model_ready(each.name)
            versions = None
            if isinstance(each.entry, ModelEntry):
                versions = tuple(entry.version for entry in each.index())
            is_loaded = each.state is ServableState.AVAILABLE
            yield Served(each.name, is_ready, versions, each.adapters, is_loaded)

    def _document(self, http: HttpSettings, endpoints: Sequence[AuthorEndpoint]) -> bytes:
        from servers.fronts.openapi.document import openapi_document

        return openapi_document(
            http,
            self._example_model(),
            has_batches=self._batches is not None,
            of_authors=[each.description for each in endpoints],
        )

    def _example_model(self) -> str:
        """Return the model's name for the examples in the OpenAPI document."""
        return self.settings.graphs[0].name if self.settings.graphs else "demo"

    async def load(self) -> None:
        """Load everything, log what fails, and start looking for changed files."""
        loading = self.repository.loading
        show = self._show_loading
        report = log_loading(loading) if show is None else draw_loading(loading, show)
        self._watch(report, "report what is being loaded")
        self._watch(self._tend(), "tend what is loaded")
        if self._reloader is not None and self.settings.poll_seconds:
            pause = asyncio.sleep if self.worker is None else self.worker.pause
            self._watch(self._reloader.watch(self.settings.poll_seconds, pause), "watch files")
        await self.repository.load_all()
        if self.worker is not None:
            await self.worker.unload_again()
        if show is not None:
            show(loading())  # what is printed next must not follow a bar
        if self._batches is not None:
            self._batches.begin()

    def _watch(self, work: Coroutine[None, None, None], name: str) -> None:
        self._watching.append(asyncio.create_task(work, name=name))

    async def _tend(self) -> None:
        known: Sequence[Holding] = ()
        gone = 0
        reported_at = -_REPORT_SECONDS
        while True:
            await asyncio.sleep(TEND_SECONDS)
            try:
                check_descriptors()
            except DescriptorsExhaustedError as error:
                if time.monotonic() - reported_at >= _REPORT_SECONDS:
                    reported_at = time.monotonic()
                    _log.error("new connections wait or are closed: %s", error)
            self.repository.unload_idle()
            found = self.repository.holdings()
            if found == known:
                continue
            loaded = {each.servable for each in found if each.is_loaded}
            gone += len({each.servable for each in known if each.is_loaded} - loaded)
            known = found
            # Collecting the garbage of thousands of graphs takes seconds, so not after each one.
            is_full = gone > 0 and (len(loaded) < _MANY or gone * 4 >= len(loaded))
            # After each change of what is loaded, as frozen garbage is found only at the next one
            # (decision 0034).
            freeze_garbage(is_full=is_full)
            if is_full:
                gone = 0

    def reload_in_background(self) -> None:
        """Read the configuration again, for SIGHUP, and log the outcome."""
        if self._reloader is None:
            _log.info("SIGHUP: there is no configuration to read again; use SIGTERM to stop")
            return
        if self._reloading is not None and not self._reloading.done():
            _log.info("SIGHUP: a reload is under way already")
            return
        _log.info("SIGHUP: reading the configuration again")
        self._reloading = asyncio.create_task(self._reload(), name="reload for SIGHUP")

    async def _reload(self) -> None:
        try:
            has_changed = await self.repository.reload()
        except GraphError as error:
            _log.error("%s", error)
        else:
            if not has_changed:
                _log.info("nothing has changed")

    async def stop(self, hurry: asyncio.Event | None = None) -> None:
        """Stop being ready, wait for requests in flight or ``hurry``, then close everything."""
        self.repository.begin_draining()
        if self.views is not None:
            self.views.feed.drain()
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        if self._reloader is not None:
            await self._reloader.close()
        if self._reloading is not None:
            self._reloading.cancel()
            await asyncio.wait({self._reloading})
        if self._fronts.urls:
            seconds = self.settings.drain_seconds
            # The order of a stop: not ready, no new requests, the running ones end or are cut off,
            # then graphs and their children (decision 0043).
            await self._fronts.stop_accepting()
            _log.info("stopping: requests in flight have %g s; a second signal cuts them", seconds)
            cut_off = await until(hurry, self._fronts.drain(seconds))
            if cut_off is None:
                cut_off = await self._fronts.drain(0)
            if cut_off:
                _log.warning("%d requests were cut off", cut_off)
            await self._fronts.close()
        if self._batches is not None:
            await self._batches.close()
        if self.views is not None and self.views.scratch is not None:
            await self.views.scratch.close()
        await self.repository.close()


def serve(
    settings: ServerSettings,
    *,
    on_loaded: Callable[[Server], None] | None = None,
    show_loading: Show | None = None,
    worker: WorkerConnection | None = None,
    report: Callable[[Server], str] = lambda server: "",
) -> int:
    """Serve until SIGINT or SIGTERM, and return the exit code. Must run in the main thread.

    ``on_loaded`` is called once, when every graph is loaded or has failed. ``show_loading`` shows
    what is being loaded on a terminal; without it the log does. A second signal cuts off requests
    in flight, a third ends the process. A ``worker`` gets ``report`` instead of ``on_loaded``, and
    only SIGTERM stops it.

    Raises:
        ListenError: an address is taken or invalid.
        SharedModulesError: a file of ``settings.calculators`` cannot be imported.
    """
    with _Deadline() as deadline, asyncio.Runner(loop_factory=loop_factory()) as runner:
        loop = runner.get_loop()
        # The interpreter waits for the standard executor's threads at its exit, also for one that
        # reads a lost network mount.
        loop.set_default_executor(DaemonThreads())
        if worker is not None:
            return run_to_end(loop, _work(settings, worker, report, deadline))
        return run_to_end(loop, _serve(Server(settings, show_loading), on_loaded, deadline))


def run_to_end(loop: asyncio.AbstractEventLoop, work: Coroutine[None, None, T]) -> T:
    """Run ``work`` on an event loop, whatever a task or callback of an author's code raises.

    A loop stops where a task raises SystemExit, and where somebody calls its ``stop``. It is
    started again: what was ready is still so.

    Raises:
        KeyboardInterrupt: Ctrl-C, before signals were handled or after that.
    """
    task = loop.create_task(work)
    while True:
        try:
            return loop.run_until_complete(task)
        except BaseException as error:
            if task.done() or loop.is_closed():
                raise
            # A `sys.exit()` in a task that a node started stops the loop whatever the node's driver
            # does, so the loop is started again where it stopped (decision 0092).
            raise_interrupt(error)
            _log.error("code of an author stopped the event loop, which goes on", exc_info=error)


async def _work(
    settings: ServerSettings,
    worker: WorkerConnection,
    report: Callable[[Server], str],
    deadline: _Deadline,
) -> int:
    """Serve as one of several processes."""
    await worker.open()
    server = Server(settings, worker=worker)
    return await _serve(server, lambda loaded: worker.loaded(report(loaded)), deadline)


async def _serve(
    server: Server, on_loaded: Callable[[Server], None] | None, deadline: _Deadline
) -> int:
    hold_ups = StallReporter(server.repository.servables)
    seconds = server.settings.drain_seconds + CLOSE_SECONDS

    def on_stop() -> None:
        watchdog.stop_within(seconds)
        deadline.begin(seconds + _EXIT_SECONDS)

    with (
        without_interrupts(),
        LoopWatchdog(hold_ups.name_of, hold_ups.note) as watchdog,
        _signals(
            on_stop,
            None if server.worker is not None else server.reload_in_background,
        ) as (stop, hurry),
        logged_on_signal(),
    ):
        # Others serve already when a worker is replaced: it listens when it can answer.
        listens_last = server.worker is not None and server.worker.begin.replaces
        if not listens_last:
            await server.start()
            _log.info("listening on %s", ", ".join(server.addresses))
        await until(stop, server.load())
        if listens_last and not stop.is_set():
            await server.start()
            _log.info("listening on %s", ", ".join(server.addresses))
        if not stop.is_set():
            notify(READY)
            if on_loaded is not None:
                on_loaded(server)
        await stop.wait()
        notify(STOPPING)
        try:
            await asyncio.wait_for(server.stop(hurry), seconds)
        except TimeoutError:
            # Do not wait for a call that does not return: nothing can interrupt it.
            _log.error("still not stopped after %g s: ending the process", seconds)
            logging.shutdown()
            os._exit(1)
    _log.info("stopped")
    return 0


async def until(event: asyncio.Event | None, work: Coroutine[None, None, T]) -> T | None:
    """Return the result of ``work``, or cancel it and return None if ``event`` is set first."""
    task = asyncio.ensure_future(work)
    if event is None:
        return await task
    waiting = asyncio.ensure_future(event.wait())
    try:
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        if not task.done():
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    return None if task.cancelled() else task.result()


class _Deadline:
    """Ends the process if leaving the context takes too long: only calls that never return are
    left by then."""

    def __init__(self) -> None:
        self._is_over = threading.Event()
        self._has_begun = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()

    def begin(self, seconds: float) -> None:
        """Start the time limit. Only the first call counts. Safe in signal handlers."""
        if not self._has_begun:
            self._has_begun = True
            watch = partial(self._watch, seconds)
            threading.Thread(target=watch, name="graphrt-deadline", daemon=True).start()

    def _watch(self, seconds: float) -> None:
        if not self._is_over.wait(seconds):
            _log.error("still not ended after %g s: ending the process", seconds)
            logging.shutdown()
            os._exit(1)


@contextmanager
def _signals(
    on_each_signal: Callable[[], None], reload: Callable[[], None] | None
) -> Iterator[tuple[asyncio.Event, asyncio.Event]]:
    """Install signal handlers; return the events of the first and of the second signal to stop.

    The third signal ends the process.

    Args:
        on_each_signal: called at once on each signal to stop, even while the event loop is blocked.
        reload: called on the loop for SIGHUP. A server whose terminal is closed gets SIGHUP too,
            and continues, as under ``nohup``. None: this is a worker, and a supervisor turns
            SIGHUP and SIGINT of a terminal into messages and SIGTERM.
    """
    loop = asyncio.get_running_loop()
    events = [asyncio.Event(), asyncio.Event()]
    waiting = iter(events)

    def on_signal(number: int, frame: FrameType | None) -> None:
        on_each_signal()
        event = next(waiting, None)
        if event is None:
            # A third signal ends the process at once (decision 0043).
            os._exit(128 + number)
        loop.call_soon_threadsafe(event.set)

    def on_hang_up(number: int, frame: FrameType | None) -> None:
        assert reload is not None
        loop.call_soon_threadsafe(reload)

    numbers = (signal.SIGTERM,) if reload is None else (signal.SIGINT, signal.SIGTERM)
    previous = {number: signal.signal(number, on_signal) for number in numbers}
    follows_hang_up = reload is not None and hasattr(signal, "SIGHUP")
    # nohup ignores SIGHUP on purpose.
    if follows_hang_up and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        previous[signal.SIGHUP] = signal.signal(signal.SIGHUP, on_hang_up)
    try:
        yield events[0], events[1]
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the maker of the event loops of servers: uvloop's, where it is installed."""
    try:
        import uvloop
    except ImportError:  # not made for every platform
        return None
    return uvloop.new_event_loop
