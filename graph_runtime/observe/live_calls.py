"""`LiveCalls`: times of calls in buckets, and the last packets of chosen nodes, while they run."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from graph_runtime import timestamp as ts
from graph_runtime.observe.tracing import phase_of
from graph_runtime.packet import EMPTY, Packet
from graphrt_base.interrupts import raise_interrupt

if TYPE_CHECKING:
    from graph_runtime.authoring.context import CalculatorContext
    from graph_runtime.engine.run import Run

#: Buckets of times. The first ends at 1,024 ns, and each later one is half an octave.
BUCKETS: Final = 64
#: Packets that are kept of a chosen node.
KEPT_PACKETS: Final = 8
#: The least time between two calls of a chosen node whose packets are looked at, in nanoseconds,
#: once so many are kept.
_LOOK_EVERY: Final = 10_000_000


class SeenPacket(NamedTuple):
    """A packet that a node received or sent.

    Attributes:
        time: the timestamp, or the name of a special one.
        type: the name of the value's class.
        size: bytes of the data of a text or an array; None for others.
        shape, dtype: of an array; None for others.
        value: the value as text; None if values are not kept.
    """

    stream: str
    time: int | str
    type: str
    size: int | None
    shape: tuple[int, ...] | None
    dtype: str | None
    value: str | None


class LiveCalls:
    """A `CallObserver` for all runs of a graph. Costs some 0.2 us per call.

    Attributes:
        buckets: by node and `bucket_of`, the number of calls of process: calls of open and close
            would hide them at a node that is called once in a run.
    """

    def __init__(self, nodes: int, *, longest_value: int = 0) -> None:
        """``longest_value``: characters of a packet's value to keep; 0 keeps no values."""
        self.buckets = [[0] * BUCKETS for _ in range(nodes)]
        self._longest_value = longest_value
        self._chosen: dict[int, deque[SeenPacket]] = {}
        self._looked: dict[int, int] = {}

    def choose(self, nodes: Collection[int]) -> None:
        """Keep the last packets of these nodes, by their ids, and of no others."""
        self._chosen = {
            node: self._chosen.get(node) or deque(maxlen=KEPT_PACKETS) for node in nodes
        }

    def last_packets(self, node: int) -> list[SeenPacket]:
        """Return the last packets of a chosen node, the newest last; empty for another."""
        return list(self._chosen.get(node, ()))

    def start(self, run: Run) -> None:
        return

    def record_call(self, context: CalculatorContext, started: int, ended: int) -> None:
        node = context._node.plan.node_id
        if phase_of(context) == "process":
            self.buckets[node][bucket_of(ended - started)] += 1
        kept = self._chosen.get(node) if self._chosen else None
        if kept is not None and (
            len(kept) < KEPT_PACKETS or ended - self._looked.get(node, 0) >= _LOOK_EVERY
        ):
            self._looked[node] = ended
            kept.extend(self._received(context))
            kept.extend(self._sent(context))

    def record_flush(self, context: CalculatorContext) -> None:
        kept = self._chosen.get(context._node.plan.node_id)
        if kept is not None:
            kept.extend(self._sent(context))

    def _received(self, context: CalculatorContext) -> Iterable[SeenPacket]:
        for received in context.input_list:
            if received.packet.payload is not EMPTY:
                yield describe_packet(received.name, received.packet, self._longest_value)

    def _sent(self, context: CalculatorContext) -> Iterable[SeenPacket]:
        for shard in context.output_list:
            for packet in shard.packets[-KEPT_PACKETS:]:
                yield describe_packet(shard.stream.name, packet, self._longest_value)


def bucket_of(nanoseconds: int) -> int:
    """Return the bucket of a time: half octaves, found by the two highest bits."""
    bits = nanoseconds.bit_length()
    if bits <= 10:
        return 0
    place = (bits - 10) * 2 + (nanoseconds >> (bits - 2) & 1) - 1
    return place if place < BUCKETS else BUCKETS - 1


def describe_packet(stream: str, packet: Packet, longest_value: int = 0) -> SeenPacket:
    """Describe a packet, with up to ``longest_value`` characters of its value.

    Only texts, bytes, numbers and arrays show a value: the text of any other object is made by its
    class, which may take any time.
    """
    value = packet.payload
    size: int | None = None
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    shown: str | None = None
    if isinstance(value, str):
        size = len(value) if value.isascii() else None
        shown = value[:longest_value]
    elif isinstance(value, (bytes, bytearray, memoryview)):
        size = value.nbytes if isinstance(value, memoryview) else len(value)
        shown = bytes(value[:longest_value]).decode("utf-8", "backslashreplace")[:longest_value]
    elif isinstance(value, (bool, int, float)):
        shown = str(value)[:longest_value] if abs(value) < 1 << 64 else None
    else:
        size, shape, dtype = _array_of(value)
    if not longest_value:
        shown = None
    time = ts.SPECIAL_NAMES.get(packet.time, packet.time)
    return SeenPacket(stream, time, type(value).__name__, size, shape, dtype, shown)


def _array_of(value: Any) -> tuple[int | None, tuple[int, ...] | None, str | None]:
    """Return bytes, shape and element type of an array; None for other objects."""
    try:
        size, shape = value.nbytes, value.shape
        if isinstance(size, int) and isinstance(shape, tuple):
            return size, shape, str(getattr(value, "dtype", ""))
    except BaseException as error:  # a property of an author's class may raise anything
        raise_interrupt(error)
    return None, None, None
