"""`RequestFeed`: requests that run, the last ones that have ended, and those that are followed."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Final, NamedTuple

from calculators.kit.requests.request_record import GenerationRecord, RequestRecord
from graph_runtime import Tracer
from graph_runtime import timestamp as ts
from graph_runtime.observe.tracing import TracedCall, TraceObject
from servers.operations.request_log import RequestEnd
from servers.page.events import Following, Generation, NodeCalls, RequestNow, Timeline

#: Requests that are kept, and for how long, in seconds.
KEPT_TIMELINES: Final = 16
KEPT_SECONDS: Final = 600.0
#: Calls of one request that are kept, the newest.
MOST_CALLS: Final = 20_000
#: Requests of one graph, and named ones of all graphs, that may be awaited at a time.
MOST_AWAITED: Final = 16


@dataclass(slots=True)
class _FollowedRequest:
    graph: str
    record: RequestRecord
    tracer: Tracer
    kept_until: float
    ended: int = 0
    status: int | str = 0


class FollowedRequests:
    """Requests that are awaited, run or have ended. Nothing is recorded unless one is awaited.

    Belongs to one event loop.
    """

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._named: OrderedDict[str, str] = OrderedDict()
        self._kept: OrderedDict[str, _FollowedRequest] = OrderedDict()

    def follow_next(self, graph: str, number: int) -> Following:
        """Follow the next requests of a graph: ``number`` of them, instead of an earlier number."""
        self._next[graph] = number
        return self._following(graph)

    def follow_named(self, graph: str, request_id: str) -> Following:
        """Follow the request with an id. Of too many awaited ones the first is forgotten."""
        self._named[request_id] = graph
        if len(self._named) > MOST_AWAITED:
            self._named.popitem(last=False)
        return self._following(graph)

    def _following(self, graph: str) -> Following:
        named = [request for request, name in self._named.items() if name == graph]
        return Following(graph, self._next.get(graph, 0), named)

    def begin_run(self, graph: str, record: RequestRecord) -> Tracer | None:
        """Return the recorder for a run of a request; None if the request is not followed.

        Of several runs of one request only the first is recorded.
        """
        if not self._next and not self._named:
            return None
        request_id = record.request_id
        if request_id in self._kept and self._kept[request_id].record is record:
            return None
        if self._named.get(request_id) == graph:
            del self._named[request_id]
        elif self._next.get(graph):
            self._next[graph] -= 1
            if not self._next[graph]:
                del self._next[graph]
        else:
            return None
        tracer = Tracer(MOST_CALLS)
        self._forget_old()
        self._kept[request_id] = _FollowedRequest(
            graph, record, tracer, time.monotonic() + KEPT_SECONDS
        )
        if len(self._kept) > KEPT_TIMELINES:
            self._kept.popitem(last=False)
        return tracer

    def end(self, record: RequestRecord, status: int | str, ended: int) -> bool:
        """End a request; return whether it was followed."""
        found = self._kept.get(record.request_id) if self._kept else None
        if found is None or found.record is not record:
            return False
        found.status, found.ended = status, ended
        return True

    def has(self, request_id: str) -> bool:
        """Return whether there is a timeline of this request."""
        return request_id in self._kept

    def forget_graph(self, graph: str) -> None:
        """Await no request of a graph that is closed."""
        self._next.pop(graph, None)
        for request_id in [each for each, name in self._named.items() if name == graph]:
            del self._named[request_id]

    def timeline(self, request_id: str) -> Timeline | None:
        """Return the timeline of a request; None if it is not kept. For a thread."""
        found = self._find(request_id)
        return None if found is None else _timeline(request_id, found)

    def perfetto(self, request_id: str) -> TraceObject | None:
        """Return the trace of a request in the Trace Event Format; None if it is not kept."""
        found = self._find(request_id)
        return None if found is None else found.tracer.to_json()

    def _find(self, request_id: str) -> _FollowedRequest | None:
        found = self._kept.get(request_id)
        return None if found is None or found.kept_until < time.monotonic() else found

    def _forget_old(self) -> None:
        now = time.monotonic()
        while self._kept and next(iter(self._kept.values())).kept_until < now:
            self._kept.popitem(last=False)


def _timeline(request_id: str, followed: _FollowedRequest) -> Timeline:
    began = followed.record.began

    def at(time_ns: int) -> int:
        return (time_ns - began) // 1000 if time_ns else 0

    tracer = followed.tracer
    names = tracer.nodes
    by_node: dict[int, list[TracedCall]] = {}
    calls = sorted(tracer.calls, key=lambda call: call.started)
    for call in calls:
        by_node.setdefault(call.node, []).append(call)
    ended = followed.ended or perf_counter_ns()
    return Timeline(
        id=request_id,
        graph=followed.graph,
        began_us=began // 1000,
        ended_us=at(ended),
        status=followed.status,
        nodes=[
            NodeCalls(
                names[node],
                [
                    (at(each.started), at(each.ended), each.phase, _shown(each.time))
                    for each in of_node
                ],
            )
            for node, of_node in by_node.items()
        ],
        cut=tracer.dropped,
        packets=_packets(calls, tracer, at),
        generations=[_generation(each, at) for each in followed.record.generations],
    )


def _packets(
    calls: Sequence[TracedCall], tracer: Tracer, at: Any
) -> list[tuple[str, int | str, int, str, str]]:
    """Return an entry per receiver of each packet."""
    names, producers = tracer.nodes, tracer.producers
    sent = {packet: call.ended for call in calls for packet in call.sent}
    found = []
    for call in calls:
        for packet in call.received:
            stream, time_ = packet
            producer = producers.get(stream, "")
            # A call that flushed goes on, and is perhaps not recorded yet.
            when = min(sent.get(packet, call.started), call.started)
            if not producer:
                when = calls[0].started
            found.append((stream, _shown(time_), at(when), producer, names[call.node]))
    return found


def _generation(record: GenerationRecord, at: Any) -> Generation:
    return Generation(
        record.node,
        at(record.submitted),
        at(record.first_token),
        at(record.ended),
        record.prompt_tokens,
        record.completion_tokens,
    )


def _shown(time_: int) -> int | str:
    return ts.SPECIAL_NAMES.get(time_, time_)


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
        """Add events of requests that have begun, or got their first token, since the last poll."""
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
