"""Tools for tests of calculators and graphs: run one node, collect the packets of a stream.

::

    def test_words_are_masked() -> None:
        runner = CalculatorRunner(Redact, options=RedactOptions(words=("secret",)))
        runner.push("TEXT", "a secret", at=0)
        runner.run()
        assert runner.outputs["TEXT"].values == ["a ******"]

Source: MediaPipe ``framework/calculator_runner.h``, ``framework/tool/sink.h``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, SupportsIndex

from graph_runtime.authoring.calculator import Calculator
from graph_runtime.authoring.context import PortMap
from graph_runtime.authoring.contract import PortKey, split_key
from graph_runtime.authoring.ports import In, Out, Port, SideIn, SideOut, ports_of
from graph_runtime.authoring.service import GraphService
from graph_runtime.errors import (
    GraphConfigError,
    NotFoundError,
    RunError,
    UnavailableError,
    did_you_mean,
)
from graph_runtime.graph import CalculatorGraph
from graph_runtime.language.graph_config import new_graph_config, parse_graph_text
from graph_runtime.language.tag_map import PortNames, TagMap, parse_tag_index, port_label
from graph_runtime.options.options import OptionsType, is_options_type
from graph_runtime.packet import Packet
from graph_runtime.plan.registry import REGISTRY, Registry
from graph_runtime.timestamp import Timestamp

Place = tuple[str, int]
#: An action on the graph input of this name.
Action = Callable[[CalculatorGraph, str], None]

#: The tag of a loop through the node alone, as MediaPipe's own calculators have it.
_LOOPBACK = "LOOPBACK"
#: Distinguishes the text of a node from a registered name.
_NAME = re.compile(r"[\w.:<>]+\Z")


class Sink(list[Packet]):
    """The packets of one stream of a graph, in the order they came. Make it before the run.

    With ``observe_timestamp_bounds`` it also holds empty packets, which report how far the stream
    is settled; ``values`` and ``pairs`` leave them out.
    """

    def __init__(
        self, graph: CalculatorGraph, stream_name: str, observe_timestamp_bounds: bool = False
    ) -> None:
        """Raises NotFoundError for an unknown stream, StateError while the graph is running."""
        super().__init__()
        graph.observe_output_stream(
            stream_name, lambda _, packet: self.append(packet), observe_timestamp_bounds
        )

    @property
    def values(self) -> list[Any]:
        """The values of all packets that have one, in order."""
        return [packet.payload for packet in self if not packet.is_empty()]

    @property
    def timestamps(self) -> list[Timestamp]:
        """The timestamps of all packets, empty ones included."""
        return [packet.timestamp for packet in self]

    @property
    def pairs(self) -> list[tuple[Timestamp, Any]]:
        """(timestamp, value) of each packet that has a value."""
        return [(packet.timestamp, packet.payload) for packet in self if not packet.is_empty()]


class CalculatorRunner:
    """Runs one node: `push` its inputs, `run` it, check its outputs.

    ``calculator`` is a class, a plain function, a registered name, or the text of a node
    (``'calculator: "GateCalculator" input_stream: "ALLOW:allow" ...'``). Nothing is registered
    outside the runner.

    The node's text names the connected ports. Without a text, typed ports connect all
    required inputs, every optional input that was pushed to, and all outputs (the first of a
    ``multiple`` one). A calculator that declares its ports in ``contract`` gets the inputs that
    were pushed to, and needs ``outputs``.
    ``inputs``, ``outputs`` and ``side_outputs`` (lists of port keys) replace the choice. An input
    ``LOOPBACK`` is connected with the node's own output of this tag.

    Ports are named as in contracts: ``"TAG"``, ``0`` for an untagged one, ``("TAG", 1)``, or
    ``"TAG:1"``.

    Attributes:
        outputs: after `run`, a `Sink` for each output stream, by port.
        side_outputs: after `run`, the output side packets that were set, by port.
        counters: after `run`, the node's counters by their own names.
    """

    def __init__(
        self,
        calculator: type[Calculator] | Callable[..., Any] | str,
        *,
        options: Any = (),
        side_packets: Mapping[PortKey, Any] | None = None,
        inputs: Iterable[PortKey] | None = None,
        outputs: Iterable[PortKey] | None = None,
        side_outputs: Iterable[PortKey] | None = None,
        services: Mapping[GraphService[Any], Any] | None = None,
        registry: Registry | None = None,
    ) -> None:
        """Prepare a node.

        ``options`` is one options object (an ``@options`` dataclass or a message) or several;
        ``side_packets`` are values or packets by port; ``registry`` resolves names.

        Raises:
            GraphSyntaxError: the node's text does not parse.
            NotFoundError: no calculator of this name.
        """
        self._registry = Registry(registry or REGISTRY)
        self._node = _node_config(calculator, self._registry)
        self._class = self._registry.find_calculator(self._node.calculator)
        if self._class is None and self._registry.find_subgraph(self._node.calculator) is None:
            raise NotFoundError(
                f'Unable to find Calculator "{self._node.calculator}".'
                f"{self._registry.names_like(self._node.calculator)}"
            )
        for value in [options] if is_options_type(type(options)) else options:
            _add_options(self._node, value)
        self._side_packets = {_place(key): value for key, value in (side_packets or {}).items()}
        self._inputs = None if inputs is None else [_place(key) for key in inputs]
        self._outputs = None if outputs is None else [_place(key) for key in outputs]
        self._side_outputs = None if side_outputs is None else [_place(k) for k in side_outputs]
        self._has_ports = any(
            len(entries)
            for entries in (
                self._node.input_stream,
                self._node.output_stream,
                self._node.input_side_packet,
                self._node.output_side_packet,
            )
        )
        self._services = dict(services or {})
        self._feed: list[tuple[Place, Action]] = []
        self._headers: dict[Place, Any] = {}
        #: The timestamp after the last one that was pushed, by input.
        self._next_times: dict[Place, int] = {}
        self.outputs: PortMap[Sink] = PortMap("output stream", PortNames(()), [])
        self.side_outputs: PortMap[Packet] = PortMap("output side packet", PortNames(()), [])
        self.counters: dict[str, int] = {}

    # Inputs ---------------------------------------------------------------------------------------

    def push(self, port: PortKey, value: Any, at: SupportsIndex | None = None) -> None:
        """Queue a value at a timestamp, or a packet unchanged, for the next run.

        Packets are sent in the order of the pushes, over all ports; then all inputs are closed. An
        empty packet is a timestamp bound. A value whose class says ``only_order_counts = True``
        needs no timestamp: it comes after the last one that was pushed to the port.

        Raises:
            NotFoundError: the calculator has no such input.
            ValueError: no timestamp, or an impossible one.
        """
        if isinstance(value, Packet):
            packet = value if at is None else value.at(at)
        elif at is None and getattr(type(value), "only_order_counts", False):
            packet = Packet(value, self._next_times.get(_place(port), 0))
        elif at is None:
            raise ValueError(f"push({port!r}, ...): a value needs a timestamp, as in at=0")
        else:
            packet = Packet(value, at)
        self._next_times[_place(port)] = packet.timestamp.value + 1
        self._plan(port, lambda graph, name: graph.add_packet_to_input_stream(name, packet))

    def set_bound(self, port: PortKey, bound: SupportsIndex) -> None:
        """Promise at this point of the next run that nothing before ``bound`` will come."""
        self._plan(port, lambda graph, name: graph.set_input_stream_timestamp_bound(name, bound))

    def close_input(self, port: PortKey) -> None:
        """Close an input at this point of the next run, before the others."""
        self._plan(port, lambda graph, name: graph.close_input_stream(name))

    def set_header(self, port: PortKey, header: Any) -> None:
        """Give an input stream a header, in all runs from now on."""
        self._headers[self._input(port)] = header

    def _plan(self, port: PortKey, action: Action) -> None:
        self._feed.append((self._input(port), action))

    # Running --------------------------------------------------------------------------------------

    def run(self) -> CalculatorRunner:
        """Open the node, send it everything pushed since the last run, close it.

        Returns the runner itself. Outputs sent before an error are kept.

        Raises:
            ValidationError: the node does not fit its contract.
            RunError: side packets are missing, or the calculator failed.
        """
        with self._prepare() as prepared, prepared.graph as graph:
            graph.start_run(prepared.side_packets, prepared.headers)
            prepared.feed()
            graph.wait_until_done()
        return self

    async def run_async(self) -> CalculatorRunner:
        """`run` on the running event loop."""
        with self._prepare() as prepared:
            async with prepared.graph as graph:
                await graph.start_run_async(prepared.side_packets, prepared.headers)
                prepared.feed()
                await graph.wait_until_done_async()
        return self

    @contextmanager
    def _prepare(self) -> Iterator[_Prepared]:
        """Make one run, and afterwards collect its outputs."""
        feed, self._feed = self._feed, []
        self._next_times.clear()
        # No limit: packets of one input may have to wait for all packets of another.
        config = new_graph_config(max_queue_size=-1)
        node = config.node.add()
        node.CopyFrom(self._node)
        if not self._has_ports:
            self._connect(node, {place for place, _ in feed} | set(self._headers))
        # A loop through the node alone is closed in the graph.
        looped = set(TagMap(node.output_stream).names)
        for entry in node.input_stream:
            if entry.rpartition(":")[2] not in looped:
                config.input_stream.append(entry)
        config.input_side_packet.extend(node.input_side_packet)
        graph = CalculatorGraph(config, registry=self._registry)
        for service, value in self._services.items():
            graph.set_service_object(service, value)
        outputs = TagMap(node.output_stream)
        sinks = [Sink(graph, name) for name in outputs.names]
        self.outputs = PortMap("output stream", outputs.port_names, sinks)
        streams, sides = _names(node.input_stream), _names(node.input_side_packet)
        for place in self._side_packets:
            if place not in sides:
                raise self._no_port("input side packet", place, sides)
        try:
            yield _Prepared(
                graph,
                {sides[place]: value for place, value in self._side_packets.items()},
                {streams[place]: header for place, header in self._headers.items()},
                [(streams[place], action) for place, action in feed],
            )
        finally:
            made: dict[Place, Packet] = {}
            for place, name in _names(node.output_side_packet).items():
                with suppress(UnavailableError):
                    made[place] = graph.get_output_side_packet(name)
            self.side_outputs = PortMap(
                "output side packet", PortNames(tuple(made)), list(made.values())
            )
            prefix = f"{node.name or node.calculator}-"
            counters = graph.statistics().counters
            self.counters = {name.removeprefix(prefix): count for name, count in counters.items()}

    # Ports ----------------------------------------------------------------------------------------

    def _ports(self, kind: type[Port[Any]]) -> list[Port[Any]]:
        ports = [] if self._class is None else ports_of(self._class)
        return [port for port in ports if isinstance(port, kind)]

    def _input(self, key: PortKey) -> Place:
        """Return the place of an input; it must be one of the node's, if those are known."""
        place = _place(key)
        ports = self._ports(In)
        if self._has_ports:
            known: Iterable[Place] = TagMap(self._node.input_stream).keys
        elif self._inputs is not None:
            known = self._inputs
        elif ports and not any(port.is_multiple and port.tag == place[0] for port in ports):
            known = [(port.tag, port.index) for port in ports]
        else:
            known = [place]
        if place not in known:
            raise self._no_port("input stream", place, known)
        return place

    def _no_port(self, kind: str, place: Place, known: Iterable[Place]) -> NotFoundError:
        labels = [port_label(*each) for each in known]
        return NotFoundError(
            f"{self._node.calculator} has no {kind} {port_label(*place)}."
            f"{did_you_mean(port_label(*place), labels)} It has: {', '.join(labels) or 'none'}"
        )

    def _connect(self, node: Any, pushed: set[Place]) -> None:
        """Give the node's entries: each port to a stream of its own."""
        inputs, outputs, made = self._inputs, self._outputs, self._side_outputs
        given = set(self._side_packets)
        if inputs is None:
            inputs = _filled(pushed | _required(self._ports(In)))
        if outputs is None:
            outputs = [(port.tag, port.index) for port in self._ports(Out)]
        if made is None:
            made = [(port.tag, port.index) for port in self._ports(SideOut)]
        looped = {place for place in inputs if place[0] == _LOOPBACK and place in outputs}
        node.input_stream.extend(_entries("in", [each for each in inputs if each not in looped]))
        node.input_stream.extend(_entries("out", looped))
        node.output_stream.extend(_entries("out", outputs))
        sides = _filled(given | _required(self._ports(SideIn)))
        node.input_side_packet.extend(_entries("side_in", sides))
        node.output_side_packet.extend(_entries("side_out", made))


@dataclass
class _Prepared:
    """One run of a runner's graph, before it starts."""

    graph: CalculatorGraph
    side_packets: dict[str, Any]
    headers: dict[str, Any]
    actions: list[tuple[str, Action]]

    def feed(self) -> None:
        """Send everything that was pushed.

        Stops at an error of the graph, which ``wait_until_done`` raises.
        """
        with suppress(RunError):
            for name, action in self.actions:
                action(self.graph, name)
            self.graph.close_all_input_streams()


def _place(key: PortKey) -> Place:
    return parse_tag_index(key) if isinstance(key, str) else split_key(key)


def _required(ports: Iterable[Port[Any]]) -> set[Place]:
    return {(port.tag, port.index) for port in ports if not port.is_optional}


def _filled(places: Iterable[Place]) -> list[Place]:
    """Add the lower indexes that a tag must have."""
    highest: dict[str, int] = {}
    for tag, index in places:
        highest[tag] = max(index, highest.get(tag, 0))
    return [(tag, index) for tag in sorted(highest) for index in range(highest[tag] + 1)]


def _entries(prefix: str, places: Iterable[Place]) -> list[str]:
    return [
        f"{tag}:{index}:{prefix}_{tag.lower()}_{index}" if tag else f"{prefix}_{index}"
        for tag, index in sorted(places)
    ]


def _names(entries: Iterable[str]) -> dict[Place, str]:
    tag_map = TagMap(entries)
    return dict(zip(tag_map.keys, tag_map.names, strict=True))


def _node_config(calculator: Any, registry: Registry) -> Any:
    """A node's config from the ``calculator`` argument of a runner."""
    if not isinstance(calculator, str):
        registered = registry.register_calculator(calculator)
        return new_graph_config().node.add(calculator=registered.__name__)
    if _NAME.match(calculator):
        return new_graph_config().node.add(calculator=calculator)
    nodes = parse_graph_text(f"node {{ {calculator}\n}}", source="<node>").node
    if len(nodes) != 1:
        raise GraphConfigError(f"a runner runs one node, and this text has {len(nodes)}")
    return nodes[0]


def _add_options(node: Any, value: Any) -> None:
    kind: OptionsType[Any] = OptionsType.of(type(value))
    held = node.node_options.add()
    held.type_url = f"type.googleapis.com/{kind.full_name}"
    held.value = kind.to_message(value).SerializeToString(deterministic=True)
