"""`KeptDesk`: the store of a server's front, in a thread, and what runs in the background."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final, NamedTuple, TypeVar

from msgspec import structs

from calculators.kit.requests.http_answer import HttpAnswer, ResponsePacket
from calculators.kit.requests.http_payload import RequestError
from servers.batches.objects import StoreError
from servers.contract.data_plane import Disconnection
from servers.contract.failure import failure_of
from servers.kept.items import begun_response, ended_response
from servers.kept.store import LOST_SECONDS, KeptBounds, KeptObject, KeptStatus, ResponseStore

_log: Final = logging.getLogger(__name__)

T = TypeVar("T")

#: Seconds between two writes of the events of a response in the background.
_WRITE_SECONDS: Final = 0.05
#: Seconds after which another process that writes events is asked again.
_POLL_SECONDS: Final = 0.2
#: Bytes of events that are not written yet, above which the graph waits.
_MOST_UNWRITTEN: Final = 256 * 1024
#: Seconds after which a response that gives no events is written to, so that it is not taken for
#: lost, and finds out that it was cancelled.
_BEAT_SECONDS: Final = 1.0
assert _BEAT_SECONDS < LOST_SECONDS / 2

#: Runs a graph for a client; packets of the answer go to the function.
RunGraph = Callable[["BackgroundRun", Callable[[ResponsePacket], None]], Awaitable[None]]


class _EndedAnswer(NamedTuple):
    """An answer that is to be kept. ``kept`` is done when it is, or cannot be."""

    new: KeptObject
    answer: bytes
    make: Callable[[bytes], bytes | None] | None
    kept: Future[None]

    def body(self) -> bytes | None:
        return self.answer if self.make is None else self.make(self.answer)


class KeptDesk:
    """The store of one front. Belongs to one event loop; the store is in a thread of its own.

    All calls of the store happen in the order in which they were made.

    Attributes:
        is_shared: other processes use the store too.
    """

    def __init__(self, bounds: KeptBounds, directory: Path | None, *, is_shared: bool) -> None:
        self._bounds = bounds
        self._directory = directory
        self.is_shared = is_shared
        self._thread = ThreadPoolExecutor(1, "graphrt-kept")
        self._store: ResponseStore | None = None
        self._runs: dict[str, BackgroundRun] = {}
        self._lock = Lock()
        self._answers: list[_EndedAnswer] = []

    def _opened(self) -> ResponseStore:
        if self._store is None:
            self._store = ResponseStore(self._bounds, self._directory)
        return self._store

    async def ask(self, work: Callable[[ResponseStore], T]) -> T:
        """Call ``work`` with the store, in its thread, and return what it returns."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: work(self._opened()))

    def keep(
        self,
        new: KeptObject,
        answer: bytes,
        make: Callable[[bytes], bytes | None] | None = None,
    ) -> Future[None]:
        """Keep an answer. What goes wrong is logged: the client has its answer.

        ``make``: returns the object of an answer that is given as events.
        """
        waiting = _EndedAnswer(new, answer, make, Future())
        with self._lock:
            self._answers.append(waiting)
            is_first = len(self._answers) == 1
        if is_first:
            self._thread.submit(self._keep_answers)
        return waiting.kept

    def _keep_answers(self) -> None:
        """Keep what has come meanwhile together: a commit for each costs twice as much."""
        with self._lock:
            answers, self._answers = self._answers, []
        try:
            self._add(answers)
        except Exception:
            # One that cannot be kept must not take the others with it.
            for each in answers:
                self._add_one(each)
        for each in answers:
            each.kept.set_result(None)

    def _add(self, answers: Sequence[_EndedAnswer]) -> None:
        bodies = ((each.new, each.body()) for each in answers)
        made = [structs.replace(new, body=body) for new, body in bodies if body is not None]
        self._opened().add_all(made)

    def _add_one(self, answer: _EndedAnswer) -> None:
        try:
            self._add([answer])
        except Exception as error:
            is_known = isinstance(error, StoreError)
            _log.error(
                "an answer could not be kept: %s", error, exc_info=None if is_known else error
            )

    # In the background ----------------------------------------------------------------------------

    async def begin(self, new: KeptObject, response_id: str, run: RunGraph) -> BackgroundRun:
        """Begin to answer a request that goes on without its client.

        ``new``: the response as it is before anything is generated.

        Raises:
            RequestError: it is larger than all that may be kept.
        """
        if not await self.ask(lambda store: store.add(new)):
            raise RequestError("the request is larger than all that may be kept", param="input")
        begun = BackgroundRun(self, response_id, run)
        self._runs[response_id] = begun
        begun.task.add_done_callback(lambda _: self._runs.pop(response_id, None))
        return begun

    def run_of(self, response_id: str) -> BackgroundRun | None:
        """Return the run of a response that this process makes now."""
        return self._runs.get(response_id)

    @property
    def running(self) -> int:
        """The number of responses that are made in the background here."""
        return len(self._runs)

    async def wait_for_more(self, run: BackgroundRun | None, writes: int) -> None:
        """Return when a response in the background may have new events.

        Args:
            run: of this process; None: another process makes the response.
            writes: the run's, before its events were read.
        """
        if run is None or run.task.done():
            await asyncio.sleep(_POLL_SECONDS)
        else:
            await run.wrote(writes)

    async def finish(self) -> None:
        """Wait for all responses that are made in the background."""
        while self._runs:
            await asyncio.wait([run.task for run in self._runs.values()])

    async def close(self) -> None:
        """End what is made in the background, and close the store."""
        for run in list(self._runs.values()):
            run.stop()
        await self.finish()
        if self._store is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._store.close)
        self._thread.shutdown(wait=False)


class BackgroundRun(Disconnection):
    """One response that is made in the background: the client of its graph, and its writer.

    Attributes:
        error: why the graph could not answer; None: it did, or it was cancelled.
        writes: the number of writes into the store so far.
    """

    def __init__(self, desk: KeptDesk, response_id: str, run: RunGraph) -> None:
        self._desk = desk
        self._id = response_id
        self._unwritten: list[bytes] = []
        self._size = 0
        self._has_more = asyncio.Event()
        self._has_room = asyncio.Event()
        self._written = asyncio.Event()
        self._has_events = False
        self._has_ended = False
        self.error: Exception | None = None
        self.writes = 0
        self.task = asyncio.create_task(self._live(run), name="answer in the background")

    @property
    def is_writable(self) -> bool:
        return self._size < _MOST_UNWRITTEN or self.is_disconnected

    async def writable(self) -> None:
        """See `ClientConnection.writable`."""
        await asyncio.sleep(0)
        while not self.is_writable:
            self._has_room.clear()
            await self._has_room.wait()

    @property
    def has_events(self) -> bool:
        """True once the graph has given anything."""
        return self._has_events

    async def has_begun(self, seconds: float) -> None:
        """Return when the first events are in the store or the run has ended, or after a time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self._has_events and not self.task.done():
                    await self._written.wait()
                if self._has_events and not self.writes:
                    await self._written.wait()

    async def wrote(self, writes: int) -> None:
        """Return when there are more writes than these, or the run has ended."""
        while self.writes == writes and not self.task.done():
            await self._written.wait()

    def stop(self) -> None:
        """End the run: the response was cancelled or deleted, or the server stops."""
        self.task.cancel()

    def _take(self, packet: ResponsePacket) -> None:
        if isinstance(packet, HttpAnswer):
            packet = packet.body
        data = packet.encode("utf-8", "replace") if isinstance(packet, str) else packet
        self._has_events = True
        self._unwritten.append(data)
        self._size += len(data)
        self._has_more.set()

    async def _live(self, run: RunGraph) -> None:
        graph = asyncio.ensure_future(run(self, self._take))
        graph.add_done_callback(lambda _: self._has_more.set())
        try:
            while not self._has_ended:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_BEAT_SECONDS):
                        await self._has_more.wait()
                is_over = graph.done()
                if not is_over:
                    await asyncio.sleep(_WRITE_SECONDS)
                if not await self._write():
                    break  # cancelled, deleted, or pushed out by others
                if is_over:
                    await self._note_end(graph)
                    break
        finally:
            if not graph.done() and self._has_ended:
                await asyncio.wait([graph], timeout=_BEAT_SECONDS)  # its last event is written
            self.disconnect()
            if not graph.done():
                graph.cancel()
            await asyncio.gather(graph, return_exceptions=True)
            if not self._has_ended:
                await self._fail("the server stopped before it was complete")
            self._note_write()

    async def _write(self) -> bool:
        """Put new events into the store; return False if nobody wants them."""
        self._has_more.clear()
        data, self._unwritten = b"".join(self._unwritten), []
        self._size = 0
        self._has_room.set()
        body = ended_response(data)
        self._has_ended = body is not None
        if body is None:
            body = begun_response(data)
        text = data.decode("utf-8", "replace")
        is_wanted = await self._desk.ask(lambda store: store.go_on(self._id, text, body))
        self._note_write()
        return is_wanted

    def _note_write(self) -> None:
        self.writes += 1
        self._written.set()
        self._written = asyncio.Event()

    async def _note_end(self, graph: asyncio.Future[None]) -> None:
        if self._has_ended or graph.cancelled():
            return
        raised = graph.exception()
        text = "the model gave no answer"
        if isinstance(raised, Exception):
            self.error = raised
            failure = failure_of(raised)
            text = failure.text
            if failure.cause is not None:
                text = failure.internal_text(self._id)
                _log.error("response %s failed", self._id, exc_info=failure.cause)
        await self._fail(text)

    async def _fail(self, text: str) -> None:
        error = {"code": "server_error", "message": text}
        await self._desk.ask(lambda store: store.end(self._id, KeptStatus.FAILED, error))
        self._has_ended = True
