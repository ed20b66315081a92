"""`Outgoing`: the answer of a replica to one request, on its way to the front."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final

from calculators.kit.requests.request_record import RequestRecord, set_current_record
from servers.contract.disconnection import Disconnection
from servers.contract.failure import failure_of
from servers.replicas.wire import Ending, Packet, SentFailure, Update, size_of

_log: Final = logging.getLogger(__name__)

#: Bytes that a replica may send before the front has passed them on; the front gives back what it
#: has passed on in halves of it.
WINDOW: Final = 256 * 1024
#: Seconds that a replica waits for the front to pass its packets on. A client that reads nothing is
#: disconnected after three times as long.
LOST_SECONDS: Final = 10.0


class RemoteClient(Disconnection):
    """The client at the front: a `calculators.kit.requests.http_payload.ClientConnection`.

    It is writable while fewer than `WINDOW` bytes are on their way to it.
    """

    __slots__ = ("_credit", "_writable")

    def __init__(self) -> None:
        super().__init__()
        self._credit = WINDOW
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def is_writable(self) -> bool:
        return self._credit > 0 or self.is_disconnected

    async def writable(self) -> None:
        """Return when `is_writable`, or after `LOST_SECONDS`.

        A replica that Ray is ending gets no calls any more, so the front's credit is lost; the
        streams that the replica still has go on slowly.
        """
        try:
            await asyncio.wait_for(self._writable.wait(), LOST_SECONDS)
        except TimeoutError:
            self.give(WINDOW)

    def spend(self, size: int) -> None:
        """Count bytes that are sent."""
        self._credit -= size
        if self._credit <= 0 and not self.is_disconnected:
            self._writable.clear()

    def give(self, size: int) -> None:
        """Count bytes that the front has passed on."""
        self._credit += size
        if self._credit > 0:
            self._writable.set()

    def disconnect(self) -> None:
        super().disconnect()
        self._writable.set()


class Outgoing:
    """Gathers the packets of one run, so that each update has all that is there.

    Attributes:
        client: the client as the run sees it.
        record: the record that calculators write into.
    """

    def __init__(self, record: RequestRecord) -> None:
        self.client = RemoteClient()
        self.record = record
        self._packets: list[Packet] = []
        self._has_news = asyncio.Event()
        self._warned: tuple[str, ...] = ()

    def put(self, packet: Packet) -> None:
        """Send a packet. Must be called on the event loop."""
        self._packets.append(packet)
        self.client.spend(size_of(packet))
        self._has_news.set()

    def note_open(self) -> None:
        """Send an update without a packet: the run has begun."""
        self._has_news.set()

    async def updates(
        self, run: Callable[[], Awaitable[None]], name: str
    ) -> AsyncGenerator[Update, None]:
        """Yield what ``run`` sends, and at last its end. Leaving the iterator cancels it.

        ``run`` is a task of that name, and has the record as the current one.
        """

        async def run_with_record() -> None:
            set_current_record(self.record)
            await run()

        task = asyncio.create_task(run_with_record(), name=name)
        task.add_done_callback(lambda _: self._has_news.set())
        try:
            while True:
                await self._has_news.wait()
                self._has_news.clear()
                if task.done():
                    yield self._update(self._ending(task))
                    return
                yield self._update(None)
        finally:
            if not task.done():
                self.client.disconnect()
                task.cancel()
            self.client.forget()

    def _update(self, ending: Ending | None) -> Update:
        packets, self._packets = self._packets, []
        warnings = self.record.warnings
        if warnings == self._warned:
            return Update(packets, (), ending)
        self._warned = warnings
        return Update(packets, warnings, ending)

    def _ending(self, task: asyncio.Task[None]) -> Ending:
        if task.cancelled():
            return Ending.of(self.record, None)
        error = task.exception()
        return Ending.of(self.record, None if error is None else logged(error, self.record))


def logged(error: BaseException, record: RequestRecord) -> SentFailure:
    """Return what the front gets of an error. Its cause, if it is a secret, goes to the log."""
    failure = failure_of(error)
    if failure.cause is not None:
        _log.error("request %s failed", record.request_id, exc_info=failure.cause)
    return SentFailure.of(error, failure)
