"""`BatchDesk`: files and batches of a server, and the process that answers their requests."""

from __future__ import annotations

import asyncio
import logging
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final, ParamSpec, TypeVar

from calculators.child_process.back_off import BackOff
from servers.batches.clock import unix_seconds
from servers.batches.errors import StoreError
from servers.batches.objects import (
    INPUT_PURPOSE,
    INPUT_SECONDS,
    WINDOW_SECONDS,
    Batch,
    StoredFile,
    new_id,
)
from servers.batches.priority import give_lowest_priority
from servers.batches.settings import BatchSettings
from servers.batches.store import BatchStore, StoreCounts
from servers.batches.store_lock import StoreLock
from servers.batches.upload import Upload

T = TypeVar("T")
P = ParamSpec("P")

_log: Final = logging.getLogger(__name__)

#: Seconds between two looks at what the worker has committed.
_LOOK_SECONDS: Final = 1.0
#: Seconds between two searches for files whose time is over.
_EXPIRY_SECONDS: Final = 60.0
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

    @property
    def store(self) -> BatchStore:
        """The store; `open` has opened it. Its methods block."""
        assert self._store is not None
        return self._store

    async def open(self) -> None:
        """Open the store, and begin with what is unfinished.

        Raises:
            StoreError: the directory cannot be used.
        """
        await asyncio.to_thread(self._open)
        self.counts = await asyncio.to_thread(self.store.counts)

    def _open(self) -> None:
        self._store = BatchStore(self.settings.directory)
        try:
            self._own()
        except StoreError:
            if not self.settings.is_shared:
                self._store.close()
                raise

    def _own(self) -> None:
        """Become the server that starts the worker.

        Raises:
            StoreError: another server is.
        """
        self._lock = StoreLock(self.settings.directory / "server.lock")
        before = unix_seconds() - _UPLOAD_SECONDS if self.settings.is_shared else math.inf
        # The worker of a server that was killed may need a moment to end.
        with StoreLock(self.settings.directory / "worker.lock", waits=True):
            self.store.tidy(before)

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
        if self._lock is not None:
            self._lock.release()

    # Files and batches ----------------------------------------------------------------------------

    async def begin_upload(self) -> Upload:
        return await asyncio.to_thread(Upload, self.store)

    async def end_upload(
        self, upload: Upload, owner: str, filename: str, purpose: str, seconds: int | None
    ) -> StoredFile:
        """Keep an uploaded file for a client.

        ``seconds``: the time to keep it; None: the time that its purpose implies.
        """
        now = unix_seconds()
        if seconds is None and purpose == INPUT_PURPOSE:
            seconds = INPUT_SECONDS
        return await asyncio.to_thread(
            upload.finish,
            owner=owner,
            filename=filename,
            purpose=purpose,
            now=now,
            expires_at=None if seconds is None else now + seconds,
        )

    async def create(
        self,
        *,
        owner: str,
        endpoint: str,
        input_file_id: str,
        metadata: dict[str, str] | None,
        output_seconds: int | None,
    ) -> Batch:
        """Make a batch and let the worker begin.

        Raises:
            NotStoredError: the client has no such file.
        """
        now = unix_seconds()
        batch = Batch(
            id=new_id("batch_"),
            owner=owner,
            endpoint=endpoint,
            input_file_id=input_file_id,
            metadata=metadata,
            output_seconds=output_seconds,
            created_at=now,
            expires_at=now + WINDOW_SECONDS,
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
        while True:
            await self._has_work.wait()
            began = asyncio.get_running_loop().time()
            code = await self._run_worker()
            self._back_off.note_life(asyncio.get_running_loop().time() - began)
            if code:
                delay = self._back_off.next_pause()
                _log.error(
                    "the worker of batches ended with code %d; it starts again in %g s",
                    code, delay,
                )  # fmt: skip
                await asyncio.sleep(delay)
            self._has_work.clear()  # `_look` finds what came at the last moment

    async def _run_worker(self) -> int:
        """Start the worker and wait for its end; return its exit code."""
        command = self.settings.worker_command
        # In the server's own session: with autogroups, Linux weighs niceness only inside one.
        process = await asyncio.create_subprocess_exec(*command, stdin=asyncio.subprocess.PIPE)
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
        version = -1
        loop = asyncio.get_running_loop()
        expires_at = loop.time()
        while True:
            try:
                if loop.time() >= expires_at:
                    expires_at = loop.time() + _EXPIRY_SECONDS
                    await self.ask(self.store.remove_expired, unix_seconds())
                    version = -1
                if self._lock is None:
                    with suppress(StoreError):
                        await self.ask(self._own)
                found = await self.ask(lambda: self.store.version)
                if found != version or not self.has_worker:
                    self.counts = await self.ask(self.store.counts)
                    version = found
                if not self.has_worker and self._lock is not None:
                    has_work = await self.ask(self.store.has_unfinished)
                    if has_work:
                        self._has_work.set()
            except StoreError as error:
                _log.warning("%s: %s", error, error.__cause__)
                await asyncio.sleep(_EXPIRY_SECONDS)
            await asyncio.sleep(_LOOK_SECONDS)


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
    return (sys.executable, "-m", "servers.cli.batch_worker", *words)
