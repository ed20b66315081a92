"""`RequestFeed`: requests that run, the last ones that have ended, and those that are followed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from time import perf_counter_ns
from typing import Final

from calculators.requests.request_record import GenerationRecord, RequestRecord
from servers.operations.request_log import RequestEnd
from servers.page.events import RequestNow
from servers.page.followed import FollowedRequests

#: Ended requests that a new reader is told of.
KEPT: Final = 200
_LONGEST_TEXT: Final = 256


class _Running:
    """What readers know of a request that runs."""

    __slots__ = ("has_begun", "has_token")

    def __init__(self) -> None:
        self.has_begun = False
        self.has_token = False


class RequestFeed:
    """Numbers every event about a request, so that each reader takes those it has not seen.

    Requests without a model, such as health checks, are left out. Belongs to one event loop.

    Attributes:
        events: the last `KEPT` events, the newest last.
        count: how many there have been.
        followed: the requests whose calls are recorded.
    """

    def __init__(self, followed: FollowedRequests) -> None:
        self.events: deque[RequestNow] = deque(maxlen=KEPT)
        self.count = 0
        self.followed = followed
        self._running: dict[RequestRecord, _Running] = {}

    def begin(self, record: RequestRecord) -> None:
        """Begin a request; called by the journal."""
        self._running[record] = _Running()

    def end(self, record: RequestRecord, end: RequestEnd, ended: int) -> None:
        """End a request; called by the journal."""
        self._running.pop(record, None)
        if not record.model:
            return
        is_followed = self.followed.end(record, end.status, ended)
        name = f"{end.method} {end.path}" if end.path else end.method
        error = "" if end.status in (200, "OK") and not record.error else record.reason
        self._add(_event(record, "end", ended, ascii(name)[1:-1], end.status, is_followed, error))

    def look(self) -> None:
        """Add events of requests that have begun, or got their first token, since the last look."""
        for record, known in self._running.items():
            if not record.model or known.has_token:
                continue
            now = perf_counter_ns()
            if not known.has_begun:
                known.has_begun = True
                self._add(self._now(record, "begin", now))
            if any(each.first_token for each in record.generations):
                known.has_token = True
                self._add(self._now(record, "first_token", now))

    def running(self) -> Iterator[RequestNow]:
        """Yield the state of each request that runs and was told of."""
        now = perf_counter_ns()
        for record, known in self._running.items():
            if known.has_begun:
                yield self._now(record, "first_token" if known.has_token else "begin", now)

    def tokens(self) -> Iterator[tuple[str, str, int]]:
        """Yield model, node and tokens of each generation of the requests that run."""
        for record in self._running:
            for each in record.generations:
                yield record.model, each.node, each.tokens_so_far

    def since(self, number: int, most: int) -> tuple[list[RequestNow], int]:
        """Return the events after the first ``number``, the newest ``most``, and how many were
        left out."""
        missed = self.count - number
        taken = min(missed, most, len(self.events))
        return (list(self.events)[-taken:] if taken else []), missed - taken

    def _now(self, record: RequestRecord, at: str, now: int) -> RequestNow:
        operation = record.generations[0].operation if record.generations else ""
        return _event(record, at, now, operation, 0, self.followed.has(record.request_id), "")

    def _add(self, event: RequestNow) -> None:
        self.count += 1
        self.events.append(event)


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
