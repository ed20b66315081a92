"""`BatchWorker`: processes the unfinished batches of a store."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import closing
from functools import partial
from typing import Final, ParamSpec, TypeVar

import msgspec
from msgspec import Struct

from calculators.kit.child_process.back_off import BackOff
from servers.batch_work.work_in_hand import WorkInHand
from servers.batches.batch_lines import (
    BatchRequest,
    Findings,
    InputLine,
    LineError,
    LineReader,
    answer_line,
    check_lines,
    end_batch,
    error_body,
    request_of,
)
from servers.batches.objects import (
    Batch,
    BatchAnswer,
    BatchError,
    BatchSettings,
    ContentError,
    Phase,
    Status,
    StorageFullError,
    StoreError,
    UploadPiece,
    Watermark,
    new_id,
    unix_seconds,
)
from servers.batches.store import BatchStore
from servers.batches.store_schema import damaged_record

T = TypeVar("T")
P = ParamSpec("P")


#: Answers of one commit, at most.
_MOST_AT_A_TIME: Final = 256
#: Seconds until a full disk is tried again.
_FULL_SECONDS: Final = 1.0


class BatchProgress:
    """The lines of one batch that are being answered, and the first that has no answer.

    Attributes:
        has_lost_answers: the store has refused some, so lines that have ended are unanswered.
    """

    def __init__(self, batch: int, line: int, offset: int) -> None:
        self.has_lost_answers = False
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
            # Only the first line without an answer and its offset are stored; the few answers after
            # it are found by their rows, so memory does not grow with the file (decision 0064).
            self._line = number + 1

    @property
    def mark(self) -> Watermark:
        return Watermark(self._batch, self._line, self._offset)


class BatchAnswerWriter:
    """Commits the answers of all batches; `run` is the one task that writes."""

    def __init__(self, store: BatchStore) -> None:
        self._store = store
        self._waiting: deque[tuple[BatchAnswer, BatchProgress, asyncio.Future[None]]] = deque()
        self._has_some = asyncio.Event()
        self._is_empty = asyncio.Event()
        self._is_empty.set()

    async def add(self, answer: BatchAnswer, progress: BatchProgress) -> None:
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
                # All answers that came during a commit are in the next one: SQLite commits 578
                # single answers a second, and 6,067 in groups of 50 (decision 0064).
                self._waiting.popleft()
                for _ in range(min(len(self._waiting), _MOST_AT_A_TIME))
            ]
            for answer, progress, _ in some:
                progress.end(answer.line)
            marks = {
                id(progress): progress.mark
                for _, progress, _ in some
                if not progress.has_lost_answers
            }
            answers = [answer for answer, _, _ in some]
            failures: dict[int, StoreError] = {}
            try:
                await when_there_is_room(self._store.add_answers, answers, list(marks.values()))
            except StoreError:
                failures = await self._commit_by_batch(answers, marks.values())
            for answer, progress, committed in some:
                failure = failures.get(answer.batch)
                if failure is not None:
                    # Answers that came meanwhile are kept, but the mark stays before the lost ones:
                    # the next run of the batch begins there.
                    progress.has_lost_answers = True
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
        self, answers: list[BatchAnswer], marks: Collection[Watermark]
    ) -> dict[int, StoreError]:
        """Commit the answers of each batch by themselves, and return the errors by batch."""
        failures: dict[int, StoreError] = {}
        for batch in {answer.batch for answer in answers}:
            own = [answer for answer in answers if answer.batch == batch]
            its_marks = [mark for mark in marks if mark.batch == batch]
            try:
                await when_there_is_room(self._store.add_answers, own, its_marks)
            except StoreError as error:
                failures[batch] = error
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
            # A full disk costs no answer: batches pause until there is room.
            await asyncio.sleep(_FULL_SECONDS)
        else:
            if is_reported:
                _log.info("batches go on: there is room on the disk again")
            return result


#: Lines that are read at a time: a thread is left for each read.
_MOST_LINES: Final = 64
_MOST_BYTES: Final = 1 << 20

#: A longer file begins when so much of it is checked; its counts follow the check in such steps.
_CHECKED_BYTES: Final = 16 << 20

#: Answers the request of a line of a batch: number of the batch, number of the line, request.
Ask = Callable[[int, int, BatchRequest], Awaitable[BatchAnswer]]


class Workplace(Struct, frozen=True):
    """Bounds that the runs of all batches share.

    Attributes:
        slots: requests in flight. Runs wait in a queue, so each batch has its turn.
        rooms: requests in flight, and answers that are not committed.
    """

    store: BatchStore
    writer: BatchAnswerWriter
    ask: Ask
    slots: asyncio.Semaphore
    rooms: asyncio.Semaphore
    hand: WorkInHand
    max_requests: int
    max_line_bytes: int


class BatchRun:
    """Processes one batch. `stop` ends its requests early."""

    def __init__(self, place: Workplace, batch: Batch) -> None:
        self._place = place
        self._store = place.store
        self._batch = batch
        self._work: asyncio.Task[None] | None = None
        self._is_stopped = False

    async def run(self) -> None:
        """Process the batch from its present state to its end.

        Whatever is wrong with it ends this batch, with the reason among its ``errors``.

        Raises:
            StoreError: the store cannot be used; the batch may be run again later.
        """
        try:
            await self._process()
        except asyncio.CancelledError:
            raise
        # Batches of all clients run in this process: what one of them raises must not end it
        # (decision 0084).
        except BaseException as raised:
            try:
                await self._end([self._reason(raised)])
            except StoreError:
                raise
            except Exception as error:
                await self._end([self._reason(error)], has_results=False)

    def _reason(self, raised: BaseException) -> BatchError:
        """Return the reason why the batch fails after an error.

        Raises:
            StoreError: the batch is not to blame.
        """
        error = _first_of(raised)
        if isinstance(error, ContentError):
            return BatchError(code="input_file_unreadable", message=str(error))
        if isinstance(error, StoreError):
            raise error from None
        _log.error("%s cannot be processed", self._batch.id, exc_info=error)
        text = "the batch could not be processed because of an internal error"
        return BatchError(code="internal_error", message=text)

    async def _process(self) -> None:
        batch = self._batch
        # The batch, not the line: the worker may have died of what its lines have in common, such
        # as a model that does not fit into memory (decision 0084).
        blamed = self._place.hand.blamed(batch.number)
        if blamed is not None:
            has_results = blamed.phase is not Phase.RESULTS
            await self._end([_ended_worker(blamed)], has_results=has_results)
            return
        if batch.expires_at is not None and batch.expires_at <= unix_seconds():
            await self._end()
            return
        if batch.damage:
            await self._end([damaged_record(batch.damage)])
            return
        is_new = batch.status is Status.VALIDATING
        tasks: set[asyncio.Task[None]] = set()
        try:
            if is_new or (batch.status is Status.IN_PROGRESS and not batch.is_checked):
                begun = asyncio.Event()
                if not is_new:
                    begun.set()
                # Answering begins before the check of a long file ends: inputs may have 10 GB
                # (decision 0064).
                tasks.add(asyncio.create_task(self._check(begun)))
                await begun.wait()
            batch = await self._refreshed()
            if batch.status is Status.IN_PROGRESS and not self._is_stopped:
                self._work = asyncio.create_task(self._answer_lines(batch))
                tasks.add(self._work)
            if tasks:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._is_stopped = True
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        for error in ended:
            if error is not None and not isinstance(error, asyncio.CancelledError):
                raise error
        await self._end()

    def stop(self) -> None:
        """End the requests in flight, and begin no others: the batch is cancelled or expires."""
        if self._work is not None and not self._is_stopped:
            self._work.cancel()
        self._is_stopped = True

    async def _refreshed(self) -> Batch:
        return await asyncio.to_thread(self._store.numbered, self._batch.number)

    # The check ------------------------------------------------------------------------------------

    async def _check(self, begun: asyncio.Event) -> None:
        """Check the input. ``begun``: set when the batch can begin, or has failed."""
        loop = asyncio.get_running_loop()
        try:
            async with self._place.hand.piece(self._batch.number, Phase.CHECK):
                findings = await when_there_is_room(self._checked, loop, begun)
            if self._is_stopped:
                return
            if findings.errors:
                await self._fail(findings)
                return
            what = "has" if begun.is_set() else "begins:"
            if await when_there_is_room(self._note, findings, is_checked=True):
                _log.info("%s %s %d requests", self._batch.id, what, findings.total)
        finally:
            begun.set()

    def _checked(self, loop: asyncio.AbstractEventLoop, begun: asyncio.Event) -> Findings:
        noted = 0

        def look(findings: Findings, offset: int) -> bool:
            nonlocal noted
            if offset - noted >= _CHECKED_BYTES and not (findings.errors or self._is_stopped):
                noted = offset
                if self._note(findings, is_checked=False) and not begun.is_set():
                    _log.info("%s begins, while the rest of it is checked", self._batch.id)
                    loop.call_soon_threadsafe(begun.set)
            return not self._is_stopped

        with closing(self._reader(1, 0)) as reader:
            return check_lines(reader, self._batch.endpoint, self._place.max_requests, look)

    def _note(self, findings: Findings, *, is_checked: bool) -> bool:
        number, total, model = self._batch.number, findings.total, findings.model
        return self._store.begin(number, total, model, unix_seconds(), is_checked=is_checked)

    async def _fail(self, findings: Findings) -> None:
        _log.info("%s failed: %s", self._batch.id, findings.errors[0].code)
        number, errors = self._batch.number, findings.errors
        await when_there_is_room(self._store.fail, number, errors, unix_seconds())
        self.stop()

    def _reader(self, line: int, offset: int) -> LineReader:
        return LineReader(
            self._store.path_of(self._batch.input_file_id),
            size=self._store.size_of(self._batch.input_file_id),
            most_bytes=self._place.max_line_bytes,
            number=line,
            offset=offset,
        )

    # The requests ---------------------------------------------------------------------------------

    async def _answer_lines(self, batch: Batch) -> None:
        """Answer every line that has no answer."""
        answered = await asyncio.to_thread(
            self._store.answered_lines, batch.number, batch.next_line
        )
        progress = BatchProgress(batch.number, batch.next_line, batch.next_offset)
        reader = await asyncio.to_thread(self._reader, batch.next_line, batch.next_offset)
        slots, rooms = self._place.slots, self._place.rooms
        with closing(reader):
            async with asyncio.TaskGroup() as tasks:
                while lines := await asyncio.to_thread(_some_lines, reader):
                    for line in lines:
                        progress.begin(line.number, line.end)
                        if line.number in answered:
                            answered.discard(line.number)
                            progress.end(line.number)
                            continue
                        # Answers that wait for a slow disk are bounded too, apart from requests in
                        # flight.
                        await rooms.acquire()
                        try:
                            await slots.acquire()
                        except BaseException:
                            rooms.release()
                            raise
                        tasks.create_task(self._answer(line, progress))

    async def _answer(self, line: InputLine, progress: BatchProgress) -> None:
        place = self._place
        try:
            try:
                async with place.hand.piece(self._batch.number, Phase.ANSWER, line.number):
                    answer = await self._answer_of(line)
            finally:
                place.slots.release()
            await place.writer.add(answer, progress)
        finally:
            place.rooms.release()

    async def _answer_of(self, line: InputLine) -> BatchAnswer:
        number = self._batch.number
        try:
            request = request_of(line, self._batch.endpoint)
        except LineError as error:
            request_id = new_id("")
            body = msgspec.json.encode(error_body(str(error), error.param, error.code))
            # A line that is wrong gets its error and the others run; at OpenAI it fails the whole
            # batch (decision 0064).
            text = answer_line(request_id, error.custom_id, status=400, body=body)
            return BatchAnswer(batch=number, line=line.number, is_error=True, text=text)
        try:
            return await self._place.ask(number, line.number, request)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            _log.exception("line %d of %s cannot be answered", line.number, self._batch.id)
            failed = ("internal_error", "The request could not be executed.")
            text = answer_line(new_id(""), request.custom_id, error=failed)
            return BatchAnswer(batch=number, line=line.number, is_error=True, text=text)

    # The end --------------------------------------------------------------------------------------

    async def _end(self, errors: Sequence[BatchError] = (), *, has_results: bool = True) -> None:
        """End the batch with the answers that it has.

        Args:
            errors: why it fails.
            has_results: its answers are written to files; otherwise they are dropped.
        """
        await self._place.writer.flush()
        batch = await self._refreshed()
        if not batch.is_finished:
            async with self._place.hand.piece(batch.number, Phase.RESULTS):
                end = partial(end_batch, errors=errors, has_results=has_results)
                most = self._place.max_line_bytes
                batch = await when_there_is_room(
                    end, self._store, batch.number, unix_seconds(), most_line_bytes=most
                )
            for error in batch.errors:
                _log.error("%s failed: %s", batch.id, error.message)
            _log.info(
                "%s is %s: %d requests, %d completed, %d failed, %d input tokens, %d output "
                "tokens",
                batch.id, batch.status, batch.total, batch.completed, batch.failed,
                batch.usage.input_tokens, batch.usage.output_tokens,
            )  # fmt: skip
        try:
            await when_there_is_room(self._store.drop_answers)
        except StoreError as error:  # later; the batch has ended
            _log.warning("answers of finished batches stay in the database: %s", error)


def _is_cancelled() -> bool:
    """Return whether somebody cancels the current task; otherwise its code raised the error."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _first_of(error: BaseException) -> BaseException:
    """Return the first of the errors that a group of tasks raised."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _ended_worker(piece: UploadPiece) -> BatchError:
    """Return the reason why a batch is not tried again that has ended the worker."""
    work = {
        Phase.CHECK: "checked the input file",
        Phase.ANSWER: f"answered line {piece.line}",
        Phase.RESULTS: "wrote the results",
    }
    text = f"the process that answers batches ended each time when it {work[piece.phase]}"
    return BatchError(code="worker_ended", message=text, line=piece.line or None)


def _some_lines(reader: LineReader) -> list[InputLine]:
    lines: list[InputLine] = []
    size = 0
    for line in reader:
        lines.append(line)
        size += len(line.text or b"")
        if len(lines) >= _MOST_LINES or size >= _MOST_BYTES:
            break
    return lines


_log: Final = logging.getLogger(__name__)

#: Batches that take turns; later ones wait.
MOST_RUNS: Final = 16
#: Seconds between two queries for new, cancelled and expired batches.
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
            BatchAnswerWriter(store),
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
