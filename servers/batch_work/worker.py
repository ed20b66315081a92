"""`BatchWorker`: processes the unfinished batches of a store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from calculators.kit.child_process.back_off import BackOff
from servers.batch_work.answer_writer import AnswerWriter, when_there_is_room
from servers.batch_work.batch_run import Ask, BatchRun, Workplace
from servers.batch_work.work_in_hand import WorkInHand
from servers.batches.clock import unix_seconds
from servers.batches.errors import StoreError
from servers.batches.objects import Batch, Status
from servers.batches.settings import BatchSettings
from servers.batches.store import BatchStore

_log: Final = logging.getLogger(__name__)

#: Batches that take turns; later ones wait.
MOST_RUNS: Final = 16
#: Seconds between two looks for new and cancelled batches, and for those whose time is over.
_LOOK_SECONDS: Final = 0.25
#: Answers that may wait for their commit, besides one for each request in flight.
_UNCOMMITTED: Final = 256
#: Seconds until a batch is tried again for which the store could not be used: first, and at most.
_FIRST_PAUSE: Final = 1.0
_LAST_PAUSE: Final = 60.0
#: Seconds for which the list of batches may be unreadable.
_UNREADABLE_SECONDS: Final = 60.0


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
            WorkInHand(store),
            settings.max_requests,
            settings.max_line_bytes,
        )
        self._runs: dict[int, tuple[BatchRun, asyncio.Task[None]]] = {}
        #: Batches whose runs the store ended, with the time at which each is tried again.
        self._pauses: dict[int, tuple[BackOff, float]] = {}

    async def run(
        self, idle_seconds: float, show: Callable[[list[Batch]], None] | None = None
    ) -> None:
        """Work until there has been nothing to do for ``idle_seconds``.

        ``show`` is called now and then with the unfinished batches.

        What is wrong with one batch ends that batch; a batch for which the store cannot be used is
        tried again later.

        Raises:
            StoreError: the store cannot be used for any batch, and could not for a minute.
        """
        await when_there_is_room(self._place.hand.open)
        writing = asyncio.create_task(self._place.writer.run(), name="commit answers")
        loop = asyncio.get_running_loop()
        idle_since = read_at = loop.time()
        try:
            while True:
                try:
                    batches = await asyncio.to_thread(self._store.unfinished)
                    read_at = loop.time()
                except StoreError as error:
                    if loop.time() - read_at >= _UNREADABLE_SECONDS:
                        raise
                    _log.warning("%s: %s", error, error.__cause__)
                    await asyncio.sleep(_LAST_PAUSE / 12)
                    continue
                if show is not None:
                    show(batches)
                self._begin(batches)
                self._stop(batches)
                if self._runs or any(each.number in self._pauses for each in batches):
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

    def end_in_order(self) -> None:
        """Let no batch be suspected of the end of this process that follows. From any thread."""
        self._place.hand.end_in_order()

    def _begin(self, batches: list[Batch]) -> None:
        now = asyncio.get_running_loop().time()
        for batch in batches:
            _, until = self._pauses.get(batch.number, (None, now))
            if until <= now and batch.number not in self._runs and len(self._runs) < MOST_RUNS:
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
        if writing.done():  # never, but for a mistake in it: nothing would be kept any more
            writing.result()
        for number, (_, task) in list(self._runs.items()):
            if not task.done():
                continue
            del self._runs[number]
            if task.cancelled() or (error := task.exception()) is None:
                self._pauses.pop(number, None)
                continue
            back_off, _ = self._pauses.get(number, (BackOff(_FIRST_PAUSE, _LAST_PAUSE), 0.0))
            pause = back_off.next_pause()
            self._pauses[number] = back_off, asyncio.get_running_loop().time() + pause
            _log.error(
                "batch %d is tried again in %g s: %s", number, pause, error,
                exc_info=None if isinstance(error, StoreError) else error,
            )  # fmt: skip
