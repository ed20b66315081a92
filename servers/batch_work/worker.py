"""`BatchWorker`: processes the unfinished batches of a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from servers.batch_work.answer_writer import AnswerWriter
from servers.batch_work.batch_run import Ask, BatchRun, Workplace
from servers.batches.clock import unix_seconds
from servers.batches.objects import Batch, Status
from servers.batches.settings import BatchSettings
from servers.batches.store import BatchStore

#: Batches that take turns; later ones wait.
MOST_RUNS: Final = 16
#: Seconds between two looks for new and cancelled batches, and for those whose time is over.
_LOOK_SECONDS: Final = 0.25
#: Answers that may wait for their commit, besides one for each request in flight.
_UNCOMMITTED: Final = 256


class BatchWorker:
    """Processes the unfinished batches of a store, several in turns."""

    def __init__(self, store: BatchStore, settings: BatchSettings, ask: Ask) -> None:
        self._store = store
        self._place = Workplace(
            store,
            AnswerWriter(store),
            ask,
            asyncio.Semaphore(settings.width),
            asyncio.Semaphore(settings.width + _UNCOMMITTED),
            settings.max_requests,
            settings.max_line_bytes,
        )
        self._runs: dict[int, tuple[BatchRun, asyncio.Task[None]]] = {}

    async def run(
        self, idle_seconds: float, show: Callable[[list[Batch]], None] | None = None
    ) -> None:
        """Work until there has been nothing to do for ``idle_seconds``.

        ``show`` is called now and then with the unfinished batches.

        Raises:
            StoreError: the store cannot be used.
        """
        writing = asyncio.create_task(self._place.writer.run(), name="commit answers")
        loop = asyncio.get_running_loop()
        idle_since = loop.time()
        try:
            while True:
                batches = await asyncio.to_thread(self._store.unfinished)
                if show is not None:
                    show(batches)
                self._begin(batches)
                self._stop(batches)
                if self._runs:
                    idle_since = loop.time()
                elif loop.time() - idle_since >= idle_seconds:
                    return
                tasks = [writing, *(task for _, task in self._runs.values())]
                await asyncio.wait(
                    tasks, timeout=_LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
                )
                self._end_finished(writing)
        finally:
            for _, task in self._runs.values():
                task.cancel()
            tasks = [task for _, task in self._runs.values()]
            await asyncio.gather(*tasks, return_exceptions=True)
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    def _begin(self, batches: list[Batch]) -> None:
        for batch in batches:
            if batch.number not in self._runs and len(self._runs) < MOST_RUNS:
                run = BatchRun(self._place, batch)
                task = asyncio.create_task(run.run(), name=f"batch {batch.number}")
                self._runs[batch.number] = (run, task)

    def _stop(self, batches: list[Batch]) -> None:
        now = unix_seconds()
        for batch in batches:
            is_over = batch.expires_at is not None and batch.expires_at <= now
            if batch.number in self._runs and (is_over or batch.status is Status.CANCELLING):
                self._runs[batch.number][0].stop()

    def _end_finished(self, writing: asyncio.Task[None]) -> None:
        if writing.done():
            writing.result()
        for number, (_, task) in list(self._runs.items()):
            if task.done():
                del self._runs[number]
                task.result()
