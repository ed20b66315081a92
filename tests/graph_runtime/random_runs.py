"""Runs of random graphs: the application's calls, on any driver, and their outcome."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from graph_runtime import (
    ApplicationThreadExecutor,
    CalculatorGraph,
    GraphError,
    Packet,
    ThreadPoolExecutor,
)
from tests.graph_runtime.random_graphs import BuiltGraph
from tests.graph_runtime.random_steps import Entry
from tests.support.patience import PATIENCE

DRIVERS = ("application thread", "default", "event loop", "thread pool")

#: No run of these graphs takes long; one that does hangs.

#: An action of the application: (kind, index of the graph input, time difference, value).
Action = tuple[str, int, int, int]

#: One call of `CalculatorGraph`, by name.
Call = tuple[str, tuple[Any, ...]]

_action: st.SearchStrategy[Action] = st.tuples(
    st.sampled_from(("add", "add", "add", "add", "bound", "close", "idle", "look")),
    st.integers(0, 3),
    st.integers(1, 4),
    st.integers(0, 9),
)
actions: st.SearchStrategy[list[Action]] = st.lists(_action, max_size=8) | st.lists(
    _action, min_size=10, max_size=30
)


@dataclass
class Plan:
    """The calls that the actions become on one graph, and the packets fed."""

    graph: BuiltGraph
    actions: list[Action]
    calls: list[Call] = field(default_factory=list)
    fed: dict[str, list[Entry]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = list(self.graph.inputs)
        self.fed = {name: [] for name in names}
        clocks = dict.fromkeys(names, 100)
        closed: set[str] = set()
        for what, number, step, value in self.actions:
            if what in ("idle", "look") or not names:
                self.calls.append(("wait_until_idle" if what == "idle" else "statistics", ()))
                continue
            name = names[number % len(names)]
            if name in closed:
                continue
            if what == "close":
                closed.add(name)
                self.calls.append(("close_input_stream", (name,)))
                continue
            clocks[name] += step
            if what == "bound" and not self.graph.inputs[name]:
                bound = clocks[name]
                self.calls.append(("set_input_stream_timestamp_bound", (name, bound)))
                continue
            self.fed[name].append((clocks[name], value))
            self.calls.append(("add_packet_to_input_stream", (name, Packet(value, clocks[name]))))
            clocks[name] += 1


@dataclass
class Outcome:
    """The outcome of a run.

    Attributes:
        seen: packets of every stream.
        idle: number of packets of each stream at each wait_until_idle.
        left: packets still queued when everything was closed and idle.
    """

    seen: dict[str, list[Entry]] = field(default_factory=dict)
    idle: list[dict[str, int]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    error: str = ""


class PlannedRun:
    """A run of a plan on one driver."""

    def __init__(self, plan: Plan, driver: str, ending: str = "close_all_input_streams") -> None:
        self.plan = plan
        self.ending = ending
        self.driver = driver
        self.outcome = Outcome()
        built = plan.graph
        graph = self.graph = CalculatorGraph(text_config=built.text, registry=built.registry)
        if driver == "application thread":
            graph.set_executor("", ApplicationThreadExecutor())
        elif driver == "thread pool":
            graph.set_executor("", ThreadPoolExecutor(2))
        graph.check_invariants()
        for name in built.streams:
            graph.observe_output_stream(name, self._observe)

    def _observe(self, stream: str, packet: Packet) -> None:
        self.outcome.seen[stream].append((packet.time, packet.value))

    def run(self) -> Outcome:
        """Start, make the planned calls, close, wait for the end. May be called again."""
        self.outcome = Outcome({name: [] for name in self.plan.graph.streams})
        watchdog = threading.Timer(PATIENCE, self._give_up)
        watchdog.start()
        try:
            if self.driver == "event loop":
                asyncio.run(self._run_async())
            else:
                self._run_sync()
        finally:
            watchdog.cancel()
        return self.outcome

    def _give_up(self) -> None:
        nodes = self.graph.statistics().nodes
        waits = [f"{node.name} {node.state.name}: {node}" for node in nodes]
        self.outcome.error += "hangs\n" + "\n".join(waits)
        self.graph.cancel()

    def _run_sync(self) -> None:
        for name, arguments in self._calls():
            try:
                getattr(self.graph, name)(*arguments)
            except GraphError as error:
                if self._has_ended(name, error):
                    break
            self._after(name)

    async def _run_async(self) -> None:
        for name, arguments in self._calls():
            twin = getattr(self.graph, f"{name}_async", None)
            try:
                if twin is None:
                    getattr(self.graph, name)(*arguments)
                else:
                    await twin(*arguments)
            except GraphError as error:
                if self._has_ended(name, error):
                    break
            self._after(name)

    def _calls(self) -> Iterator[Call]:
        yield "start_run", ()
        yield from self.plan.calls
        yield self.ending, ()
        yield "wait_until_idle", ()
        yield "wait_until_done", ()

    def _has_ended(self, name: str, error: GraphError) -> bool:
        self.outcome.error = self.outcome.error or str(error)
        return name == "wait_until_done"

    def _after(self, name: str) -> None:
        if name != "wait_until_idle" or self.outcome.error:
            return
        seen = self.outcome.seen
        self.outcome.idle.append({stream: len(entries) for stream, entries in seen.items()})
        self.outcome.left = [
            f"{node.name} {node.state.name}: {stream.queue_size} on {stream.stream}"
            for node in self.graph.statistics().nodes
            for stream in node.inputs
            if stream.queue_size
        ]
