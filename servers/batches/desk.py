"""`BatchDesk`: files and batches of a server, and the process that answers their requests."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, ParamSpec, TypeVar

from calculators.kit.child_process.back_off import BackOff
from calculators.kit.child_process.early_start import child_environment, python_module
from servers.batches.batch_lines import end_batch
from servers.batches.contents import StoreLock, drop_file, keep_file
from servers.batches.objects import (
    INPUT_SECONDS,
    WINDOW_SECONDS,
    Batch,
    BatchSettings,
    Status,
    StorageFullError,
    StoredFile,
    StoreError,
    clock_of_child,
    new_id,
    storage_errors,
    unix_seconds,
)
from servers.batches.store import BatchStore, StoreCounts
from servers.operations.metrics.families import Families


class Upload:
    """Writes one file. Methods block; one thread at a time may call them.

    Raises:
        StoreError: the constructor and every method; `StorageFullError` if the disk is full.
    """

    def __init__(self, store: BatchStore) -> None:
        self._store = store
        self._id = new_id("file-")
        with storage_errors():
            self._path = store.place_for_writing(self._id)
            self._file: BinaryIO | None = self._path.open("xb")
        self.size = 0

    def write(self, data: bytes) -> None:
        assert self._file is not None
        with storage_errors():
            self._file.write(data)
        self.size += len(data)

    def finish(
        self, *, owner: str, filename: str, purpose: str, now: int, expires_at: int | None
    ) -> StoredFile:
        """Make the file known, once it is on the disk, and return it."""
        assert self._file is not None
        try:
            keep_file(self._file, self._path, self._store.path_of(self._id))
        except StorageFullError:
            self.discard()
            raise
        self._file = None
        file = StoredFile(
            id=self._id,
            owner=owner,
            filename=filename,
            purpose=purpose,
            size=self.size,
            created_at=now,
            expires_at=expires_at,
        )
        self._store.add_file(file)
        return file

    def discard(self) -> None:
        """Remove what was written unless it is finished."""
        if self._file is not None:
            file, self._file = self._file, None
            drop_file(file, self._path)


_NICE: Final = 19


def give_lowest_priority(pid: int) -> None:
    """Let a child process, and all that it starts later, run only when nothing else wants a core.

    Linux keeps priorities by thread; threads that exist already are changed too.

    `SCHED_IDLE` gives a core up as soon as another thread wakes. With niceness alone that thread
    may wait for the end of a slice of some milliseconds, at each hop between processes. Niceness
    is for the disk, and for systems without the policy.
    """
    folder = Path(f"/proc/{pid}/task")
    threads = [int(path.name) for path in folder.iterdir()] if folder.is_dir() else [pid]
    for thread in threads:
        # A thread may have ended, and a sandbox may refuse the policy.
        with suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, thread, _NICE)
        if hasattr(os, "SCHED_IDLE"):
            with suppress(ProcessLookupError, PermissionError):
                # Each thread: those that libraries had started before keep their priority (decision
                # 0073).
                os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))


T = TypeVar("T")
P = ParamSpec("P")

_log: Final = logging.getLogger(__name__)

#: Seconds between two queries for what the worker has committed.
_LOOK_SECONDS: Final = 1.0
#: Seconds between two searches for files whose time is over.
_EXPIRY_SECONDS: Final = 60.0
#: Seconds until what failed is tried again.
_AGAIN_SECONDS: Final = 5.0
#: Seconds until a worker that failed is started again: the first time, and at most.
_FIRST_DELAY: Final = 1.0
_LAST_DELAY: Final = 60.0
#: Seconds after which an upload that has not grown is not in progress any more.
_UPLOAD_SECONDS: Final = 24 * 3600
#: Seconds that the worker may take to stop.
_STOP_SECONDS: Final = 5.0


class BatchDesk:
    """The files and batches of one server. Belongs to one event loop; its store is in threads.

    The worker is started when there is a batch to process. It ends when none is left, which frees
    the memory of its models.

    Attributes:
        counts: sums over all batches, at most `_LOOK_SECONDS` old while batches run.
        has_worker: the worker runs.
    """

    def __init__(self, settings: BatchSettings) -> None:
        self.settings = settings
        self.counts = StoreCounts()
        self.has_worker = False
        self._store: BatchStore | None = None
        self._lock: StoreLock | None = None
        self._has_work = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._back_off = BackOff(_FIRST_DELAY, _LAST_DELAY)
        self._version = -1

    @property
    def store(self) -> BatchStore:
        """The store. Its methods block.

        Raises:
            StoreError: it could not be opened yet.
        """
        if self._store is None:
            raise StoreError("files and batches cannot be served now: their store is damaged")
        return self._store

    async def open(self) -> None:
        """Open the store, and begin with what is unfinished.

        A store that is damaged, or that finds no room, is tried again while the server runs: models
        are served without it.

        Raises:
            StoreError: the directory cannot be used, or another server uses it.
        """
        await asyncio.to_thread(self._open)

    def _open(self) -> None:
        with storage_errors():
            self.settings.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            self._lock = StoreLock(self.settings.directory / "server.lock")
        except StoreError:
            if not self.settings.is_shared:
                raise
        try:
            self._open_store()
        except StoreError as error:
            if isinstance(error.__cause__, OSError) and not isinstance(error, StorageFullError):
                self._release()
                raise
            _log.error(
                "files and batches are not served until their store in %s can be read: %s (%s)",
                self.settings.directory, error, error.__cause__,
            )  # fmt: skip

    def _open_store(self) -> None:
        """Open the store, and tidy it if no other server does.

        Raises:
            StoreError: it cannot be opened.
        """
        store = BatchStore(self.settings.directory)
        if self._lock is not None:
            self._tidy(store)
        with suppress(StoreError):
            self.counts = store.counts()
        self._store = store

    def _own(self) -> None:
        """Become the server that starts the worker.

        Raises:
            StoreError: another server is.
        """
        self._lock = StoreLock(self.settings.directory / "server.lock")
        self._tidy(self.store)

    def _tidy(self, store: BatchStore) -> None:
        before = unix_seconds() - _UPLOAD_SECONDS if self.settings.is_shared else math.inf
        try:
            # The worker of a server that was killed may need a moment to end.
            with StoreLock(self.settings.directory / "worker.lock", waits=True):
                store.tidy(before)
        except StoreError as error:
            # Parts of files stay for now. Nothing else depends on it.
            _log.warning("the directory of batches is not tidied: %s", _text_of(error))

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def begin(self) -> None:
        """Begin to process batches. Called when the server is loaded."""
        self._tasks = [
            asyncio.create_task(self._keep_worker(), name="keep the worker of batches"),
            asyncio.create_task(self._look(), name="look after files and batches"),
        ]

    async def close(self) -> None:
        """Stop the worker and close the store."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._store is not None:
            self._store.close()
        self._release()

    # Files and batches ----------------------------------------------------------------------------

    async def begin_upload(self) -> Upload:
        return await asyncio.to_thread(Upload, self.store)

    async def end_upload(
        self, upload: Upload, owner: str, filename: str, purpose: str, seconds: int | None
    ) -> StoredFile:
        """Keep an uploaded file for a client.

        ``seconds``: the time to keep it; None: `INPUT_SECONDS`.
        """
        now = unix_seconds()
        if seconds is None:
            seconds = INPUT_SECONDS
        return await asyncio.to_thread(
            upload.finish,
            owner=owner,
            filename=filename,
            purpose=purpose,
            now=now,
            expires_at=now + seconds,
        )

    async def create(
        self,
        *,
        owner: str,
        endpoint: str,
        input_file_id: str,
        metadata: dict[str, str] | None,
        output_seconds: int | None,
        prefix: str = "batch_",
        total: int = 0,
    ) -> Batch:
        """Make a batch and let the worker begin.

        ``prefix``: of its id; ``total``: its requests, if they are counted already.

        Raises:
            NotStoredError: the client has no such file.
        """
        now = unix_seconds()
        batch = Batch(
            id=new_id(prefix),
            owner=owner,
            endpoint=endpoint,
            input_file_id=input_file_id,
            metadata=metadata,
            output_seconds=output_seconds,
            created_at=now,
            expires_at=now + WINDOW_SECONDS,
            total=total,
        )
        made = await asyncio.to_thread(self.store.add_batch, batch)
        _log.info("%s was made: %s, input %s", made.id, endpoint, input_file_id)
        if self._lock is not None:
            self._has_work.set()
        return made

    async def ask(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a method of the store in a thread."""
        return await asyncio.to_thread(work, *args, **kwargs)

    # The worker -----------------------------------------------------------------------------------

    async def _keep_worker(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._has_work.wait()
            began = loop.time()
            try:
                code = await self._run_worker()
            except OSError as error:
                _log.error("the worker of batches cannot be started: %s", error.strerror)
                code = 1
            self._back_off.note_life(loop.time() - began)
            if code:
                delay = self._back_off.next_pause()
                how = f"by signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"{code=}"
                _log.error("the worker of batches ended (%s); it starts again in %g s", how, delay)
                await asyncio.sleep(delay)
            self._has_work.clear()  # `_look` finds what came at the last moment

    async def _run_worker(self) -> int:
        """Start the worker and wait for its end; return its exit code.

        Raises:
            OSError: no process can be started.
        """
        command = self.settings.worker_command
        # In the server's own session: with autogroups, Linux weighs niceness only inside one.
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            env={**child_environment({}), **clock_of_child()},
        )
        if self.settings.is_idle:
            give_lowest_priority(process.pid)
        self.has_worker = True
        _log.info("the worker of batches has started: process %d", process.pid)
        try:
            return await process.wait()
        finally:
            self.has_worker = False
            if process.returncode is None:
                await _stop(process)

    async def _look(self) -> None:
        """Look after the store now and then. A part that fails stops no other."""
        parts = [
            _Part(self._open_again, _AGAIN_SECONDS),
            _Part(self._remove_expired, _EXPIRY_SECONDS),
            _Part(self._own_again, _LOOK_SECONDS),
            _Part(self._count, _LOOK_SECONDS),
            _Part(self._end_without_worker, _EXPIRY_SECONDS),
            _Part(self._find_work, _LOOK_SECONDS),
        ]
        while True:
            for part in parts:
                await part.run()
            await asyncio.sleep(_LOOK_SECONDS)

    async def _open_again(self) -> None:
        if self._store is None:
            await self.ask(self._open_store)
            _log.info("the store of files and batches can be read again")

    async def _remove_expired(self) -> None:
        if self._store is not None:
            removed = await self.ask(self.store.remove_expired, unix_seconds())
            if removed:
                self._version = -1

    async def _own_again(self) -> None:
        if self._lock is None and self._store is not None:
            with suppress(StoreError):
                await self.ask(self._own)

    async def _count(self) -> None:
        if self._store is None:
            return
        found = await self.ask(lambda: self.store.version)
        if found != self._version or not self.has_worker:
            self.counts = await self.ask(self.store.counts)
            self._version = found

    async def _end_without_worker(self) -> None:
        """End cancelled and expired batches while the worker cannot run."""
        if self._back_off.failures and not self.has_worker and self._lock is not None:
            await self.ask(self._end_batches)

    def _end_batches(self) -> None:
        store, now = self.store, unix_seconds()
        # A worker that starts meanwhile waits.
        with StoreLock(self.settings.directory / "worker.lock"):
            for batch in store.unfinished():
                is_over = batch.expires_at is not None and batch.expires_at <= now
                if is_over or batch.status is Status.CANCELLING:
                    most = self.settings.max_line_bytes
                    ended = end_batch(store, batch.number, now, most_line_bytes=most)
                    _log.info("%s is %s, without the worker", ended.id, ended.status)

    async def _find_work(self) -> None:
        if self.has_worker or self._lock is None or self._store is None:
            return
        if await self.ask(self.store.has_unfinished):
            self._has_work.set()


class _Part:
    """Something to do every ``seconds``. An error is logged when it is another than the last."""

    def __init__(self, work: Callable[[], Awaitable[None]], seconds: float) -> None:
        self._work = work
        self._seconds = seconds
        self._due = -math.inf
        self._logged = ""

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < self._due:
            return
        self._due = loop.time() + self._seconds
        try:
            await self._work()
        except Exception as error:
            text = _text_of(error)
            if text != self._logged:
                trace = None if isinstance(error, StoreError) else error
                _log.warning("files and batches: %s", text, exc_info=trace)
            self._logged = text
            self._due = loop.time() + max(self._seconds, _AGAIN_SECONDS)
        else:
            self._logged = ""


def _text_of(error: Exception) -> str:
    cause = error.__cause__
    return f"{error}" if cause is None else f"{error} ({cause})"


async def _stop(process: asyncio.subprocess.Process) -> None:
    """Stop the worker; committed answers stay, and requests in flight run again later."""
    if process.stdin is not None:
        process.stdin.close()  # the worker ends when its standard input does
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except (TimeoutError, asyncio.CancelledError):
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def worker_command(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command of the worker of a server. ``words``: of `graphrt serve`."""
    return (*python_module("servers.cli.batch_worker"), *words)


def publish_batches(families: Families, desk: BatchDesk) -> None:
    """Make the families of batches, which follow the desk's sums.

    The sums are kept with the batches, so they survive the server.
    """

    def follow(read: Callable[[StoreCounts], float]) -> Callable[[], float]:
        return lambda: read(desk.counts)

    batches = families.gauge("graphrt_batches", "Batches by status.")
    for status in Status:
        batches.of({"status": status.value}).follow(follow(partial(_batches_in, status)))
    requests = families.counter(
        "graphrt_batch_requests_total", "Requests of batches that have an answer, by outcome."
    )
    requests.of({"outcome": "completed"}).follow(follow(lambda c: c.completed))
    requests.of({"outcome": "failed"}).follow(follow(lambda c: c.failed))
    tokens = families.counter(
        "graphrt_batch_tokens_total", "Tokens of answers to requests of batches."
    )
    tokens.of({"kind": "input"}).follow(follow(lambda c: c.input_tokens))
    tokens.of({"kind": "output"}).follow(follow(lambda c: c.output_tokens))
    waiting = families.gauge(
        "graphrt_batch_requests_waiting", "Requests of batches that have no answer yet."
    )
    waiting.of({}).follow(follow(lambda c: c.waiting))
    files = families.gauge("graphrt_batch_files", "Files for batches, and their results.")
    files.of({}).follow(follow(lambda c: c.files))
    size = families.gauge("graphrt_batch_file_bytes", "Bytes of these files.")
    size.of({}).follow(follow(lambda c: c.file_bytes))
    worker = families.gauge(
        "graphrt_batch_worker", "1 while the process that answers requests of batches runs."
    )
    worker.of({}).follow(lambda: float(desk.has_worker))


def _batches_in(status: Status, counts: StoreCounts) -> float:
    return counts.batches.get(status.value, 0)
