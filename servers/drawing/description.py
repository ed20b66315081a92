"""The description of a graph, made from its config, and from its plan if it is valid."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from graph_runtime import GraphConfigError, Registry, SubgraphContext, ValidatedGraph, graph_to_text
from graph_runtime.authoring.calculator import Calculator
from graph_runtime.authoring.packet_type import PacketType
from graph_runtime.language.names import canonical_names
from graph_runtime.language.tag_map import TagMap, parse_tag_index
from graph_runtime.plan.subgraph import Subgraph, expand_subgraphs
from servers.drawing.drawing import Family

#: Rooms below `calculators`, the first that holds a calculator counts; all others run models.
_ROOMS: Final[dict[str, Family]] = {
    "core.": "flow",
    "images.image.": "image",
    "language.moderation.": "model",
    "language.retrieval.": "model",
    "language.server_tools.": "model",
    "language.": "flow",
    "tensors.inference.": "tensor",
    "tensors.openvino.": "tensor",
}


def family_of(calculator: type[Calculator]) -> Family:
    """Return the work of a calculator; "own" for code that is not of this project."""
    package, _, place = calculator.__module__.partition(".")
    if package != "calculators":
        return "own"
    found = (family for room, family in _ROOMS.items() if place.startswith(room))
    return next(found, "model")


NodeKind = Literal["calculator", "source", "subgraph", "unknown"]

#: Before the calculator of a subgraph node that stays closed; no name of a calculator has it.
_CLOSED = "\0"

Path = tuple[str, ...]


@dataclass(frozen=True)
class DescribedPort:
    """One end of a stream or side packet. ``type`` is "" if it is not known."""

    tag: str
    index: int
    name: str
    type: str = ""
    is_back_edge: bool = False

    @property
    def label(self) -> str:
        """The port's text: ``TAG``, ``TAG:2``, or "" without a tag."""
        return f"{self.tag}:{self.index}" if self.tag and self.index else self.tag


@dataclass(frozen=True)
class DescribedNode:
    """One node. ``group`` has the names of the subgraph nodes around it, the outermost first.

    ``prefix`` is the prefix of the names of streams inside that group. ``members`` are the names in
    the running graph: its own, and for a subgraph those of its nodes, if the graph is valid.
    """

    name: str
    calculator: str
    kind: NodeKind
    family: Family
    inputs: tuple[DescribedPort, ...]
    outputs: tuple[DescribedPort, ...]
    input_side_packets: tuple[DescribedPort, ...]
    output_side_packets: tuple[DescribedPort, ...]
    group: tuple[str, ...] = ()
    prefix: str = ""
    input_stream_handler: str = ""
    executor: str = ""
    max_in_flight: int = 1
    options: str = ""
    members: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """The name in the graph whose subgraphs are expanded."""
        return self.prefix + self.name


@dataclass(frozen=True)
class Stream:
    """One stream. ``producer`` is a node's name; None for a graph input, or without a producer."""

    name: str
    type: str
    producer: str | None
    is_graph_input: bool
    consumers: tuple[str, ...]


@dataclass(frozen=True)
class SidePacket:
    """A side packet that the graph needs from outside."""

    name: str
    type: str
    is_optional: bool


@dataclass(frozen=True)
class ExecutorEntry:
    """One executor; ``name`` "" is the default one."""

    name: str
    type: str
    num_threads: int


@dataclass(frozen=True)
class GraphDescription:
    """A graph. ``problems`` has the reasons why it cannot run; types are known only without any.

    ``groups`` has the type of each subgraph by the path of names of its node.
    """

    type: str
    is_expanded: bool
    inputs: tuple[DescribedPort, ...]
    outputs: tuple[DescribedPort, ...]
    nodes: tuple[DescribedNode, ...]
    streams: tuple[Stream, ...]
    input_side_packets: tuple[SidePacket, ...]
    output_side_packets: tuple[str, ...]
    executors: tuple[ExecutorEntry, ...]
    max_queue_size: int
    groups: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        found = asdict(self)
        found["groups"] = [{"path": list(path), "type": kind} for path, kind in self.groups.items()]
        return {"is_valid": not self.problems, **found}


def describe_graph(
    config: Any,
    registry: Registry,
    plan: ValidatedGraph | None,
    *,
    expand: bool | Collection[Path] = False,
    problems: Iterable[str] = (),
) -> GraphDescription:
    """Describe a ``CalculatorGraphConfig``, as it is written or with its subgraphs expanded.

    Args:
        config: the graph as it is written.
        registry: its calculators and subgraphs.
        plan: None for a graph that does not validate; its ``problems`` are kept.
        expand: true for all subgraphs, or those whose nodes have these paths of names. One inside
            another one is expanded only if the other one is.
        problems: the reasons why the graph cannot run.

    Raises:
        GraphConfigError: a subgraph cannot be expanded.
    """
    groups: dict[str, tuple[Path, str]] = {}
    shown = config
    if expand is not False:
        opened = None if expand is True else frozenset(expand)
        shown, groups = _expanded(config, registry, opened)
    types, side_types = _types(plan)
    names = canonical_names(shown.node)
    loops = _loops(plan)
    nodes = tuple(
        _node(node, name, registry, plan, shown.package, groups, types, side_types, loops)
        for node, name in zip(shown.node, names, strict=True)
    )
    inputs = _ports(shown.input_stream, types)
    return GraphDescription(
        type=config.type,
        is_expanded=expand is True or bool(groups),
        inputs=inputs,
        outputs=_ports(shown.output_stream, types),
        nodes=nodes,
        streams=_streams(inputs, nodes, types),
        input_side_packets=_needed(plan, nodes),
        output_side_packets=tuple(
            dict.fromkeys(port.name for node in nodes for port in node.output_side_packets)
        ),
        executors=_executors(shown, plan),
        max_queue_size=plan.max_queue_size if plan is not None else shown.max_queue_size,
        groups=dict(groups.values()),
        warnings=tuple(map(str, plan.warnings)) if plan is not None else (),
        problems=tuple(problems),
    )


def _node(
    node: Any,
    name: str,
    registry: Registry,
    plan: ValidatedGraph | None,
    package: str,
    groups: Mapping[str, tuple[tuple[str, ...], str]],
    types: Mapping[str, str],
    side_types: Mapping[str, str],
    loops: Mapping[str, set[tuple[str, int]]],
) -> DescribedNode:
    backs = _back_edges(node) | loops.get(name, set())
    inputs = tuple(
        DescribedPort(port.tag, port.index, port.name, port.type, (port.tag, port.index) in backs)
        for port in _ports(node.input_stream, types)
    )
    outputs = _ports(node.output_stream, types)
    prefix = _prefix_of(name, groups)
    group = groups[prefix][0] if prefix else ()
    options = type(node)()
    if node.HasField("options"):
        options.options.CopyFrom(node.options)
    options.node_options.extend(node.node_options)
    kind = _kind(node, registry, package)
    return DescribedNode(
        name=name[len(prefix) :],
        calculator=node.calculator,
        kind=kind,
        family=_family(node, kind, registry, package),
        inputs=inputs,
        outputs=outputs,
        input_side_packets=_ports(node.input_side_packet, side_types),
        output_side_packets=_ports(node.output_side_packet, side_types),
        group=group,
        prefix=prefix,
        input_stream_handler=node.input_stream_handler.input_stream_handler
        if node.HasField("input_stream_handler")
        else "",
        executor=node.executor,
        max_in_flight=node.max_in_flight or 1,
        options=graph_to_text(options).strip(),
        members=_members(name, plan) if kind == "subgraph" else (name,),
    )


def _family(node: Any, kind: NodeKind, registry: Registry, package: str) -> Family:
    if kind == "subgraph":
        return "subgraph"
    if not node.input_stream and not node.output_stream:
        return "session"
    calculator = registry.find_calculator(node.calculator, package)
    return family_of(calculator) if calculator is not None else "own"


def _members(name: str, plan: ValidatedGraph | None) -> tuple[str, ...]:
    """Return the names of the nodes that a subgraph node becomes in the running graph."""
    prefix = _prefix(name)
    return tuple(node.name for node in plan.nodes if node.name.startswith(prefix)) if plan else ()


def _kind(node: Any, registry: Registry, package: str) -> NodeKind:
    if registry.find_subgraph(node.calculator, package) is not None:
        return "subgraph"
    if registry.find_calculator(node.calculator, package) is None:
        return "unknown"
    return "source" if node.output_stream and not node.input_stream else "calculator"


def _ports(entries: Iterable[str], types: Mapping[str, str]) -> tuple[DescribedPort, ...]:
    """Return the ports in the order of their ids; unparsed entries if the grammar is broken."""
    entries = list(entries)
    try:
        ports = TagMap(entries)
    except GraphConfigError:
        return tuple(DescribedPort("", place, entry) for place, entry in enumerate(entries))
    return tuple(
        DescribedPort(tag, index, name, types.get(name, ""))
        for (tag, index), name in zip(ports.keys, ports.names, strict=True)
    )


def _back_edges(node: Any) -> set[tuple[str, int]]:
    found = set()
    for info in node.input_stream_info:
        try:
            place = parse_tag_index(info.tag_index)
        except GraphConfigError:
            continue
        if info.back_edge:
            found.add(place)
    return found


def _loops(plan: ValidatedGraph | None) -> dict[str, set[tuple[str, int]]]:
    """Return the back edges of each node, with those that the graph leaves to the contract."""
    if plan is None:
        return {}
    return {
        node.name: {
            key
            for key, each in zip(node.inputs.keys, node.input_plans, strict=True)
            if each.is_back_edge
        }
        for node in plan.nodes
    }


# Types --------------------------------------------------------------------------------------------


def _types(plan: ValidatedGraph | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the types of streams and of side packets by name."""
    if plan is None:
        return {}, {}
    streams = {each.name: _shown(each.packet_type) for each in plan.graph_inputs}
    sides = {name: _shown(kind) for name, (kind, _) in plan.side_packet_types.items()}
    for node in plan.nodes:
        for name, kind in zip(node.outputs.names, node.output_types, strict=True):
            streams[name] = _shown(kind)
        for name, checker in zip(
            node.output_side_packets.names, node.side_output_checkers, strict=True
        ):
            sides[name] = "any" if checker is None else _shown(checker)
    return streams, sides


def _shown(kind: PacketType) -> str:
    return "any" if kind.is_any else kind.name


# The graph ----------------------------------------------------------------------------------------


def _streams(
    inputs: tuple[DescribedPort, ...], nodes: tuple[DescribedNode, ...], types: Mapping[str, str]
) -> tuple[Stream, ...]:
    producers: dict[str, str | None] = {port.name: None for port in inputs}
    consumers: dict[str, list[str]] = {}
    for node in nodes:
        name = "/".join((*node.group, node.name))
        for port in node.outputs:
            producers.setdefault(port.name, name)
        for port in node.inputs:
            consumers.setdefault(port.name, []).append(name)
    given = {port.name for port in inputs}
    return tuple(
        Stream(
            name,
            types.get(name, ""),
            producers.get(name),
            name in given,
            tuple(dict.fromkeys(consumers.get(name, ()))),
        )
        for name in dict.fromkeys((*producers, *consumers))
    )


def _needed(
    plan: ValidatedGraph | None, nodes: tuple[DescribedNode, ...]
) -> tuple[SidePacket, ...]:
    if plan is not None:
        return tuple(
            SidePacket(name, _shown(kind), is_optional)
            for name, (kind, is_optional) in plan.side_packet_types.items()
        )
    made = {port.name for node in nodes for port in node.output_side_packets}
    used = dict.fromkeys(port.name for node in nodes for port in node.input_side_packets)
    return tuple(SidePacket(name, "", False) for name in used if name not in made)


def _executors(config: Any, plan: ValidatedGraph | None) -> tuple[ExecutorEntry, ...]:
    if plan is None:
        return tuple(ExecutorEntry(each.name, each.type, 0) for each in config.executor)
    return tuple(
        ExecutorEntry(each.name, each.type, each.num_threads) for each in plan.executors.values()
    )


# Groups -------------------------------------------------------------------------------------------


def _expanded(
    config: Any, registry: Registry, opened: frozenset[Path] | None
) -> tuple[Any, dict[str, tuple[Path, str]]]:
    """Expand subgraphs, or those with these paths.

    Return the config, and path and type of each expanded node by the prefix of the names inside.
    """
    source = _Opened(registry, opened)
    start = type(config)()
    start.CopyFrom(config)
    source.close(start, ())
    found = expand_subgraphs(start, source).config
    for node in found.node:
        node.calculator = node.calculator.removeprefix(_CLOSED)
    return found, source.groups


class _Opened:
    """The subgraphs of a registry as expansion asks for them; it notes those it has made."""

    def __init__(self, registry: Registry, opened: frozenset[Path] | None) -> None:
        self._registry = registry
        self._opened = opened
        self._paths: dict[str, Path] = {}
        self._package = ""
        self.groups: dict[str, tuple[Path, str]] = {}

    def find_subgraph(self, name: str, package: str = "") -> Subgraph | None:
        found = self._registry.find_subgraph(name, package)
        if found is None:
            return None
        return Subgraph(found.name, self._maker(found.make), found.is_fixed, found.doc)

    def _maker(self, make: Callable[[SubgraphContext], Any]) -> Callable[[SubgraphContext], Any]:
        def noted(context: SubgraphContext) -> Any:
            inner = make(context)
            name = context.node.name
            path = self._paths[name]
            self.groups[_prefix(name)] = (path, context.node.calculator)
            self.close(inner, path, _prefix(name))
            return inner

        return noted

    def close(self, graph: Any, path: Path, prefix: str = "") -> None:
        """Name the subgraph nodes of a graph, and hide those that stay closed from expansion."""
        if not path:
            self._package = graph.package
        names = canonical_names(graph.node)
        for node, name in zip(graph.node, names, strict=True):
            if self._registry.find_subgraph(node.calculator, self._package) is None:
                continue
            if self._opened is not None and (*path, name) not in self._opened:
                node.calculator = _CLOSED + node.calculator
            self._paths[prefix + name] = (*path, name)
        # With names of their own, nodes keep them when others are replaced.
        for node, name in zip(graph.node, names, strict=True):
            node.name = name


def _prefix(name: str) -> str:
    """Return the prefix that `graph_runtime.plan.subgraph` gives to names in a subgraph node."""
    return "".join("_" if char in ". :" else char for char in name.lower()) + "__"


def _prefix_of(name: str, groups: Mapping[str, tuple[tuple[str, ...], str]]) -> str:
    """Return the prefix of the innermost subgraph node around an expanded node, or ""."""
    return max((each for each in groups if name.startswith(each)), key=len, default="")


def to_text(graph: GraphDescription, title: str) -> str:
    """Return sections with aligned columns, without empty ones."""
    name = f"{title} (type {graph.type})" if graph.type else title
    parts = [f"{name}: {_count(graph.nodes, 'node')}, {_count(graph.streams, 'stream')}"]
    parts += [
        _section("Input streams", [(_port(port), port.type) for port in graph.inputs]),
        _section("Output streams", [(_port(port), port.type) for port in graph.outputs]),
        _section(
            "Input side packets",
            [
                (side.name, side.type, "optional" if side.is_optional else "")
                for side in graph.input_side_packets
            ],
        ),
        _section("Output side packets", [(name,) for name in graph.output_side_packets]),
        _section(
            "Executors",
            [
                (
                    each.name or "(default)",
                    each.type or "chosen by the runtime",
                    f"{each.num_threads} threads" if each.num_threads > 0 else "",
                )
                for each in graph.executors
            ],
        ),
        _nodes(graph),
        _section(
            "Streams",
            [
                (
                    stream.name,
                    stream.type,
                    f"{stream.producer or ('(graph)' if stream.is_graph_input else '(nobody)')} -> "
                    f"{', '.join(stream.consumers) or '(nobody)'}",
                )
                for stream in graph.streams
            ],
        ),
    ]
    return "\n".join(part for part in parts if part) + "\n"


def _nodes(graph: GraphDescription) -> str:
    lines = ["\nNodes:"]
    shown: tuple[str, ...] = ()
    for node in graph.nodes:
        if node.group != shown and node.group:
            kind = graph.groups.get(node.group, "")
            lines.append(f"  in subgraph {'/'.join(node.group)} ({kind}):")
        shown = node.group
        lines += [("    " if node.group else "  ") + line for line in _node_lines(node)]
    return "\n".join(lines) if graph.nodes else ""


def _node_lines(node: DescribedNode) -> list[str]:
    kind = f"{node.calculator}, {node.kind}" if node.kind != "calculator" else node.calculator
    lines = [f"{node.name} ({kind})"]
    rows = [
        ("in", _port_lines(node.inputs)),
        ("out", _port_lines(node.outputs)),
        ("side in", _port_lines(node.input_side_packets)),
        ("side out", _port_lines(node.output_side_packets)),
        ("handler", node.input_stream_handler),
        ("executor", node.executor),
        ("in flight", str(node.max_in_flight) if node.max_in_flight != 1 else ""),
        ("options", " ".join(node.options.split())),
    ]
    return lines + [f"  {label:9}  {value}" for label, value in rows if value]


def _port_lines(ports: Iterable[DescribedPort]) -> str:
    return ", ".join(
        _port(port)
        + (f" ({port.type})" if port.type else "")
        + (" [back edge]" if port.is_back_edge else "")
        for port in ports
    )


def _port(port: DescribedPort) -> str:
    return f"{port.label}:{port.name}" if port.label else port.name


def _section(title: str, rows: Sequence[tuple[str, ...]]) -> str:
    if not rows:
        return ""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    lines = [
        "  " + "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join([f"\n{title}:", *(line.rstrip() for line in lines)])


def _count(things: Sequence[object], noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"
