"""`LiveGraph`: a loaded graph as live streams see it, and `Snapshot`, its counts at one moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import count
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from graph_runtime import GraphNow, Registry, RunTotals, ValidatedGraph, graph_to_text
from graph_runtime.engine.run import Run
from graph_runtime.language.names import canonical_names
from graph_runtime.observe.live_calls import LiveCalls
from graph_runtime.observe.statistics import node_statistics
from graph_runtime.plan.plan import NodePlan
from servers.page.events import (
    FilePlace,
    GraphCounts,
    GraphShape,
    GraphView,
    NodeCounts,
    NodeError,
    NodeView,
    PacketSeen,
    StreamCounts,
    Waiting,
)
from servers.page.scratch_messages import CalculatorView

if TYPE_CHECKING:
    from servers.drawing.description import GraphDescription
    from servers.drawing.drawing import Direction, GraphDrawing

#: Characters of a value that are shown where contents are allowed.
_LONGEST_VALUE: Final = 2000
_numbers = count(1)


@dataclass(frozen=True, slots=True)
class ShownGraph:
    """The files of a graph, for its drawing.

    Attributes:
        file: the name of its file, without directories.
        text: the file; "" for a binary one.
        config: as it is written, subgraphs not expanded.
        places: line and column of each of its nodes, in order; empty without a text.
        plan: None for a graph that cannot run; ``problems`` says why.
    """

    name: str
    file: str
    text: str
    config: Any
    places: Sequence[tuple[int, int]]
    registry: Registry
    plan: ValidatedGraph | None
    problems: tuple[str, ...] = ()


class Snapshot:
    """All counts of a graph at one moment. Equal to an earlier one if nothing has happened."""

    __slots__ = ("buckets", "head", "nodes", "streams", "t_us")

    def __init__(
        self,
        t_us: int,
        head: tuple[int, int, int, tuple[str, ...]],
        nodes: Sequence[tuple[int, int, int, int, int, int]],
        streams: Sequence[tuple[int, int, int]],
        buckets: Sequence[tuple[int, ...]],
    ) -> None:
        """
        Args:
            head: runs, ended ones, failed ones, and the names of what is throttled.
            nodes: per node the numbers of `NodeCounts`, times in nanoseconds, without buckets.
            streams: per stream the numbers of `StreamCounts`.
            buckets: per node, calls by `graph_runtime.observe.live_calls.bucket_of`.
        """
        self.t_us, self.head = t_us, head
        self.nodes, self.streams, self.buckets = nodes, streams, buckets

    def is_as(self, other: Snapshot) -> bool:
        """Return whether nothing has happened between the two."""
        return (
            self.head == other.head and self.nodes == other.nodes and self.streams == other.streams
        )

    def since(self, name: str, before: Snapshot | None) -> GraphCounts:
        """Return the event with all changes since ``before``; None: with everything."""
        runs, ended, failed, throttled = self.head
        nodes: dict[int, NodeCounts] = {}
        for place, now in enumerate(self.nodes):
            if before is not None and now == before.nodes[place]:
                continue
            old = () if before is None else before.buckets[place]
            calls, time_ns, in_flight, queued, waiting, errors = now
            nodes[place] = NodeCounts(
                calls, time_ns // 1000, in_flight, queued, waiting, errors,
                _changed(self.buckets[place], old),
            )  # fmt: skip
        streams = {
            place: StreamCounts(*now)
            for place, now in enumerate(self.streams)
            if before is None or now != before.streams[place]
        }
        return GraphCounts(
            name, self.t_us, runs, ended, failed, list(throttled), nodes, streams
        )  # fmt: skip


def _changed(now: tuple[int, ...], before: tuple[int, ...]) -> list[tuple[int, int]]:
    if now is before:
        return []
    if not before:
        return [(place, calls) for place, calls in enumerate(now) if calls]
    pairs = zip(now, before, strict=True)
    return [(place, new) for place, (new, old) in enumerate(pairs) if new != old]


class LiveGraph:
    """A loaded graph, until it is closed. Nothing is counted here until `watch`.

    Attributes:
        shown: its files.
        totals: the totals of its runs.
        revision: differs from that of every other loaded graph of this server.
        shape: its nodes and streams.
        snapshot: the latest counts; None unless it is watched.
    """

    def __init__(self, shown: ShownGraph, plan: ValidatedGraph, totals: RunTotals) -> None:
        self.shown = shown
        self.plan = plan
        self.totals = totals
        seed = f"{shown.name} {shown.text} {next(_numbers)}".encode()
        self.revision = blake2b(seed, digest_size=6).hexdigest()
        names = [node.name for node in plan.nodes]
        self.shape = GraphShape(self.revision, names, list(totals.streams))
        self.snapshot: Snapshot | None = None
        self._calls: LiveCalls | None = None

    @property
    def name(self) -> str:
        return self.shown.name

    def watch(self, *, with_values: bool) -> None:
        """Begin to observe calls, of runs that go on too."""
        longest = _LONGEST_VALUE if with_values else 0
        self._calls = LiveCalls(len(self.plan.nodes), longest_value=longest)
        self.totals.observer = self._calls

    def rest(self) -> None:
        """Stop observing calls."""
        self.totals.observer = self._calls = self.snapshot = None

    async def take(self, spent: Callable[[float], object]) -> None:
        """Update `snapshot`. It stays the same object if nothing has happened.

        With many runs the event loop turns in between. ``spent`` gets the seconds of CPU time.
        """
        began = time.thread_time()
        now: GraphNow | None = None
        for now in self.totals.look_in_turns():
            if now is None:
                spent(time.thread_time() - began)
                await asyncio.sleep(0)
                began = time.thread_time()
        if now is not None and self._calls is not None:  # somebody still watches
            self._keep(now, self._calls)
        spent(time.thread_time() - began)

    def _keep(self, now: GraphNow, observed: LiveCalls) -> None:
        before = self.snapshot
        calls = now.calls
        nodes = list(
            zip(calls, now.time_ns, now.in_flight, now.queued, now.waiting, now.errors, strict=True)
        )
        streams = list(zip(now.packets, now.queued_on, now.full, strict=True))
        buckets = [
            before.buckets[place]
            if before is not None and before.nodes[place][0] == calls[place]
            else tuple(row)
            for place, row in enumerate(observed.buckets)
        ]
        head = (now.runs, now.ended, now.failed, now.throttled)
        taken = Snapshot(
            now.time // 1000,
            head,
            nodes,
            streams,
            buckets,
        )
        if before is None or not taken.is_as(before):
            self.snapshot = taken

    def focus(self, nodes: Collection[str]) -> None:
        """Keep the last packets of these nodes, and of no others."""
        if self._calls is not None:
            places = self.shape.nodes
            self._calls.choose([places.index(name) for name in nodes if name in places])

    def last_packets(self, node: str) -> list[PacketSeen]:
        """Return the last packets of a node in focus; empty for another."""
        if self._calls is None or node not in self.shape.nodes:
            return []
        return [
            PacketSeen(
                each.stream,
                each.time,
                each.type,
                each.size,
                None if each.shape is None else [int(size) for size in each.shape],
                each.dtype,
                each.value,
            )
            for each in self._calls.last_packets(self.shape.nodes.index(node))
        ]


#: Running runs whose waits are shown, and failures of a node.
_MOST_RUNS: Final = 8
_MOST_ERRORS: Final = 8


def view_graph(
    shown: ShownGraph,
    revision: str,
    expand: Collection[str],
    direction: Direction = "right",
    *,
    with_text: bool,
) -> GraphView:
    """Return the description and drawing of a graph. Takes up to seconds: for a thread.

    ``expand``: paths of subgraph nodes that are shown open; ``*`` stands for all.

    Raises:
        GraphConfigError: a subgraph cannot be expanded.
    """
    description, layout = drawn(shown, expand, direction)
    names = canonical_names(shown.config.node)
    return GraphView(
        name=shown.name,
        revision=revision,
        file=shown.file,
        description=description.to_json(),
        layout=layout,
        places={
            name: FilePlace(shown.file, line, column)
            for name, (line, column) in zip(names, shown.places, strict=False)
        },
        text=shown.text if with_text else None,
    )


def drawn(
    shown: ShownGraph, expand: Collection[str], direction: Direction = "right"
) -> tuple[GraphDescription, GraphDrawing]:
    """Return description and layout of a graph; see `view_graph`."""
    # Here: most servers never show their page. Callers are in a thread, or in a child.
    from servers.drawing.description import describe_graph
    from servers.drawing.layout import draw

    # A subgraph inside another one is open only if that is.
    paths = [tuple(each.split("/")) for each in expand]
    opened = {path[:depth] for path in paths for depth in range(1, len(path) + 1)}
    graph = describe_graph(
        shown.config,
        shown.registry,
        shown.plan,
        expand=True if "*" in expand else opened or False,
        problems=shown.problems,
    )
    return graph, draw(graph, shown.file, direction=direction)


def view_node(
    graph: LiveGraph, node: NodePlan, docs: CalculatorView, *, with_text: bool
) -> NodeView:
    """Return the state of a node of a loaded graph."""
    name = node.name
    runs = graph.totals.running()[:_MOST_RUNS]
    errors = [each for each in graph.totals.failures if each.node == name]
    return NodeView(
        name=name,
        calculator=node.calculator_type,
        options=_options_of(node),
        docs=docs,
        waits=[_waiting(run, began, node.node_id) for run, began in runs],
        last=graph.last_packets(name),
        errors=[
            NodeError(each.time // 1000, each.code.name, each.text if with_text else "")
            for each in errors[-_MOST_ERRORS:]
        ],
    )


def _options_of(node: NodePlan) -> str:
    """Return the options of a node in protobuf's text form."""
    config = node.config
    options = type(config)()
    if config.HasField("options"):
        options.options.CopyFrom(config.options)
    options.node_options.extend(config.node_options)
    return graph_to_text(options).strip()


def _waiting(run: Run, began: int, node_id: int) -> Waiting:
    with run.lock:
        found = node_statistics(run, node_id)
    seconds = (perf_counter_ns() - began) / 1e9
    return Waiting(round(seconds, 3), found.state.name, list(found.waits_for))
