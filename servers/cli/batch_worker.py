"""The worker of batches: ``python -m servers.cli.batch_worker serve WORD ...``.

A server starts it with the words of its own command line, and gives it the lowest priority. It has
engines of its own, so that it has the processor only when no request of a client wants it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from calculators.kit.child_process.parent_connection import die_with_parent
from calculators.kit.file_threads import DaemonThreads
from graph_runtime import NodePlan
from graphrt_base.interrupts import without_interrupts
from servers.batch_work.inner_server import inner_client
from servers.batch_work.worker import BatchWorker, when_there_is_room
from servers.batches.contents import StoreLock
from servers.batches.objects import Batch, BatchSettings, StoreError
from servers.batches.store import BatchStore
from servers.cli.arguments import make_parser
from servers.cli.messages import CommandFailed, print_error
from servers.cli.serve_options import serve_options
from servers.cli.server_settings import inner_server, settings_in
from servers.cli.telemetry import set_up_log
from servers.operations.loop_watchdog import LoopWatchdog
from servers.server.lifecycle import ServerSettings, loop_factory, run_to_end

_log: Final = logging.getLogger(__name__)

#: Seconds between two lines about the progress of batches.
_LOG_SECONDS: Final = 60.0
#: Seconds without a batch after which the process ends, and the memory of its models is free.
_IDLE_SECONDS: Final = 30.0
#: Seconds after which an event loop that is held ends the process, so that other batches go on.
STALL_SECONDS: Final = 300.0


def main(words: Sequence[str]) -> int:
    """Process the batches in the directory of a server; return the exit code."""
    # Ctrl-C is for the server, which ends the worker.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    args = make_parser().parse_args(words)
    try:
        options = serve_options(args)
        set_up_log(options.server, verbose=args.verbose)
        if not args.verbose:
            # A batch may have a million requests: its progress is logged instead.
            logging.getLogger("graphrt.request").setLevel(logging.WARNING)
        assert options.batches.batch_dir is not None
        settings = settings_in(Path(options.batches.batch_dir).absolute(), options)
        server = inner_server(options, args)
    except CommandFailed as failure:
        print_error(f"batches: {failure}", failure.hint)
        return failure.status
    # SQLite's temporary files, such as the identifiers of a file that is checked: the disk of the
    # store is the one that may be full.
    os.environ.setdefault("SQLITE_TMPDIR", str(settings.directory / "uploads"))
    end = _EndWithServer()
    try:
        # The worker of a server that was killed may need a moment to end.
        with (
            StoreLock(settings.directory / "worker.lock", waits=True),
            asyncio.Runner(loop_factory=loop_factory()) as runner,
            without_interrupts(),
        ):
            loop = runner.get_loop()
            loop.set_default_executor(DaemonThreads())
            run_to_end(loop, _work(server, settings, end))
    except StoreError as error:
        print_error(f"batches: {error}: {error.__cause__}", None)
        return 1
    return 0


async def _work(server: ServerSettings, settings: BatchSettings, end: _EndWithServer) -> None:
    store = await asyncio.to_thread(BatchStore, settings.directory)
    try:
        # The results of a batch may be known, and its answers not yet removed.
        with suppress(StoreError):
            await when_there_is_room(store.drop_answers)
        async with inner_client(server, settings.width, store) as client:
            worker = BatchWorker(store, settings, client.ask)
            end.before = worker.end_in_order
            with LoopWatchdog(_name_of, lambda _: None, most_seconds=STALL_SECONDS):
                await worker.run(_IDLE_SECONDS, _BatchProgress().show)
    finally:
        store.close()


def _name_of(node: NodePlan) -> str:
    return f"the node {node.name}"


class _BatchProgress:
    """Logs now and then how far the batches are."""

    def __init__(self) -> None:
        self._logged_at = time.monotonic()

    def show(self, batches: list[Batch]) -> None:
        if time.monotonic() - self._logged_at < _LOG_SECONDS:
            return
        self._logged_at = time.monotonic()
        for batch in batches:
            _log.info(
                "%s is %s: %d of %d requests have an answer",
                batch.id, batch.status, batch.completed + batch.failed, batch.total,
            )  # fmt: skip


class _EndWithServer:
    """Ends the process when the server closes its standard input, or is gone.

    Committed answers stay; the others are computed again by the next worker.

    Attributes:
        before: called in a thread before the end.
    """

    def __init__(self) -> None:
        self.before: Callable[[], None] = lambda: None
        die_with_parent(os.getppid())
        threading.Thread(target=self._wait, name="graphrt-parent", daemon=True).start()

    def _wait(self) -> None:
        os.read(sys.stdin.fileno(), 1)
        self.before()
        os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
