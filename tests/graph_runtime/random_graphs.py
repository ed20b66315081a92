"""Random graphs whose packets do not depend on the schedule, and their expected packets.

`GraphSpec` is data that hypothesis makes and shrinks. `BuiltGraph` has the graph's text and
calculators, and evaluates it without the engine: node by node, from whole streams to whole streams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from graph_runtime import REGISTRY, Registry
from tests.graph_runtime import random_steps as steps_of
from tests.graph_runtime.random_steps import (
    AsyncStepCalculator,
    End,
    Entry,
    Lanes,
    Send,
    Sent,
    StepCalculator,
    Steps,
    mixed,
)

#: Streams that never begin, because their node never opens, are None.
Streams = dict[str, list[Entry] | None]

#: Kinds with one input and one output.
_ONE_TO_ONE = (
    "Drop",
    "SilentDrop",
    "PromisingDrop",
    "Shift",
    "Burst",
    "EndAfter",
    "Summary",
    "Opener",
)
#: Kinds with any number of inputs.
_MANY = ("Forward", "SilentForward", "Mix", "BoundMix", "Count", "Lanes", "Pair", "Sink")
_GROUPS = ("running sum", "previous", "select")
KINDS = ("Forward", "Mix", *_ONE_TO_ONE, *_MANY, "Source", *_GROUPS)

_BATCHES = {
    "batch of 2": 2,
    "batch of 3": 3,
}
_OPTIONS = "mediapipe.DefaultInputStreamHandlerOptions.ext"
_SYNC_SETS = "mediapipe.SyncSetInputStreamHandlerOptions.ext"


@dataclass(frozen=True)
class NodeSpec:
    """A node, or a group of nodes. ``picks`` choose among the streams made before."""

    kind: str
    param: int = 0
    picks: tuple[int, ...] = (0,)
    is_async: bool = False
    is_typed: bool = False
    is_pooled: bool = False
    in_flight: int = 1
    handler: str = ""
    layer: int = 0
    #: "" or the call that sets the node's output side packet.
    sets_side_in: str = ""
    #: The side packet made before that the node needs, if there is any.
    needs_side: int | None = None
    #: The call that fails: "open", "process", "close" or none.
    fails_in: str = ""
    #: The call of process that fails, or raises Stop; 0: none.
    fails_at: int = 0
    stops_at: int = 0


@dataclass(frozen=True)
class GraphSpec:
    """A graph. ``inputs``: the number of graph inputs."""

    inputs: int
    nodes: tuple[NodeSpec, ...]
    max_queue_size: int = 0


@dataclass
class Node:
    """A node as the graph's text has it."""

    place: int
    kind: str
    spec: NodeSpec
    inputs: list[str]
    outputs: list[str]
    back_edge: str = ""
    handler: str = ""
    side_input: str = ""
    side_output: str = ""

    @property
    def name(self) -> str:
        return f"{self.kind}{self.place}"

    def make_steps(self, outputs: int) -> Steps:
        cls: type[Steps] = getattr(steps_of, self.kind)
        return cls(self.spec.param, self.place, outputs)

    def lines(self) -> list[str]:
        lines = ["node {", f'  calculator: "{self.name}"']
        lines += [f'  input_stream: "{name}"' for name in self.inputs]
        lines += [f'  output_stream: "{name}"' for name in self.outputs]
        if self.back_edge:
            lines.append(f'  input_stream_info {{ tag_index: "{self.back_edge}" back_edge: true }}')
        if self.side_input:
            lines.append(f'  input_side_packet: "{self.side_input}"')
        if self.side_output:
            lines.append(f'  output_side_packet: "{self.side_output}"')
        if self.handler:
            lines.append(f"  {self.handler}")
        if self.spec.is_pooled:
            lines.append('  executor: "pool"')
        if self.kind == "Source":
            lines.append(f"  source_layer: {self.spec.layer}")
        if self._is_parallel:
            lines.append(f"  max_in_flight: {self.spec.in_flight}")
        return [*lines, "}"]

    @property
    def _is_parallel(self) -> bool:
        stateless = getattr(steps_of, self.kind).is_stateless
        return bool(
            self.spec.in_flight > 1
            and stateless
            and not self.handler
            and not self.side_output
            and self.inputs
            and self.kind != "Lanes"
            and not self.spec.fails_in
            and not self.spec.stops_at
        )

    def calculator(self) -> type[StepCalculator]:
        base = AsyncStepCalculator if self.spec.is_async else StepCalculator
        return type(
            self.name,
            (base,),
            {
                "make": staticmethod(self.make_steps),
                "is_typed": self.spec.is_typed,
                "sets_side_in": self.spec.sets_side_in,
                "fails_in": self.spec.fails_in,
                "fails_at": self.spec.fails_at,
                "stops_at": self.spec.stops_at,
            },
        )

    # Without the engine ---------------------------------------------------------------------------

    def evaluate(self, streams: Streams, sides: dict[str, int]) -> None:
        """Put the packets that the node sends into ``streams`` and ``sides``."""
        made: dict[str, list[Entry]] = {name: [] for name in self.outputs}
        given = [streams[name] for name in self.inputs]
        inputs = [entries for entries in given if entries is not None]
        if len(inputs) < len(given) or (self.side_input and self.side_input not in sides):
            streams.update(dict.fromkeys(self.outputs))
            return
        if self.side_input:
            side = sides[self.side_input]
            seen = [[(time, mixed(value, side)) for time, value in each] for each in inputs]
        else:
            seen = inputs
        steps = self.make_steps(len(self.outputs))
        for sent in (steps.open(), *self._calls(steps, seen), steps.close()):
            for action in sent:
                if isinstance(action, Send):
                    made[self.outputs[action.port]].append((action.time, action.value))
        streams.update(made)
        self._evaluate_side(inputs, sides)

    def _calls(self, steps: Steps, inputs: list[list[Entry]]) -> list[Sent]:
        if self.kind == "Source":
            calls: list[Sent] = []
            while not calls or End(-1) not in calls[-1]:
                calls.append(steps.process(0, ()))
            return calls
        if isinstance(steps, Lanes):
            return [
                steps.process_lane(port, *entry)
                for port, entries in enumerate(inputs)
                for entry in entries
            ]
        return [steps.process(time, values) for time, values in self._input_sets(inputs)]

    def _input_sets(self, inputs: list[list[Entry]]) -> list[tuple[int, list[int | None]]]:
        if self.kind == "Pair":
            return [
                (min(time for time, _ in entries), [value for _, value in entries])
                for entries in zip(*inputs, strict=False)
            ]
        by_time = [dict(entries) for entries in inputs]
        if self.kind == "Select":
            return [
                (time, [*(lane.get(time) for lane in by_time[:-1]), selected])
                for time, selected in inputs[-1]
            ]
        times = sorted({time for entries in inputs for time, _ in entries})
        return [(time, [lane.get(time) for lane in by_time]) for time in times]

    def _evaluate_side(self, inputs: list[list[Entry]], sides: dict[str, int]) -> None:
        if not self.side_output:
            return
        sets = self._input_sets(inputs)
        if self.spec.sets_side_in == "open":
            sides[self.side_output] = self.spec.param
        elif self.spec.sets_side_in == "close":
            sides[self.side_output] = len(sets)
        elif sets:
            sides[self.side_output] = sets[0][1][0] or 0


@dataclass
class RunningSum:
    """A loop: Sum, closed early, and LateDelay, which returns the sum one timestamp later."""

    first: Node
    second: Node

    def evaluate(self, streams: Streams, sides: dict[str, int]) -> None:
        added = streams[self.first.inputs[0]]
        assert added is not None
        total, sums, old = 0, [], [(steps_of.LateDelay.FIRST, 0)]
        values = dict(added)
        for time in range(steps_of.LateDelay.FIRST, max(values, default=0) + 1):
            total = (total + values.get(time, 0)) % 1000
            sums.append((time, total))
            old.append((time + 1, total))
        streams[self.first.outputs[0]], streams[self.second.outputs[0]] = sums, old


@dataclass
class Previous:
    """A loop: PreviousLoopbackCalculator, and Mix of a packet and the result before it."""

    main: str
    previous: str
    mix: Node

    def lines(self) -> list[str]:
        return [
            "node {",
            '  calculator: "PreviousLoopbackCalculator"',
            f'  input_stream: "MAIN:{self.main}"',
            f'  input_stream: "LOOP:{self.mix.outputs[0]}"',
            '  input_stream_info { tag_index: "LOOP" back_edge: true }',
            f'  output_stream: "PREV_LOOP:{self.previous}"',
            "}",
        ]

    def evaluate(self, streams: Streams, sides: dict[str, int]) -> None:
        main = streams[self.main]
        if main is None:
            streams[self.previous] = streams[self.mix.outputs[0]] = None
            return
        steps = self.mix.make_steps(1)
        before: int | None = None
        previous: list[Entry] = []
        results: list[Entry] = []
        for time, value in main:
            if before is not None:
                previous.append((time, before))
            for action in steps.process(time, (value, before)):
                assert isinstance(action, Send)
                before = action.value
                results.append((time, before))
        streams[self.previous], streams[self.mix.outputs[0]] = previous, results


@dataclass
class BuiltGraph:
    """A graph from its spec.

    Attributes:
        inputs: graph inputs by name; True for an input that must not get bounds beyond its packets.
    """

    spec: GraphSpec
    inputs: dict[str, bool] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)
    extra_lines: list[str] = field(default_factory=list)
    parts: list[Any] = field(default_factory=list)
    streams: list[str] = field(default_factory=list)
    sides: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        for number in range(self.spec.inputs):
            self._add_input(f"in{number}", False)
        for spec in self.spec.nodes:
            self._add(spec)

    def _add_input(self, name: str, is_exact: bool) -> str:
        self.inputs[name] = is_exact
        self.streams.append(name)
        return name

    def _new_stream(self) -> str:
        name = f"s{len(self.streams)}"
        self.streams.append(name)
        return name

    def _pick(self, pick: int) -> str:
        return self.streams[pick % len(self.streams)]

    def _node(self, kind: str, spec: NodeSpec, inputs: list[str], outputs: int) -> Node:
        node = Node(
            len(self.nodes), kind, spec, inputs, [self._new_stream() for _ in range(outputs)]
        )
        self.nodes.append(node)
        self.parts.append(node)
        return node

    def _add(self, spec: NodeSpec) -> None:
        if spec.kind == "Source" or not self.streams:
            self._node("Source", spec, [], 1 + spec.param % 2)
            return
        if spec.kind == "running sum":
            self._add_running_sum(spec)
            return
        picked = [self._pick(pick) for pick in spec.picks]
        if spec.kind == "previous":
            self._add_previous(spec, picked[0])
            return
        if spec.kind == "flow limit":
            self._add_flow_limit(spec, picked[0])
            return
        if spec.kind == "select":
            bit = self._node("Bit", spec, picked[:1], 1)
            lanes = [picked[-1], self._pick(spec.param)]
            select = self._node("Select", spec, [*lanes, bit.outputs[0]], 1)
            select.handler = _handler("MuxInputStreamHandler")
            return
        if spec.kind in _ONE_TO_ONE:
            node = self._node(spec.kind, spec, picked[:1], 1)
        else:
            outputs = {"Count": 1, "Pair": 1, "Sink": 0}.get(spec.kind, len(picked))
            node = self._node(spec.kind, spec, picked, outputs)
        self._choose_handler(node)
        self._connect_sides(node)

    def _choose_handler(self, node: Node) -> None:
        if node.kind == "Pair":
            node.handler = _handler("BarrierInputStreamHandler")
        elif node.kind == "Lanes":
            if node.spec.handler == "batch of 2":
                node.handler = _handler("ImmediateInputStreamHandler")
            elif node.spec.handler == "batch of 3":
                sets = " ".join(
                    f'sync_set {{ tag_index: ":{number}" }}'
                    for number in range(len(node.inputs) - 1)
                )
                node.handler = _handler("SyncSetInputStreamHandler", f"[{_SYNC_SETS}] {{ {sets} }}")
        elif node.spec.handler == "fixed size":
            node.handler = _handler("FixedSizeInputStreamHandler")
        elif node.spec.handler == "early close":
            node.handler = _handler("EarlyCloseInputStreamHandler")
        elif node.kind != "BoundMix" and node.spec.handler in _BATCHES:
            size = _BATCHES[node.spec.handler]
            node.handler = _handler(
                "DefaultInputStreamHandler", f"[{_OPTIONS}] {{ batch_size: {size} }}"
            )

    def _connect_sides(self, node: Node) -> None:
        if node.kind == "Pair":
            return
        if node.spec.needs_side is not None and self.sides:
            node.side_input = self.sides[node.spec.needs_side % len(self.sides)]
        # The number of calls of a node of lanes depends on the schedule.
        if node.spec.sets_side_in and node.kind != "Lanes":
            node.side_output = f"side{node.place}"
            self.sides.append(node.side_output)

    def _add_running_sum(self, spec: NodeSpec) -> None:
        added = self._add_input(f"exact{len(self.streams)}", True)
        total = self._node("Sum", NodeSpec("Sum", is_async=spec.is_async), [added, ""], 1)
        delay = self._node("LateDelay", NodeSpec("LateDelay"), [total.outputs[0]], 1)
        total.inputs[1] = delay.outputs[0]
        total.back_edge = ":1"
        total.handler = _handler("EarlyCloseInputStreamHandler")
        self.parts[-2:] = [RunningSum(total, delay)]

    def _add_previous(self, spec: NodeSpec, main: str) -> None:
        previous = self._new_stream()
        mix = self._node("Mix", NodeSpec("Mix", is_async=spec.is_async), [main, previous], 1)
        part = Previous(main, previous, mix)
        self.parts[-1] = part
        self.extra_lines += part.lines()

    def _add_flow_limit(self, spec: NodeSpec, main: str) -> None:
        allowed = self._new_stream()
        node = self._node("Forward", spec, [allowed], 1)
        self.extra_lines += [
            "node {",
            '  calculator: "FlowLimiterCalculator"',
            f'  input_stream: "{main}"',
            f'  input_stream: "FINISHED:{node.outputs[0]}"',
            '  input_stream_info { tag_index: "FINISHED" back_edge: true }',
            f'  output_stream: "{allowed}"',
            "  options { [mediapipe.FlowLimiterCalculatorOptions.ext] {",
            f"    max_in_flight: {1 + abs(spec.param) % 2} max_in_queue: {abs(spec.param) % 3}",
            "  } }",
            "}",
        ]

    @property
    def text(self) -> str:
        lines = [f'input_stream: "{name}"' for name in self.inputs]
        if self.spec.max_queue_size:
            lines.append(f"max_queue_size: {self.spec.max_queue_size}")
        if any(node.spec.is_pooled for node in self.nodes):
            lines.append(
                'executor { name: "pool" type: "ThreadPoolExecutor" options { '
                "[mediapipe.ThreadPoolExecutorOptions.ext] { num_threads: 2 } } }"
            )
        for node in self.nodes:
            lines += node.lines()
        return "\n".join([*lines, *self.extra_lines])

    @property
    def registry(self) -> Registry:
        registry = Registry(REGISTRY)
        for node in self.nodes:
            registry.register_calculator(node.calculator(), node.name)
        return registry

    def expected(self, fed: dict[str, list[Entry]]) -> dict[str, list[Entry]]:
        """Return the packets of every stream if these are fed and everything is closed."""
        streams: Streams = dict(fed)
        sides: dict[str, int] = {}
        for part in self.parts:
            part.evaluate(streams, sides)
        return {name: entries or [] for name, entries in streams.items()}

    def unopened(self, fed: dict[str, list[Entry]]) -> bool:
        """Return True if some node waits for a side packet for ever."""
        streams: Streams = dict(fed)
        sides: dict[str, int] = {}
        for part in self.parts:
            part.evaluate(streams, sides)
        return any(entries is None for entries in streams.values()) or any(
            node.side_input and node.side_input not in sides for node in self.nodes
        )


def _handler(name: str, options: str = "") -> str:
    more = f" options {{ {options} }}" if options else ""
    return f'input_stream_handler {{ input_stream_handler: "{name}"{more} }}'


# Strategies ---------------------------------------------------------------------------------------

_rarely = st.sampled_from((False, False, False, True))
_HANDLERS = ("", "", "batch of 2", "batch of 3")


def node_specs(
    kinds: Sequence[str] = KINDS, handlers: Sequence[str] = _HANDLERS, stops: Sequence[int] = (0,)
) -> st.SearchStrategy[NodeSpec]:
    return st.builds(
        NodeSpec,
        kind=st.sampled_from(kinds),
        param=st.integers(-2, 7),
        picks=st.lists(st.integers(0, 20), min_size=1, max_size=3).map(tuple),
        is_async=_rarely,
        is_typed=_rarely,
        is_pooled=_rarely,
        in_flight=st.sampled_from((1, 1, 2, 3)),
        handler=st.sampled_from(handlers),
        layer=st.integers(0, 2),
        sets_side_in=st.sampled_from(("", "", "", "open", "process", "close")),
        needs_side=st.none() | st.integers(0, 3),
        stops_at=st.sampled_from(stops),
    )


def graph_specs(nodes: st.SearchStrategy[NodeSpec]) -> st.SearchStrategy[GraphSpec]:
    return st.builds(
        GraphSpec,
        inputs=st.integers(0, 3),
        nodes=(
            st.lists(nodes, min_size=1, max_size=4) | st.lists(nodes, min_size=4, max_size=8)
        ).map(tuple),
        max_queue_size=st.sampled_from((0, 0, 1, 2, -1)),
    )


#: Graphs whose packets do not depend on the schedule.
determined_graphs = graph_specs(node_specs())

#: The same, and graphs with parts where they do: nodes that drop packets that follow too fast, that
#: close with their first input, that end the run.
any_graphs = graph_specs(
    node_specs(
        (*KINDS, "flow limit", "flow limit"),
        (*_HANDLERS, "fixed size", "early close"),
        (0, 0, 0, 1, 3),
    )
)


@st.composite
def failing_graphs(draw: st.DrawFn) -> GraphSpec:
    """Strategy for graphs in which one node fails on purpose."""
    spec = draw(determined_graphs)
    place = draw(st.integers(0, len(spec.nodes) - 1))
    failing = replace(
        spec.nodes[place],
        fails_in=draw(st.sampled_from(("open", "process", "process", "close"))),
        fails_at=draw(st.integers(1, 4)),
    )
    return replace(spec, nodes=(*spec.nodes[:place], failing, *spec.nodes[place + 1 :]))
