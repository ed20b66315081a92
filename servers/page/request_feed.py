"""`RequestFeed`: requests that run, the last ones that have ended, and those that are followed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from time import perf_counter_ns
from typing import Final, NamedTuple

from calculators.kit.requests.request_record import GenerationRecord, RequestRecord
from servers.operations.request_log import RequestEnd
from servers.page.events import RequestNow
from servers.page.followed import FollowedRequests

#: Ended requests that a new reader gets.
KEPT: Final = 200
_LONGEST_TEXT: Final = 256


#: The last event of a running request that was sent to readers.
_NOTHING, _BEGIN, _FIRST_TOKEN = range(3)


class _Ended(NamedTuple):
    """A request that has ended; its event is made on demand."""

    record: RequestRecord
    end: RequestEnd
    time: int
    is_followed: bool

    def event(self) -> RequestNow:
        """Return the event of its end."""
        record, end, time, is_followed = self
        name = f"{end.method} {end.path}" if end.path else end.method
        error = "" if end.status in (200, "OK") and not record.error else record.reason
        return _event(record, "end", time, ascii(name)[1:-1], end.status, is_followed, error)


class RequestFeed:
    """Numbers every event about a request, so that each reader takes those it has not seen.

    Requests without a model, such as health checks, are left out. Without readers a request
    costs some hundred nanoseconds: its event is made on demand. Belongs to one event loop.

    Attributes:
        count: how many events there have been.
        followed: the requests whose calls are recorded.
    """

    def __init__(self, followed: FollowedRequests) -> None:
        self.count = 0
        self.followed = followed
        self._events: deque[RequestNow | _Ended] = deque(maxlen=KEPT)
        self._running: dict[RequestRecord, int] = {}

    def begin(self, record: RequestRecord) -> None:
        """Begin a request; called by the journal."""
        self._running[record] = _NOTHING

    def end(self, record: RequestRecord, end: RequestEnd, ended: int) -> None:
        """End a request; called by the journal."""
        self._running.pop(record, None)
        if not record.model:
            return
        event = _Ended(record, end, ended, self.followed.end(record, end.status, ended))
        self.count += 1
        # A record with texts must not outlive its request.
        self._events.append(event.event() if record.keeps_texts else event)

    def look(self) -> None:
        """Add events of requests that have begun, or got their first token, since the last look."""
        now = perf_counter_ns()
        for record, reported in self._running.items():
            if reported == _FIRST_TOKEN or not record.model:
                continue
            if reported == _NOTHING:
                self._running[record] = reported = _BEGIN
                self._add(self._now(record, reported, now))
            if any(each.first_token for each in record.generations):
                self._running[record] = _FIRST_TOKEN
                self._add(self._now(record, _FIRST_TOKEN, now))

    def running(self) -> Iterator[RequestNow]:
        """Yield the state of each running request that readers know."""
        now = perf_counter_ns()
        for record, reported in self._running.items():
            if reported != _NOTHING:
                yield self._now(record, reported, now)

    def ends(self) -> list[RequestNow]:
        """Return the events of the last ends, of the last `KEPT` events, the newest last."""
        return [event for event in self._last(KEPT) if event.at == "end"]

    def since(self, number: int, most: int) -> tuple[list[RequestNow], int]:
        """Return the events after the first ``number``, and how many were left out.

        These are the newest ``most``, and all of followed requests, for which a reader waits.
        """
        missed = self.count - number
        events = self._last(missed)
        first = max(0, len(events) - most)
        taken = [event for event in events[:first] if event.followed] + events[first:]
        return taken, missed - len(taken)

    def _last(self, count: int) -> list[RequestNow]:
        found: list[RequestNow] = []
        for place in range(max(0, len(self._events) - count), len(self._events)):
            event = self._events[place]
            if isinstance(event, _Ended):
                event = self._events[place] = event.event()
            found.append(event)
        return found

    def tokens(self) -> Iterator[tuple[str, str, int]]:
        """Yield model, node and tokens of each generation of the requests that run."""
        for record in self._running:
            for each in record.generations:
                yield record.model, each.node, each.tokens_so_far

    def _now(self, record: RequestRecord, reported: int, now: int) -> RequestNow:
        operation = record.generations[0].operation if record.generations else ""
        at = "first_token" if reported == _FIRST_TOKEN else "begin"
        return _event(record, at, now, operation, 0, self.followed.has(record.request_id), "")

    def _add(self, event: RequestNow) -> None:
        self.count += 1
        self._events.append(event)


def _event(
    record: RequestRecord,
    at: str,
    now: int,
    operation: str,
    status: int | str,
    is_followed: bool,
    error: str,
) -> RequestNow:
    first = next((each for each in record.generations if each.first_token), None)
    return RequestNow(
        id=record.request_id,
        g=record.model[:_LONGEST_TEXT],
        op=operation[:_LONGEST_TEXT],
        at=at,  # type: ignore[arg-type]  # one of the three words
        began_us=record.began // 1000,
        ms=round((now - record.began) / 1e6, 1),
        status=status,
        wait_ms=None if first is None else round((first.first_token - first.submitted) / 1e6, 1),
        ttft_ms=None if first is None else round((first.first_token - first.began) / 1e6, 1),
        tpot_ms=None if first is None else _per_token(first, now),
        in_=record.prompt_tokens,
        out=max(record.completion_tokens, sum(each.tokens_so_far for each in record.generations)),
        followed=is_followed,
        error=error,
        skipped=0,
    )


def _per_token(generation: GenerationRecord, now: int) -> float | None:
    """Return the mean time between tokens after the first in milliseconds; None for less than two.

    Choices are generated in parallel.
    """
    later = generation.tokens_so_far / max(1, len(generation.finish_reasons)) - 1
    if later <= 0:
        return None
    return round(((generation.ended or now) - generation.first_token) / 1e6 / later, 2)
