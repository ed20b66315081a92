"""Any order of an application's calls: invariants after every step, one result on every driver.

The graphs have loops, joins, fan-out, bounds without packets and parallel calls, and nothing whose
packets depend on the schedule.
"""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from graph_runtime import (
    REGISTRY,
    ApplicationThreadExecutor,
    CalculatorGraph,
    Registry,
    ThreadPoolExecutor,
    parse_graph_text,
    validate_graph,
)
from graph_runtime.engine.states import NodeState
from graph_runtime.testing import Sink
from tests.example_counts import examples

_NODES = {
    "join of a chain with its input": """
        node { calculator: "PassThroughCalculator" input_stream: "a" output_stream: "a1" }
        node { calculator: "PassThroughCalculator" input_stream: "a1" output_stream: "a2" }
        node { calculator: "add" input_stream: "a2" input_stream: "b" output_stream: "out" }
        node { calculator: "PassThroughCalculator" input_stream: "a" input_stream: "out"
               output_stream: "x" output_stream: "y" }""",
    "even numbers beside all of them": """
        node { calculator: "even" input_stream: "a" output_stream: "out" }
        node { calculator: "PassThroughCalculator" input_stream: "out" input_stream: "b"
               output_stream: "x" output_stream: "y" }""",
    "running sum in a loop": """
        node { calculator: "PreviousLoopbackCalculator" input_stream: "MAIN:a"
               input_stream: "LOOP:out" output_stream: "PREV_LOOP:before"
               input_stream_info { tag_index: "LOOP" back_edge: true } }
        node { calculator: "add" input_stream: "a" input_stream: "before" output_stream: "out" }
        node { calculator: "MergeCalculator" input_stream: "out" input_stream: "b"
               output_stream: "x" }
        node { calculator: "PassThroughCalculator" input_stream: "x" output_stream: "y" }""",
    "parallel calls and a gate": """
        node { calculator: "later" input_stream: "a" output_stream: "out" max_in_flight: 3 }
        node { calculator: "even" input_stream: "b" output_stream: "allowed" }
        node { calculator: "is_there" input_stream: "allowed" output_stream: "allow" }
        node { calculator: "GateCalculator" input_stream: "out" input_stream: "ALLOW:allow"
               output_stream: "x" }
        node { calculator: "PacketClonerCalculator" input_stream: "out" input_stream: "TICK:b"
               output_stream: "y" }""",
}
DRIVERS = ("application thread", "default", "thread pool", "asyncio")


def add(a: int = 0, b: int = 0) -> int:
    return a + b


def even(value: int) -> int | None:
    return value if value % 2 == 0 else None


def is_there(value: int) -> bool:
    return True


async def later(value: int) -> int:
    for _ in range(value % 3):
        await asyncio.sleep(0)
    return value


def _registry() -> Registry:
    registry = Registry(REGISTRY)
    for function in (add, even, is_there, later):
        registry.register_calculator(function)
    return registry


PLANS = {
    name: validate_graph(
        parse_graph_text(f'input_stream: "a" input_stream: "b" max_queue_size: 4 {nodes}'),
        registry=_registry(),
    )
    for name, nodes in _NODES.items()
}


class Driven:
    """One graph on one driver."""

    def __init__(self, name: str, driver: str) -> None:
        self.graph = CalculatorGraph(validated_graph=PLANS[name])
        self.sinks = {stream: Sink(self.graph, stream) for stream in ("out", "x", "y")}
        self.graph.check_invariants()
        self.loop = asyncio.new_event_loop() if driver == "asyncio" else None
        if driver == "application thread":
            self.graph.set_executor("", ApplicationThreadExecutor())
        elif driver == "thread pool":
            self.graph.set_executor("", ThreadPoolExecutor(2))
        self.call("start_run")

    def call(self, name: str, *arguments: object) -> None:
        """Make a call of the application, or its twin on the loop."""
        if self.loop is None:
            getattr(self.graph, name)(*arguments)
        elif (twin := getattr(self.graph, f"{name}_async", None)) is not None:
            self.loop.run_until_complete(twin(*arguments))
        else:
            getattr(self.graph, name)(*arguments)

    def seen(self) -> dict[str, list[tuple[int, object]]]:
        return {stream: list(sink.pairs) for stream, sink in self.sinks.items()}

    def end(self) -> None:
        self.call("close")
        if self.loop is not None:
            self.loop.close()


class ApplicationCalls(RuleBasedStateMachine):
    """The same calls on every driver."""

    streams = st.sampled_from(["a", "b"])
    gaps = st.integers(0, 3)

    @initialize(name=st.sampled_from(sorted(PLANS)))
    def start(self, name: str) -> None:
        self.graphs = {driver: Driven(name, driver) for driver in DRIVERS}
        self.next_time = {"a": 0, "b": 0}

    def on_all(self, name: str, *arguments: object) -> None:
        for driven in self.graphs.values():
            driven.call(name, *arguments)

    @rule(stream=streams, gap=gaps, value=st.integers(0, 9))
    def add(self, stream: str, gap: int, value: int) -> None:
        if stream in self.next_time:
            time = self.next_time[stream] + gap
            self.next_time[stream] = time + 1
            self.on_all("add_packet_to_input_stream", stream, value, time)

    @rule(stream=streams, gap=gaps)
    def promise(self, stream: str, gap: int) -> None:
        if stream in self.next_time:
            self.next_time[stream] += gap
            self.on_all("set_input_stream_timestamp_bound", stream, self.next_time[stream])

    @precondition(lambda self: len(self.next_time) > 1)
    @rule(stream=streams)
    def close(self, stream: str) -> None:
        del self.next_time[stream]
        self.on_all("close_input_stream", stream)

    @rule()
    def wait(self) -> None:
        self.on_all("wait_until_idle")
        self.compare()

    def compare(self) -> None:
        """Check that every observer has the same packets, and nothing is left queued."""
        first, *others = (driven.seen() for driven in self.graphs.values())
        assert all(other == first for other in others)
        for driven in self.graphs.values():
            statistics = driven.graph.statistics()
            assert not statistics.errors
            for node in statistics.nodes:
                assert node.in_flight == 0
                assert node.state in (NodeState.OPENED, NodeState.CLOSED)

    def teardown(self) -> None:
        for driven in self.graphs.values():
            driven.end()
        first, *others = (driven.seen() for driven in self.graphs.values())
        assert all(other == first for other in others)


ApplicationCalls.TestCase.settings = settings(
    max_examples=examples(60),
    stateful_step_count=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestApplicationCalls = ApplicationCalls.TestCase
