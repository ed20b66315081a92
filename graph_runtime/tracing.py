"""Traces for Perfetto and chrome://tracing: a lane per node, arrows along packets.

Format: the Trace Event Format's JSON object form, with complete events (``X``) for calls and flow
events (``s``/``f``) from the call that sent a packet to the call that received it.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from graph_runtime import timestamp as ts
from graph_runtime.packet import EMPTY

if TYPE_CHECKING:
    from graph_runtime.context import CalculatorContext
    from graph_runtime.run import Run

DEFAULT_CAPACITY = 100_000


class Tracer:
    """Records the calls of one graph's runs, the newest ``capacity`` of them.

    ::

        tracer = Tracer()
        graph.trace(tracer)
        ... run ...
        tracer.save("run.json")
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY) -> None:
        #: (node id, phase, input time, start ns, end ns, thread, received, sent); the last two are
        #: (stream, time) pairs.
        self._calls: deque[
            tuple[int, str, int, int, int, int, list[tuple[str, int]], list[tuple[str, int]]]
        ] = deque(maxlen=capacity)
        self._names: list[tuple[str, str]] = []
        self._inputs: list[str] = []
        self._started = perf_counter_ns()

    def start(self, run: Run) -> None:
        """Take up a run. Lock held."""
        self._names = [(node.name, node.calculator_type) for node in run.plan.nodes]
        self._inputs = [each.name for each in run.plan.graph_inputs]
        if not self._calls:
            self._started = perf_counter_ns()

    def record_call(self, context: CalculatorContext, started: int, ended: int) -> None:
        """A call has returned and is not reported yet: its inputs and outputs are in the context.

        Lock held.
        """
        node = context._node
        self._calls.append(
            (
                node.plan.node_id,
                _phase(context),
                context.time,
                started,
                ended,
                threading.get_ident(),
                [
                    (shard.name, shard.packet.time)
                    for shard in context.input_list
                    if shard.packet.payload is not EMPTY
                ],
                [
                    (shard.stream.name, packet.time)
                    for shard in context.output_list
                    for packet in shard.packets
                ],
            )
        )

    def to_json(self) -> dict[str, Any]:
        """The trace as the object that is written."""
        pid = os.getpid()
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": "graphrt"}}
        ]
        for node_id, (name, calculator) in enumerate(self._names):
            lane = {"pid": pid, "tid": node_id + 1}
            label = name if name == calculator else f"{name} ({calculator})"
            events.append({"ph": "M", "name": "thread_name", **lane, "args": {"name": label}})
            events.append(
                {"ph": "M", "name": "thread_sort_index", **lane, "args": {"sort_index": node_id}}
            )
        flows: dict[tuple[str, int], int] = {}
        for node_id, phase, time, started, ended, thread, received, sent in self._calls:
            name = self._names[node_id][0]
            begin = (started - self._started) / 1000
            events.append(
                {
                    "ph": "X",
                    "name": f"{name}.{phase}",
                    "cat": phase,
                    "pid": pid,
                    "tid": node_id + 1,
                    "ts": begin,
                    "dur": (ended - started) / 1000,
                    "args": {
                        "timestamp": _label(time),
                        "received": [f"{stream} @ {_label(at)}" for stream, at in received],
                        "sent": [f"{stream} @ {_label(at)}" for stream, at in sent],
                        "thread": thread,
                    },
                }
            )
            place = {"pid": pid, "tid": node_id + 1, "cat": "packet"}
            events += [
                {"ph": "f", "bp": "e", "name": packet[0], "id": flows[packet], "ts": begin, **place}
                for packet in received
                if packet in flows
            ]
            for packet in sent:
                flows[packet] = len(flows) + 1
                # Inside the slice, so that the arrow starts at it.
                end = (ended - self._started) / 1000 - 0.001
                events.append(
                    {"ph": "s", "name": packet[0], "id": flows[packet], "ts": end, **place}
                )
        return {"traceEvents": events, "displayTimeUnit": "ms"}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the trace to a file that https://ui.perfetto.dev opens."""
        Path(path).write_text(json.dumps(self.to_json()), encoding="utf-8")


def _phase(context: CalculatorContext) -> str:
    return getattr(context.call, "__name__", "process")


def _label(time: int) -> str | int:
    return ts.SPECIAL_NAMES.get(time, time)
