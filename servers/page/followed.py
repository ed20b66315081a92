"""`FollowedRequests`: requests whose calls are recorded, and their timelines."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Final

from calculators.kit.requests.request_record import GenerationRecord, RequestRecord
from graph_runtime import Tracer
from graph_runtime import timestamp as ts
from graph_runtime.observe.tracing import TracedCall
from servers.page.events import Following, Generation, NodeCalls, Timeline

#: Requests that are kept, and for how long, in seconds.
KEPT: Final = 16
KEPT_SECONDS: Final = 600.0
#: Calls of one request that are kept, the newest.
MOST_CALLS: Final = 20_000
#: Requests of one graph, and named ones of all graphs, that may be awaited at a time.
MOST_AWAITED: Final = 16


@dataclass(slots=True)
class _Followed:
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
        self._kept: OrderedDict[str, _Followed] = OrderedDict()

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
        self._kept[request_id] = _Followed(graph, record, tracer, time.monotonic() + KEPT_SECONDS)
        if len(self._kept) > KEPT:
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

    def perfetto(self, request_id: str) -> dict[str, Any] | None:
        """Return the trace of a request in the Trace Event Format; None if it is not kept."""
        found = self._find(request_id)
        return None if found is None else found.tracer.to_json()

    def _find(self, request_id: str) -> _Followed | None:
        found = self._kept.get(request_id)
        return None if found is None or found.kept_until < time.monotonic() else found

    def _forget_old(self) -> None:
        now = time.monotonic()
        while self._kept and next(iter(self._kept.values())).kept_until < now:
            self._kept.popitem(last=False)


def _timeline(request_id: str, followed: _Followed) -> Timeline:
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
        packets=_packets(calls, names, at(calls[0].started) if calls else 0, at),
        generations=[_generation(each, at) for each in followed.record.generations],
    )


def _packets(
    calls: Iterable[TracedCall], names: list[str], began: int, at: Any
) -> list[tuple[str, int | str, int, str, str]]:
    """Return an entry per receiver of each packet."""
    sent: dict[tuple[str, int], tuple[int, str]] = {}
    for call in calls:
        for packet in call.sent:
            sent[packet] = (at(call.ended), names[call.node])
    found = []
    for call in calls:
        for packet in call.received:
            stream, time_ = packet
            when, producer = sent.get(packet, (began, ""))
            found.append((stream, _shown(time_), when, producer, names[call.node]))
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
