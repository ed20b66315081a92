"""`AnswerWriter`: commits answers, all that have come since the last commit together."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, ParamSpec, TypeVar

from servers.batches.errors import StorageFullError, StoreError
from servers.batches.objects import Answer, Watermark
from servers.batches.store import BatchStore

T = TypeVar("T")
P = ParamSpec("P")

_log: Final = logging.getLogger(__name__)

#: Answers of one commit, at most.
_MOST_AT_A_TIME: Final = 256
#: Seconds until a full disk is tried again.
_FULL_SECONDS: Final = 1.0


class Progress:
    """The lines of one batch that are being answered, and the first that has no answer."""

    def __init__(self, batch: int, line: int, offset: int) -> None:
        self._batch = batch
        self._line = line
        self._offset = offset
        self._begun: deque[tuple[int, int]] = deque()
        self._ended: set[int] = set()

    def begin(self, line: int, end: int) -> None:
        """Note a line that is read; ``end``: where the next one begins. In the file's order."""
        self._begun.append((line, end))

    def end(self, line: int) -> None:
        """Note the answer of a line."""
        self._ended.add(line)
        while self._begun and self._begun[0][0] in self._ended:
            number, self._offset = self._begun.popleft()
            self._ended.discard(number)
            self._line = number + 1

    @property
    def mark(self) -> Watermark:
        return Watermark(self._batch, self._line, self._offset)


class AnswerWriter:
    """Commits the answers of all batches; `run` is the one task that writes."""

    def __init__(self, store: BatchStore) -> None:
        self._store = store
        self._waiting: deque[tuple[Answer, Progress, asyncio.Future[None]]] = deque()
        self._has_some = asyncio.Event()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    async def add(self, answer: Answer, progress: Progress) -> None:
        """Return when the answer is on the disk.

        Raises:
            StoreError: it cannot be kept, for another reason than a full disk.
        """
        committed = asyncio.get_running_loop().create_future()
        self._waiting.append((answer, progress, committed))
        self._is_empty.clear()
        self._has_some.set()
        await committed

    async def flush(self) -> None:
        """Return when every answer that was added is on the disk."""
        await self._is_empty.wait()

    async def run(self) -> None:
        """Commit answers until cancelled."""
        while True:
            await self._has_some.wait()
            some = [
                self._waiting.popleft() for _ in range(min(len(self._waiting), _MOST_AT_A_TIME))
            ]
            for answer, progress, _ in some:
                progress.end(answer.line)
            marks = {id(progress): progress.mark for _, progress, _ in some}
            answers = [answer for answer, _, _ in some]
            failures: dict[int, StoreError] = {}
            try:
                await when_there_is_room(self._store.add_answers, answers, list(marks.values()))
            except StoreError:
                failures = await self._commit_by_batch(answers, marks.values())
            for answer, _, committed in some:
                failure = failures.get(answer.batch)
                if committed.done():
                    continue
                if failure is None:
                    committed.set_result(None)
                else:
                    committed.set_exception(failure)
            if not self._waiting:
                self._has_some.clear()
                self._is_empty.set()

    async def _commit_by_batch(
        self, answers: list[Answer], marks: Iterable[Watermark]
    ) -> dict[int, StoreError]:
        """Commit the answers of each batch by themselves, and return the errors by batch."""
        failures: dict[int, StoreError] = {}
        for mark in marks:
            own = [answer for answer in answers if answer.batch == mark.batch]
            try:
                await when_there_is_room(self._store.add_answers, own, [mark])
            except StoreError as error:
                failures[mark.batch] = error
        return failures


async def when_there_is_room(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call ``work`` in a thread, again and again while the disk is full.

    Raises:
        StoreError: the store cannot be used for another reason.
    """
    is_reported = False
    while True:
        try:
            result = await asyncio.to_thread(work, *args, **kwargs)
        except StorageFullError as error:
            if not is_reported:
                is_reported = True
                _log.error("batches pause: %s", error)
            await asyncio.sleep(_FULL_SECONDS)
        else:
            if is_reported:
                _log.info("batches go on: there is room on the disk again")
            return result
