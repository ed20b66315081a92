"""Everything that a call of ``open``, ``process`` or ``close`` may touch.

Source: MediaPipe ``framework/calculator_context.h``, ``input_stream_shard.h``,
``output_stream_shard.h``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, SupportsIndex, TypeVar, overload

from graph_runtime import timestamp as ts
from graph_runtime.authoring.contract import PortKey, options_of_node, split_key
from graph_runtime.authoring.packet_type import PacketType
from graph_runtime.authoring.ports import In, Out, SideIn, SideOut, ports_of
from graph_runtime.authoring.service import GraphService
from graph_runtime.errors import (
    Code,
    GraphError,
    NotFoundError,
    PacketTypeError,
    StateError,
    TimestampError,
)
from graph_runtime.language.tag_map import PortNames
from graph_runtime.packet import EMPTY, Packet, packet_at
from graph_runtime.timestamp import Timestamp

if TYPE_CHECKING:
    from graph_runtime.engine.node import Node
    from graph_runtime.streams.output_stream import OutputStream

T = TypeVar("T")
D = TypeVar("D")
P = TypeVar("P")

NO_PACKET: Final = packet_at(EMPTY, ts.UNSET)
_RAISE: Final[Any] = object()
# Names of the module are faster to look up than attributes of another.
_MIN: Final = ts.MIN
_MAX: Final = ts.MAX


class PortMap(dict[PortKey, P], Generic[P]):
    """Ports by key: ``ports["TAG"]``, ``ports[0]`` (untagged), ``ports["TAG", 2]``.

    Iterate over ``in_order``, which has each port once, by id.
    """

    __slots__ = ("in_order", "kind", "places")

    def __init__(self, kind: str, names: PortNames, items: list[P]) -> None:
        """``items``: one per name, by id."""
        self.kind = kind
        self.places = names.places
        self.in_order = items
        for key, place in names.ids.items():
            self[key] = items[place]

    def __missing__(self, key: PortKey) -> P:
        names = ", ".join(f"{tag}:{index}" for tag, index in self.places) or "none"
        raise NotFoundError(f"this node has no {self.kind} {key!r}; it has: {names}")

    def has_tag(self, tag: str) -> bool:
        """Return True if there is a port with this tag."""
        return (tag, 0) in self

    def tags(self) -> list[str]:
        """Return the distinct tags, sorted."""
        return list(dict.fromkeys(tag for tag, _ in self.places))

    def num_entries(self, tag: str | None = None) -> int:
        """Return the number of ports, with this tag or in all."""
        if tag is None:
            return len(self.in_order)
        return sum(1 for key_tag, _ in self.places if key_tag == tag)

    def all_of(self, tag: str) -> list[P]:
        """Return the ports of one tag, by index."""
        return [self[tag, index] for index in range(self.num_entries(tag))]


class InputStreamShard:
    """One input stream during one call.

    ``packet`` is the packet at the input timestamp; without one it is an empty packet stamped with
    the last settled timestamp of the stream. ``is_done``: nothing more will come.
    """

    __slots__ = ("header", "is_done", "name", "packet")

    def __init__(self, name: str, header: Packet) -> None:
        self.name = name
        self.packet: Packet = NO_PACKET
        self.header = header
        self.is_done = False

    @property
    def value(self) -> Any:
        """The packet's value.

        Raises:
            StateError: there is no packet at this timestamp.
        """
        payload = self.packet.payload
        if payload is EMPTY:
            raise StateError(
                f'input stream "{self.name}" has no packet at this timestamp; ask is_empty() first'
            )
        return payload

    def is_empty(self) -> bool:
        """Return True if there is no packet at the input timestamp."""
        return self.packet.payload is EMPTY


class OutputStreamShard:
    """The packets and bound that one call sends on one output stream, propagated when it returns.

    A packet of the wrong type, after the close, or at an impossible timestamp raises at once, and
    so fails the call.
    """

    __slots__ = ("closed", "packets", "stream", "updated_bound")

    def __init__(self, stream: OutputStream) -> None:
        self.stream = stream
        self.packets: list[Packet] = []
        #: The bound that this call has set, UNSET until it does.
        self.updated_bound = ts.UNSET
        self.closed = False

    def reset(self) -> None:
        """Make ready for a call."""
        self.packets = []
        self.updated_bound = ts.UNSET
        self.closed = self.stream.closed

    @property
    def name(self) -> str:
        """The stream's name in the graph."""
        return self.stream.name

    def add_packet(self, packet: Packet) -> None:
        """Send a packet at its own timestamp; an empty one is a timestamp bound.

        Raises:
            StateError: the stream is closed.
            TimestampError: the packet's timestamp may not stand in a stream.
            PacketTypeError: the stream is declared with another type.
        """
        time = packet.time
        payload = packet.payload
        if self.closed:
            raise StateError(f'Packet sent to closed stream "{self.stream.name}".')
        if payload is EMPTY:
            self.set_next_timestamp_bound(Timestamp.of(ts.next_allowed_in_stream(time)))
            return
        if _MIN <= time < _MAX:
            bound = time + 1
        elif ts.PRESTREAM <= time <= ts.POSTSTREAM:
            bound = ts.next_allowed_in_stream(time)
        else:
            raise TimestampError(
                f'In stream "{self.stream.name}", timestamp not specified or set to illegal value: '
                f"{ts.debug_string(time)}"
            )
        checker = self.stream.checker
        if (
            checker is not None
            and type(payload) is not checker.quick
            and not checker.accepts(payload)
        ):
            raise checker.refusal(self.stream.name, payload)
        # That timestamps grow is checked by the receivers: not every handler wants it.
        self.packets.append(packet)
        self.updated_bound = bound

    def add(self, value: Any, timestamp: SupportsIndex) -> None:
        """Send a value at a timestamp."""
        self.add_packet(packet_at(value, ts.as_value(timestamp)))

    def set_next_timestamp_bound(self, bound: SupportsIndex) -> None:
        """Promise that no packet before ``bound`` will come.

        Raises:
            TimestampError: not a value that a stream can have next.
        """
        value = ts.as_value(bound)
        if not ts.PRESTREAM <= value <= ts.ONE_OVER_POSTSTREAM:
            raise TimestampError(
                f'In stream "{self.stream.name}", timestamp bound set to illegal value: '
                f"{ts.debug_string(value)}"
            )
        self.updated_bound = value

    @property
    def next_timestamp_bound(self) -> Timestamp:
        """The smallest timestamp that may still be sent."""
        updated = self.updated_bound
        return Timestamp.of(self.stream.bound if updated == ts.UNSET else updated)

    def close(self) -> None:
        """Close the stream. Takes effect when the call returns."""
        self.closed = True
        self.updated_bound = ts.DONE

    @property
    def is_closed(self) -> bool:
        """True after `close`, and when the stream is closed already."""
        return self.closed

    def set_offset(self, offset: int) -> None:
        """Promise that every call at t settles this stream up to t + offset. Only in ``open``.

        Raises:
            StateError: called outside ``open``.
        """
        if self.stream.is_locked:
            raise StateError(
                f'SetOffset must be called from Calculator::Open(). Stream: "{self.stream.name}".'
            )
        self.stream.offset = offset

    def set_header(self, header: Packet) -> None:
        """Set the header packet, which receivers can read in their ``open``. Only in ``open``.

        Raises:
            StateError: called outside ``open``, or after the close.
        """
        if self.closed:
            raise StateError(
                "SetHeader must be called before the stream is closed. "
                f'Stream: "{self.stream.name}".'
            )
        if self.stream.is_locked:
            raise StateError(
                f'SetHeader must be called from Calculator::Open(). Stream: "{self.stream.name}".'
            )
        self.stream.header = header


class OutputSidePacket:
    """A side packet that a node makes. Set once, in any of its calls."""

    __slots__ = ("_on_set", "checker", "name", "packet")

    def __init__(
        self, name: str, checker: PacketType | None, on_set: Callable[[OutputSidePacket], None]
    ) -> None:
        self.name = name
        self.checker = checker
        self.packet: Packet = NO_PACKET
        self._on_set = on_set

    def set(self, packet: Packet | Any) -> None:
        """Set the packet, or a bare value.

        Raises:
            GraphError: set already (ALREADY_EXISTS); empty; with a timestamp.
            PacketTypeError: declared with another type.
        """
        if not isinstance(packet, Packet):
            packet = Packet(packet)
        if self.packet is not NO_PACKET:
            raise GraphError(
                f'Output side packet "{self.name}" was already set.', code=Code.ALREADY_EXISTS
            )
        if packet.payload is EMPTY:
            raise GraphError(
                f'Empty packet set on output side packet "{self.name}".',
                code=Code.INVALID_ARGUMENT,
            )
        if packet.time != ts.UNSET:
            raise GraphError(
                f'Output side packet "{self.name}" has a timestamp {ts.debug_string(packet.time)}.',
                code=Code.INVALID_ARGUMENT,
            )
        if self.checker is not None:
            try:
                self.checker.validate(packet.payload)
            except PacketTypeError as error:
                raise PacketTypeError(
                    f'Packet type mismatch on calculator output side packet "{self.name}": {error}',
                    code=error.code,
                ) from None
        self.packet = packet
        self._on_set(self)

    def release_cycles(self) -> None:
        """Drop the references that lead back here. Called after the run."""
        self._on_set = _no_consumer


def _no_consumer(side: OutputSidePacket) -> None:
    pass


class Counter:
    """A number that calculators count with; ``graph.statistics().counters`` shows all."""

    __slots__ = ("name", "value")

    def __init__(self, name: str) -> None:
        self.name = name
        self.value = 0

    def increment(self, amount: int = 1) -> None:
        """Add ``amount``."""
        self.value += amount


class CalculatorContext:
    """The view of a node that one call gets.

    ``inputs`` and ``outputs`` address the streams by key (`PortMap`), ``input_list`` and
    ``output_list`` by id. With typed ports, `get`, `emit` and their neighbours are shorter.
    """

    __slots__ = (
        "_node",
        "batch",
        "call",
        "graph_status",
        "input_list",
        "inputs",
        "output_list",
        "outputs",
        "time",
    )

    def __init__(
        self,
        node: Node,
        inputs: PortMap[InputStreamShard],
        outputs: PortMap[OutputStreamShard],
    ) -> None:
        self._node = node
        self.inputs = inputs
        self.outputs = outputs
        self.input_list = inputs.in_order
        self.output_list = outputs.in_order
        #: The input timestamp as plain int.
        self.time = ts.UNSTARTED
        #: In ``close``: the error that ended the run, or None.
        self.graph_status: GraphError | None = None
        #: The next call that the driver makes with this context.
        self.call: Callable[[CalculatorContext], Any] = _not_called
        #: Further input sets of the same batch, each (time, packets by id).
        self.batch: list[tuple[int, list[tuple[Packet, bool]]]] | None = None

    @property
    def input_timestamp(self) -> Timestamp:
        """UNSTARTED in ``open``, DONE in ``close``, always 0 in a source's ``process``."""
        return Timestamp.of(self.time)

    @property
    def node_name(self) -> str:
        """The node's canonical name."""
        return self._node.plan.name

    @property
    def node_id(self) -> int:
        """The node's place in the sorted graph."""
        return self._node.plan.node_id

    @property
    def calculator_type(self) -> str:
        """The calculator's name as the graph writes it."""
        return self._node.plan.calculator_type

    @property
    def input_side_packets(self) -> PortMap[Packet]:
        """The input side packets that are connected; optional ones may be missing."""
        return self._node.side_packets()

    @property
    def output_side_packets(self) -> PortMap[OutputSidePacket]:
        """The side packets that the node makes."""
        node = self._node
        names = node.plan.output_side_packets.port_names
        return PortMap("output side packet", names, node.side_outputs)

    @overload
    def options(self, options_type: type[T]) -> T: ...
    @overload
    def options(self, options_type: str) -> Any: ...
    def options(self, options_type: Any) -> Any:
        """Return the node's options as a message or dataclass of this type, or by a message's name.

        Reads them at every call: keep the result.
        """
        return options_of_node(self._node.plan.config, options_type)

    def get_counter(self, name: str) -> Counter:
        """A counter of the graph named ``<node>-<name>``."""
        return self._node.counter(f"{self.node_name}-{name}")

    def service(self, service: GraphService[T]) -> T | None:
        """Return the object of a service asked for in the contract; None if optional and missing.

        Raises:
            StateError: the contract did not ask for it.
        """
        found: T | None = self._node.service(service)
        return found

    # Typed ports ------------------------------------------------------------------------------

    @overload
    def get(self, port: In[T]) -> T: ...
    @overload
    def get(self, port: In[T], default: D) -> T | D: ...
    def get(self, port: In[Any], default: Any = _RAISE) -> Any:
        """Return the value at the input timestamp.

        Raises:
            StateError: there is none and no default was given.
        """
        try:
            key = port.key
        except AttributeError:
            raise self._no_port(port, "get") from None
        shard = self.inputs.get(key)
        if shard is not None:
            payload = shard.packet.payload
            if payload is not EMPTY:
                return payload
        if default is _RAISE:
            return self.inputs[port.key].value
        return default

    def get_all(self, port: In[T]) -> list[T | None]:
        """Return the values of a ``multiple`` port by index, None where there is no packet."""
        return [
            None if shard.packet.payload is EMPTY else shard.packet.payload
            for shard in self.inputs.all_of(port.tag)
        ]

    def take(self, port: In[T]) -> T:
        """Take the value at the input timestamp out of this call's inputs.

        MediaPipe's ``Consume``, for large values in long calls. Other nodes that get the same
        packet keep it.

        Raises:
            StateError: there is no packet at this timestamp.
        """
        shard = self.inputs[port.key]
        packet = shard.packet
        if packet.payload is EMPTY:
            return self.get(port)  # raises
        shard.packet = packet_at(EMPTY, packet.time)
        taken: T = packet.payload
        return taken

    def packet(self, port: In[Any]) -> Packet:
        """Return the packet at the input timestamp; an empty one carries the settled timestamp."""
        return self.inputs[port.key].packet

    def is_empty(self, port: In[Any]) -> bool:
        """Return True if there is no packet at this timestamp, or the port is not connected."""
        shard = self.inputs.get(port.key)
        return shard is None or shard.packet.payload is EMPTY

    def is_connected(self, port: In[Any] | Out[Any] | SideIn[Any] | SideOut[Any]) -> bool:
        """Return True if the graph connects this optional port."""
        return split_key(port.key) in getattr(self, port.kind)

    def emit(self, port: Out[T], value: T, *, at: SupportsIndex | None = None) -> None:
        """Send a value, at the input timestamp unless ``at`` is given.

        Sending to an optional port that is not connected does nothing.
        """
        try:
            key = port.key
        except AttributeError:
            raise self._no_port(port, "emit") from None
        shard = self.outputs.get(key)
        if shard is not None:
            # The input timestamp may be a special one, which `Packet` takes by its name only.
            shard.add_packet(packet_at(value, self.time) if at is None else Packet(value, at))
        elif not port.is_optional:
            self.outputs[port.key]

    def forward(self, port: Out[Any], packet: Packet) -> None:
        """Send a packet as it is, timestamp included; an empty one is a bound."""
        self.outputs[port.key].add_packet(packet)

    def set_bound(self, port: Out[Any], bound: SupportsIndex) -> None:
        """Promise that nothing before ``bound`` will be sent."""
        self.outputs[port.key].set_next_timestamp_bound(bound)

    def close(self, port: Out[Any]) -> None:
        """Close an output stream before the node closes."""
        self.outputs[port.key].close()

    def flush(self) -> None:
        """Send now what this call has sent so far, instead of when it returns.

        For calls of coroutines that take long: receivers and observers get the packets while the
        call goes on. Bounds that follow from an offset move when the call returns.

        Raises:
            StateError: the node makes calls in parallel, whose outputs are sent in the order of
                their inputs.
        """
        if self._node.is_parallel:
            raise StateError(
                f'node "{self.node_name}": flush() is not for nodes with max_in_flight above 1, '
                f"whose outputs are sent in the order of their inputs"
            )
        self._node.queue.flush(self)

    @overload
    def side(self, port: SideIn[T]) -> T: ...
    @overload
    def side(self, port: SideIn[T], default: D) -> T | D: ...
    def side(self, port: SideIn[Any], default: Any = _RAISE) -> Any:
        """Return the value of an input side packet."""
        node = self._node
        place = node.plan.input_side_packets.port_names.ids.get(port.key)
        packet = None if place is None else node.side_inputs.get(place)
        if packet is not None:
            return packet.payload  # never empty
        if default is not _RAISE:
            return default
        return self.input_side_packets[port.key].value

    def set_side(self, port: SideOut[T], value: T) -> None:
        """Set an output side packet."""
        self.output_side_packets[port.key].set(value)

    def _no_port(self, given: object, method: str) -> StateError:
        """Return the error for a call with something else than a port of the class."""
        kind = "inputs" if method == "get" else "outputs"
        ports = [each for each in ports_of(self._node.plan.calculator_class) if each.kind == kind]
        word = str(given).upper()
        meant = [each for each in ports if word in (each.tag, each.name.upper())] or ports
        names = " or ".join(f"self.{each.name}" for each in meant)
        what = f"a port of the class, {names}" if names else "a typed port"
        return StateError(
            f'cc.{method}({given!r}) takes {what}; by its tag a stream is cc.{kind}["TAG"]'
        )

    def set_offset(self, offset: int) -> None:
        """`OutputStreamShard.set_offset` for all outputs. Only in ``open``."""
        for shard in self.output_list:
            shard.set_offset(offset)


def _not_called(cc: CalculatorContext) -> None:
    raise StateError(f'node "{cc.node_name}" has nothing to run')
