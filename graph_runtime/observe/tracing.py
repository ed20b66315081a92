"""Traces for Perfetto and chrome://tracing: a lane per node, arrows along packets.

Format: the Trace Event Format's JSON object form, with complete events (``X``) for calls and flow
events (``s``/``f``) from the call that sent a packet to the call that received it.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from graph_runtime import timestamp as ts
from graph_runtime.packet import EMPTY

if TYPE_CHECKING:
    from graph_runtime.authoring.context import CalculatorContext
    from graph_runtime.engine.run import Run

DEFAULT_CAPACITY = 100_000


class TracedCall(NamedTuple):
    """One call of a node.

    Attributes:
        node: the node's id.
        phase: "open", "process" or "close".
        time: the input timestamp.
        started, ended: nanoseconds of ``time.perf_counter_ns``.
        thread: the identity of the thread that reported it.
        received, sent: packets, by stream and timestamp; flushed ones too.
    """

    node: int
    phase: str
    time: int
    started: int
    ended: int
    thread: int
    received: list[tuple[str, int]]
    sent: list[tuple[str, int]]


class TraceObject(TypedDict):
    """A trace in the Trace Event Format. Each phase of events has members of its own."""

    traceEvents: list[dict[str, Any]]
    displayTimeUnit: str


class Tracer:
    """Records the calls of one graph's runs, the newest ``capacity`` of them.

    ::

        tracer = Tracer()
        graph.trace(tracer)
        ... run ...
        tracer.save("run.json")
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        self._calls: deque[TracedCall] = deque(maxlen=capacity)
        self._recorded = 0
        self._names: list[tuple[str, str]] = []
        self._producers: dict[str, str] = {}
        self._flushed: dict[int, list[tuple[str, int]]] = {}
        self._started = perf_counter_ns()

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes by their ids; empty before the first run."""
        return [name for name, _ in self._names]

    @property
    def producers(self) -> Mapping[str, str]:
        """The name of the node that sends a stream, by the stream. Graph inputs are not in it."""
        return self._producers

    @property
    def calls(self) -> list[TracedCall]:
        """The kept calls, in the order in which they were reported."""
        return list(self._calls)

    @property
    def dropped(self) -> int:
        """The number of calls that were dropped for newer ones."""
        return self._recorded - len(self._calls)

    def start(self, run: Run) -> None:
        """Begin a run. Lock held."""
        self._names = [(node.name, node.calculator_type) for node in run.plan.nodes]
        self._producers = {
            output.stream: node.name for node in run.plan.nodes for output in node.output_plans
        }
        if not self._calls:
            self._started = perf_counter_ns()

    def record_call(self, context: CalculatorContext, started: int, ended: int) -> None:
        """Record a call that has returned and is not reported yet. Lock held."""
        node = context._node
        self._recorded += 1
        self._calls.append(
            TracedCall(
                node.plan.node_id,
                phase_of(context),
                context.time,
                started,
                ended,
                threading.get_ident(),
                [
                    (shard.name, shard.packet.time)
                    for shard in context.input_list
                    if shard.packet.payload is not EMPTY
                ],
                self._flushed.pop(id(context), []) + _sent(context),
            )
        )

    def record_flush(self, context: CalculatorContext) -> None:
        """Keep what a call that goes on has sent, for its record. Lock held."""
        self._flushed.setdefault(id(context), []).extend(_sent(context))

    def to_json(self) -> TraceObject:
        """The trace as a JSON object in the Trace Event Format; times are in microseconds."""
        pid = os.getpid()
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": "graphrt"}}
        ]
        lanes = _Lanes(pid, self._names)
        #: The sender of a packet: its lane and the end of its call.
        sent_at: dict[tuple[str, int], tuple[int, float]] = {}
        flows = 0
        for node_id, phase, time, started, ended, thread, received, sent in sorted(
            self._calls, key=lambda call: call.started
        ):
            begin, end = (started - self._started) / 1000, (ended - self._started) / 1000
            lane = lanes.take(node_id, begin, end)
            events.append(
                {
                    "ph": "X",
                    "name": f"{self._names[node_id][0]}.{phase}",
                    "cat": phase,
                    "pid": pid,
                    "tid": lane,
                    "ts": begin,
                    "dur": end - begin,
                    "args": {
                        "timestamp": _label(time),
                        "received": [f"{stream} @ {_label(at)}" for stream, at in received],
                        "sent": [f"{stream} @ {_label(at)}" for stream, at in sent],
                        "thread": thread,
                    },
                }
            )
            for packet in received:
                if packet not in sent_at:
                    continue
                # A flow of its own for each receiver: one flow has one end.
                flows += 1
                sender, sending_ended = sent_at[packet]
                flow = {"name": packet[0], "cat": "packet", "id": flows, "pid": pid}
                # Inside the sender's slice, so that the arrow starts at it. A call that flushes
                # goes on after its packets are taken.
                sending = min(sending_ended - 0.001, begin)
                events.append({"ph": "s", "tid": sender, "ts": sending, **flow})
                events.append({"ph": "f", "bp": "e", "tid": lane, "ts": begin, **flow})
            for packet in sent:
                sent_at[packet] = (lane, end)
        return {"traceEvents": events + lanes.names(), "displayTimeUnit": "ms"}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to a file that https://ui.perfetto.dev opens."""
        Path(path).write_text(json.dumps(self.to_json()), encoding="utf-8")


class _Lanes:
    """Thread ids of the trace: one per node, and more where its calls overlap."""

    def __init__(self, pid: int, nodes: list[tuple[str, str]]) -> None:
        self._pid = pid
        self._nodes = nodes
        #: Per node, (lane, end of the last call in it).
        self._ends: list[list[tuple[int, float]]] = [
            [(node_id + 1, 0.0)] for node_id in range(len(nodes))
        ]
        self._count = len(nodes)

    def take(self, node_id: int, begin: float, end: float) -> int:
        """A lane of the node that is free at ``begin``. Calls come in the order of their begins."""
        ends = self._ends[node_id]
        for place, (lane, last_end) in enumerate(ends):
            if last_end <= begin:
                ends[place] = (lane, end)
                return lane
        self._count += 1
        ends.append((self._count, end))
        return self._count

    def names(self) -> list[dict[str, Any]]:
        """Metadata events: lanes are called after their nodes and stand in their order."""
        events: list[dict[str, object]] = []
        for (name, calculator), ends in zip(self._nodes, self._ends, strict=True):
            label = name if name == calculator else f"{name} ({calculator})"
            for number, (lane, _) in enumerate(ends):
                place = {"ph": "M", "pid": self._pid, "tid": lane}
                shown = label if not number else f"{label} #{number + 1}"
                events.append({"name": "thread_name", "args": {"name": shown}, **place})
                events.append(
                    {
                        "name": "thread_sort_index",
                        "args": {"sort_index": len(events) // 2},
                        **place,
                    }
                )
        return events


def _sent(context: CalculatorContext) -> list[tuple[str, int]]:
    return [
        (shard.stream.name, packet.time)
        for shard in context.output_list
        for packet in shard.packets
    ]


def phase_of(context: CalculatorContext) -> str:
    """Return "open", "process" or "close"."""
    return getattr(context.call, "__name__", "process")


def _label(time: int) -> str | int:
    return ts.SPECIAL_NAMES.get(time, time)
