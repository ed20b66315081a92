"""`LastHour`: figures of the requests that ended in the last hour, for pages that open later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from time import perf_counter_ns
from typing import Final

from calculators.kit.requests.request_record import RequestRecord
from servers.operations.request_log import RequestEnd
from servers.page.events import EngineNow, Hour, Moment

#: The length of a moment in seconds.
EVERY: Final = 10
_EVERY_NS: Final = EVERY * 1_000_000_000
_KEPT: Final = 3600 // EVERY
#: Times of a moment that a median is made of.
_MOST_TIMES: Final = 64
_FIRST_ERROR: Final = 400


class _Counts:
    """Counts of one moment."""

    __slots__ = ("cache", "errors", "number", "requests", "running", "tokens", "tpot", "ttft",
                 "waiting")  # fmt: skip

    def __init__(self, number: int, engines: Iterable[EngineNow]) -> None:
        found = list(engines)
        self.number = number
        self.requests = self.errors = self.tokens = 0
        self.ttft: list[int] = []
        self.tpot: list[float] = []
        self.running = sum(each.running for each in found)
        self.waiting = sum(each.waiting for each in found)
        self.cache = max((each.cache for each in found), default=None)


class LastHour:
    """Counts requests at their ends. No task runs, so times without requests have no moments.

    Queues and caches of a moment are as they were when its first request ended.
    """

    def __init__(self, engines: Callable[[], Iterable[EngineNow]]) -> None:
        """``engines``: returns the engines of language models."""
        self._engines = engines
        self._counts: deque[_Counts] = deque(maxlen=_KEPT)

    def end(self, record: RequestRecord, end: RequestEnd, ended: int) -> None:
        """Count a request of a model. ``ended`` is of ``time.perf_counter_ns``."""
        number = ended // _EVERY_NS
        if not self._counts or self._counts[-1].number < number:
            self._counts.append(_Counts(number, self._engines()))
        counts = self._counts[-1]
        counts.requests += 1
        status = end.status
        if status >= _FIRST_ERROR if isinstance(status, int) else status != "OK":
            counts.errors += 1
        for each in record.generations:
            counts.tokens += each.completion_tokens
            if each.first_token and len(counts.ttft) < _MOST_TIMES:
                counts.ttft.append(each.first_token - each.began)
                later = each.completion_tokens / max(1, len(each.finish_reasons)) - 1
                if later > 0:
                    counts.tpot.append((each.ended - each.first_token) / later)

    def event(self) -> Hour:
        """Return the moments of the last hour that are over, the oldest first."""
        present = perf_counter_ns() // _EVERY_NS
        return Hour(
            EVERY,
            [
                Moment(
                    end_us=(each.number + 1) * EVERY * 1_000_000,
                    tokens=each.tokens,
                    ttft_ms=_milliseconds(each.ttft),
                    tpot_ms=_milliseconds(each.tpot),
                    running=each.running,
                    waiting=each.waiting,
                    cache=each.cache,
                    requests=each.requests,
                    errors=each.errors,
                )
                for each in self._counts
                if present - _KEPT <= each.number < present
            ],
        )


def _milliseconds(times: Sequence[float]) -> float | None:
    return round(median(times) / 1e6, 2) if times else None
