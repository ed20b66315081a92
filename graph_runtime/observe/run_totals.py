"""`RunTotals`: sums over the runs of one graph, node by node and stream by stream."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final, NamedTuple

from graph_runtime.engine.states import NodeState
from graph_runtime.errors import CalculatorError, Code, RunError
from graph_runtime.observe.call_observers import CallObserver, both

if TYPE_CHECKING:
    from graph_runtime.authoring.context import Counter
    from graph_runtime.engine.node import Node
    from graph_runtime.engine.run import Run
    from graph_runtime.plan.plan import ValidatedGraph


_NONE: Final[Mapping[str, int]] = {}
#: Runs that `RunTotals.look_in_turns` looks at in one go: about half a millisecond.
RUNS_PER_TURN: Final = 100
#: The number of failures that are kept for display.
KEPT_FAILURES: Final = 32


class NodeTotal:
    """Sums of one node.

    Attributes:
        calls, time_ns: its calls of open, process and close, and their time.
        dropped: the packets that its input handler dropped.
        failed: the runs that ended because it failed.
    """

    __slots__ = ("calls", "dropped", "failed", "name", "time_ns")

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls = 0
        self.time_ns = 0
        self.dropped = 0
        self.failed = 0

    def copy(self) -> NodeTotal:
        """A copy with the same numbers."""
        made = NodeTotal(self.name)
        made.calls, made.time_ns, made.dropped = self.calls, self.time_ns, self.dropped
        made.failed = self.failed
        return made


class Failure(NamedTuple):
    """A run that has failed.

    Attributes:
        time: of its end, by ``time.perf_counter_ns``.
        node: the name of the node that failed; "" if it was none.
    """

    time: int
    node: str
    code: Code
    text: str


class _Begun(NamedTuple):
    """A run that goes on.

    Attributes:
        time: of its begin, by ``time.perf_counter_ns``.
        counters, before: the counters of its graph, and their values at the begin.
        own: the observer of this run alone.
    """

    time: int
    counters: Mapping[str, Counter]
    before: Mapping[str, int]
    own: CallObserver | None


class GraphNow:
    """The state of all runs of a graph at one moment; see `RunTotals.look`.

    Lists are by node, in the order of the plan, or by stream, in the order of
    `RunTotals.streams`.

    Attributes:
        time: when it was taken, by ``time.perf_counter_ns``.
        runs: runs that go on.
        ended, failed: runs that have ended, and the failed ones among them.
        calls, time_ns, errors: sums of ended runs and running ones.
        in_flight: runs in which the node is being called, or a call of it is queued.
        queued: packets that wait in the node's inputs.
        waiting: runs in which the node has packets and waits for others, or waits to be opened.
        packets: packets sent on the stream, in ended runs and running ones.
        queued_on: packets of the stream that wait at its receivers.
        full: full queues of the stream, over all runs, that hold something back.
        throttled: names of the graph inputs, and of nodes without inputs, that are held back.
    """

    __slots__ = (
        "calls",
        "ended",
        "errors",
        "failed",
        "full",
        "in_flight",
        "packets",
        "queued",
        "queued_on",
        "runs",
        "throttled",
        "time",
        "time_ns",
        "waiting",
    )

    def __init__(self, totals: RunTotals) -> None:
        nodes, streams = totals.nodes, totals.streams
        self.time = perf_counter_ns()
        self.runs = 0
        self.ended = totals.ended
        self.failed = totals.failed
        self.calls = [each.calls for each in nodes]
        self.time_ns = [each.time_ns for each in nodes]
        self.errors = [each.failed for each in nodes]
        self.in_flight = [0] * len(nodes)
        self.queued = [0] * len(nodes)
        self.waiting = [0] * len(nodes)
        self.packets = list(totals.packets)
        self.queued_on = [0] * len(streams)
        self.full = [0] * len(streams)
        self.throttled: tuple[str, ...] = ()


class RunTotals:
    """Sums over all runs of graphs of one plan; pass it to `CalculatorGraph.count_into`.

    Concurrent runs in several threads may lose some counts.

    Attributes:
        nodes: sums of the runs that have ended, one per node in the order of the plan.
        streams: the names of all streams: the graph's inputs, then the outputs of its nodes.
        packets: packets of the runs that have ended, one number per stream.
        counters: the counters of those runs (``cc.get_counter``), by ``<node>-<name>``.
        ended, failed: runs that have ended, and the failed ones among them, cancelled ones not
            among them.
        failures: the last `KEPT_FAILURES` of them.
    """

    def __init__(self, plan: ValidatedGraph) -> None:
        self.nodes = [NodeTotal(node.name) for node in plan.nodes]
        inputs = [each.name for each in plan.graph_inputs]
        outputs = [each.stream for node in plan.nodes for each in node.output_plans]
        self.streams = (*inputs, *outputs)
        self.packets = [0] * len(self.streams)
        self.counters: dict[str, int] = {}
        self.ended = 0
        self.failed = 0
        self.failures: deque[Failure] = deque(maxlen=KEPT_FAILURES)
        self._observer: CallObserver | None = None
        self._running: dict[Run, _Begun] = {}
        self._dropping = [
            place for place, node in enumerate(plan.nodes) if node.handler_class.may_drop
        ]
        self._places = {node.name: place for place, node in enumerate(plan.nodes)}
        #: By the id of a source or graph input: see `InputPlan.throttles`.
        self._sources = (*self._places, *inputs)
        place_of = {name: place for place, name in enumerate(self.streams)}
        #: Per node, the streams of its inputs.
        self._inputs = [[place_of[each.stream] for each in node.input_plans] for node in plan.nodes]

    @property
    def observer(self) -> CallObserver | None:
        """Receives the calls of all runs, beside the runs' own observers; None by default.

        Setting it takes effect at once, for runs that go on too, whose `CallObserver.start` is not
        called. It must not be set inside a call of a graph.
        """
        return self._observer

    @observer.setter
    def observer(self, observer: CallObserver | None) -> None:
        self._observer = observer
        for run, begun in tuple(self._running.items()):
            with run.driver.lock:
                run.driver.tracer = both(begun.own, observer)

    def begin(
        self, run: Run, counters: Mapping[str, Counter], own: CallObserver | None = None
    ) -> CallObserver | None:
        """Begin a run; ``counters`` belong to its graph. Return the observer of its calls.

        ``own`` is the observer of this run alone.
        """
        before = {name: each.value for name, each in counters.items()} if counters else _NONE
        self._running[run] = _Begun(perf_counter_ns(), counters, before, own)
        return own if self._observer is None else both(own, self._observer)

    def end(self, run: Run, counters: Mapping[str, Counter]) -> None:
        """End a run and add its sums."""
        begun = self._running.pop(run, None)
        if begun is None:
            return
        self.ended += 1
        if run.error is not None:
            self._note_failure(run.error)
        packets = self.packets
        for place, stream in enumerate(run.streams.values()):
            packets[place] += stream.num_packets
        nodes = run.scheduler.nodes
        for total, node in zip(self.nodes, nodes):  # noqa: B905 (strict takes as long as all this)
            total.calls += node.calls
            total.time_ns += node.time_ns
        for place in self._dropping:
            self.nodes[place].dropped += nodes[place].handler.dropped
        if counters:
            _add_gained(self.counters, counters, begun.before)

    def now(self) -> tuple[list[NodeTotal], dict[str, int]]:
        """`nodes` and `counters`, including the runs that are still going on.

        No number is ever smaller than in an earlier call.
        """
        nodes = [each.copy() for each in self.nodes]
        counters = dict(self.counters)
        for run, (_, live, before, _) in tuple(self._running.items()):
            for total, node in zip(nodes, run.scheduler.nodes, strict=True):
                total.calls += node.calls
                total.time_ns += node.time_ns
            for place in self._dropping:
                nodes[place].dropped += run.scheduler.nodes[place].handler.dropped
            if live:
                _add_gained(counters, dict(live), before)
        return nodes, counters

    def queued(self) -> list[int]:
        """Return the number of packets that wait in the inputs of each node now, over all runs."""
        lengths = [0] * len(self.nodes)
        for run in tuple(self._running):
            for place, node in enumerate(run.scheduler.nodes):
                lengths[place] += sum(len(stream.queue) for stream in node.inputs)
        return lengths

    def running(self) -> list[tuple[Run, int]]:
        """Return the runs that go on with the times of their begins, the oldest first."""
        return [(run, begun.time) for run, begun in tuple(self._running.items())]

    def look(self) -> GraphNow:
        """Sum up all runs. Takes some microseconds per run of 20 nodes, and no lock.

        Runs in other threads may go on meanwhile, so numbers of different nodes may be of
        slightly different times. No counter is ever smaller than in an earlier call.
        """
        now = GraphNow(self)
        for _ in self._visit(now):
            pass
        return now

    def look_in_turns(self) -> Iterator[GraphNow | None]:
        """Do as `look`, but yield None after every `RUNS_PER_TURN` runs; the sums come last.

        Whatever happens between the turns, each run is counted once: one that ends meanwhile by
        its last numbers.
        """
        now = GraphNow(self)
        for place, _ in enumerate(self._visit(now), 1):
            if place % RUNS_PER_TURN == 0:
                yield None
        yield now

    def _visit(self, now: GraphNow) -> Iterator[None]:
        """Add the runs that go on now, one per step."""
        # Runs begin and end between two steps.
        running = tuple(self._running)
        now.runs = len(running)
        throttled: set[int] = set()
        calls, time_ns, in_flight = now.calls, now.time_ns, now.in_flight
        packets = now.packets
        for run in running:
            for place, node in enumerate(run.scheduler.nodes):
                calls[place] += node.calls
                time_ns[place] += node.time_ns
                if node.in_flight:
                    in_flight[place] += 1
                elif node.state is NodeState.PREPARED:
                    now.waiting[place] += 1
                for stream in node.inputs:
                    if stream.queue:
                        self._add_queues(now, place, node, throttled)
                        break
            for place, sent in enumerate(run.streams.values()):
                packets[place] += sent.num_packets
            yield
        now.throttled = tuple(self._sources[each] for each in sorted(throttled))

    def _add_queues(self, now: GraphNow, place: int, node: Node, throttled: set[int]) -> None:
        """Add the queues of one node of one run, of which one is not empty."""
        for stream, source in zip(node.inputs, self._inputs[place], strict=True):
            length = len(stream.queue)
            now.queued[place] += length
            now.queued_on[source] += length
            if stream.was_full and stream.throttles:
                now.full[source] += 1
                throttled.update(stream.throttles)
        is_waiting = node.state is NodeState.OPENED and not node.in_flight
        if is_waiting and any(not stream.queue for stream in node.inputs):
            now.waiting[place] += 1

    def _note_failure(self, error: RunError) -> None:
        first = error.errors[0]
        if first.code is Code.CANCELLED:
            return
        self.failed += 1
        node = first.node if isinstance(first, CalculatorError) else ""
        place = self._places.get(node)
        if place is not None:
            self.nodes[place].failed += 1
        self.failures.append(Failure(perf_counter_ns(), node, first.code, str(first)))


def _add_gained(
    totals: dict[str, int], counters: Mapping[str, Counter], before: Mapping[str, int]
) -> None:
    for name, counter in counters.items():
        totals[name] = totals.get(name, 0) + counter.value - before.get(name, 0)
