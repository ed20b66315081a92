"""Calculators of random graphs as pure steps from received to sent packets.

So the same class is a node of a graph (`StepCalculator`), and predicts without a graph what the
node must send (`tests.graph_runtime.random_graphs`).
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Stop

#: A packet: (time, value).
Entry = tuple[int, int]


class Send(NamedTuple):
    """A packet on an output."""

    port: int
    time: int
    value: int


class Promise(NamedTuple):
    """A timestamp bound on an output."""

    port: int
    bound: int


class End(NamedTuple):
    """The end of an output before its node closes."""

    port: int


Sent = list[Send | Promise | End]


def mixed(*values: object) -> int:
    """Return a number that depends on all values."""
    return zlib.crc32(repr(values).encode()) % 1000


class Steps:
    """A calculator's behaviour, one call after the other.

    ``param`` makes several calculators of one class. ``place`` is the node's position in its graph.
    """

    #: As in `Calculator`.
    offset: ClassVar[int | None] = 0
    process_bounds: ClassVar[bool] = False
    #: True if calls may overlap.
    is_stateless: ClassVar[bool] = True

    def __init__(self, param: int, place: int, outputs: int) -> None:
        self.param = param
        self.place = place
        self.outputs = outputs

    def open(self) -> Sent:
        return []

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        """Process one input set; None is not a packet."""
        raise NotImplementedError

    def close(self) -> Sent:
        return []

    def offset_of_node(self) -> int | None:
        return self.offset


class Forward(Steps):
    """Sends every packet to the output of the same number."""

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        return [
            Send(port, time, value)
            for port, value in enumerate(values[: self.outputs])
            if value is not None
        ]


class SilentForward(Forward):
    """Forwards packets, and promises nothing beyond them."""

    offset = None


class Mix(Steps):
    """Combines all packets of a timestamp into one."""

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        if all(value is None for value in values):
            return []
        return [Send(port, time, mixed(port, *values)) for port in range(self.outputs)]


class BoundMix(Mix):
    """A `Mix` that is also called for settled timestamps without packets."""

    process_bounds = True


class Drop(Steps):
    """Drops about every third packet; the offset settles its timestamp."""

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        value = values[0]
        if value is None or value % 3 == self.param % 3:
            return []
        return [Send(0, time, value)]


class SilentDrop(Drop):
    """Drops packets without settling their timestamps."""

    offset = None


class PromisingDrop(Drop):
    """Drops packets and settles their timestamps by bounds."""

    offset = None

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        return super().process(time, values) or [Promise(0, time + 1)]


class Shift(Steps):
    """Moves packets in time by its offset."""

    def offset_of_node(self) -> int | None:
        return self.param

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        value = values[0]
        return [] if value is None else [Send(0, time + self.param, value)]


class Burst(Steps):
    """Sends several packets for one, at finer timestamps."""

    offset = None

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        value = values[0]
        if value is None:
            return []
        return [Send(0, 4 * time + i, value + i) for i in range(self.param % 4)]


class Count(Steps):
    """Counts the packets so far."""

    is_stateless = False

    def open(self) -> Sent:
        self.count = 0
        return []

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        if all(value is None for value in values):
            return []
        self.count += 1
        return [Send(0, time, self.count)]


class EndAfter(Steps):
    """Closes its output after some packets."""

    is_stateless = False

    def open(self) -> Sent:
        self.left = self.param % 4
        return [] if self.left else [End(0)]

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        value = values[0]
        if value is None or not self.left:
            return []
        self.left -= 1
        sent: Sent = [Send(0, time, value)]
        return sent if self.left else [*sent, End(0)]


class Summary(Steps):
    """Forwards packets, and sends their number when it closes."""

    is_stateless = False
    #: Later than all packets except other summaries.
    LATE = 2**40

    def open(self) -> Sent:
        self.count = 0
        self.next = self.LATE
        return []

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        value = values[0]
        if value is None:
            return []
        self.count += 1
        self.next = max(self.next, time + 1)
        return [Send(0, time, value)]

    def close(self) -> Sent:
        return [Send(0, self.next, self.count)]


class Opener(Forward):
    """Sends a packet when it opens, earlier than any input."""

    def open(self) -> Sent:
        return [Send(0, -(10 ** (self.place + 3)), self.param)]


class Lanes(Steps):
    """Treats each stream by itself; which packets arrive together must not matter."""

    offset = None

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        # A packet has its own time; the caller passes it along with the value.
        raise NotImplementedError("a lane is processed by process_lane")

    def process_lane(self, port: int, time: int, value: int) -> Sent:
        return [Send(port, time, mixed(port, value))]


class Bit(Steps):
    """Maps each value to 0 or 1."""

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        return [] if values[0] is None else [Send(0, time, values[0] % 2)]


class Select(Steps):
    """For the Mux handler: the last stream selects which of the others is passed on."""

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        selected = values[-1]
        if selected is None:
            return []
        value = values[selected]
        return [] if value is None else [Send(0, time, value)]


class Pair(Steps):
    """For the Barrier handler: combines the n-th packets of all streams."""

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        return [Send(0, time, mixed(*values))]


class Source(Steps):
    """Sends ``param`` packets, some after a bound, and stops."""

    is_stateless = False
    offset = None

    def open(self) -> Sent:
        self.count = 0
        return []

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        if self.count >= self.param:
            return [End(-1)]
        self.count += 1
        at = 100 + 3 * self.count
        if self.count % 4 == 0:
            return [Promise(port, at) for port in range(self.outputs)]
        return [Send(port, at, mixed(self.place, at)) for port in range(self.outputs)]


class Sink(Steps):
    """Accepts everything and sends nothing."""

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        return []


class LateDelay(Steps):
    """The other half of a running sum: sends a zero, then each packet one timestamp later."""

    offset = None
    FIRST = 100

    def open(self) -> Sent:
        return [Send(0, self.FIRST, 0)]

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        return [] if values[0] is None else [Send(0, time + 1, values[0])]


class Sum(Steps):
    """Adds the values of a timestamp."""

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        return [Send(0, time, sum(value or 0 for value in values) % 1000)]


class PlannedError(Exception):
    """The error that a node raises on purpose."""


class StepCalculator(Calculator):
    """A node of `Steps`; a subclass chooses which."""

    #: The call that fails: "open", "process", "close" or none.
    fails_in: ClassVar[str] = ""
    #: The call of process that fails, or raises Stop; 0: none.
    fails_at: ClassVar[int] = 0
    stops_at: ClassVar[int] = 0

    #: Makes Steps for a number of outputs.
    make: ClassVar[Callable[[int], Steps]]
    is_typed: ClassVar[bool] = False
    #: The call in which the node sets its output side packet, if it has one.
    sets_side_in: ClassVar[str] = "open"

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        steps = cls.make(len(contract.outputs))
        kind: Any = int if cls.is_typed else Any
        for types in (
            contract.inputs,
            contract.outputs,
            contract.input_side_packets,
            contract.output_side_packets,
        ):
            for key in types:
                types[key].set(kind)
        contract.timestamp_offset = steps.offset_of_node()
        contract.process_timestamp_bounds = steps.process_bounds

    def open(self, cc: CalculatorContext) -> Any:
        self.steps = type(self).make(len(cc.output_list))
        self.side_values = [packet.value for packet in cc.input_side_packets.in_order]
        self.packets = 0
        self.calls = 0
        self._fail("open")
        if self._sets_side(cc, "open"):
            cc.output_side_packets[0].set(self.steps.param)
        _send(cc, self.steps.open())

    def process(self, cc: CalculatorContext) -> Any:
        _process(self, cc)

    def close(self, cc: CalculatorContext) -> Any:
        self._fail("close")
        if self._sets_side(cc, "close"):
            cc.output_side_packets[0].set(self.packets)
        _send(cc, self.steps.close())

    def _fail(self, call: str) -> None:
        if self.fails_in == call and (call != "process" or self.calls == self.fails_at):
            raise PlannedError(f"planned in {call}")

    def _sets_side(self, cc: CalculatorContext, call: str) -> bool:
        return bool(cc.output_side_packets.in_order) and self.sets_side_in == call


class AsyncStepCalculator(StepCalculator):
    """`StepCalculator` with coroutines."""

    async def open(self, cc: CalculatorContext) -> None:
        await asyncio.sleep(0)
        super().open(cc)

    async def process(self, cc: CalculatorContext) -> None:
        await asyncio.sleep(0)
        _process(self, cc)

    async def close(self, cc: CalculatorContext) -> None:
        await asyncio.sleep(0)
        super().close(cc)


def _process(calculator: StepCalculator, cc: CalculatorContext) -> None:
    steps = calculator.steps
    calculator.calls += 1
    calculator._fail("process")
    values = [None if shard.is_empty() else shard.value for shard in cc.input_list]
    if cc.output_side_packets.in_order and any(value is not None for value in values):
        calculator.packets += 1
        if calculator.packets == 1 and calculator._sets_side(cc, "process"):
            cc.output_side_packets[0].set(values[0] or 0)
    if calculator.side_values and values:
        values = [None if v is None else mixed(v, *calculator.side_values) for v in values]
    if isinstance(steps, Lanes):
        for port, (shard, value) in enumerate(zip(cc.input_list, values, strict=True)):
            if value is not None:
                _send(cc, steps.process_lane(port, shard.packet.time, value))
    else:
        _send(cc, steps.process(cc.time, values))
    if calculator.calls == calculator.stops_at:
        raise Stop


def _send(cc: CalculatorContext, sent: Sent) -> None:
    for action in sent:
        if isinstance(action, Send):
            cc.output_list[action.port].add(action.value, action.time)
        elif isinstance(action, Promise):
            cc.output_list[action.port].set_next_timestamp_bound(action.bound)
        elif action.port < 0:
            raise Stop
        else:
            cc.output_list[action.port].close()
