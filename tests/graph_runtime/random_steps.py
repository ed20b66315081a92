"""Calculators of random graphs as pure steps: what is sent for what came, and nothing else.

So the same class is a node of a graph (`StepCalculator`), and tells without any graph what the node
must send (`tests.graph_runtime.random_graphs`).
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Stop

#: One packet: (time, value).
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
    """An output is closed before its node."""

    port: int


Sent = list[Send | Promise | End]


def mixed(*values: object) -> int:
    """One number that depends on all of them."""
    return zlib.crc32(repr(values).encode()) % 1000


class Steps:
    """What a calculator does, one call after the other.

    ``param`` makes one class into several calculators. ``place`` is the node's in its graph.
    """

    #: As in `Calculator`.
    offset: ClassVar[int | None] = 0
    process_bounds: ClassVar[bool] = False
    #: Calls may overlap.
    is_stateless: ClassVar[bool] = True

    def __init__(self, param: int, place: int, outputs: int) -> None:
        self.param = param
        self.place = place
        self.outputs = outputs

    def open(self) -> Sent:
        return []

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        """One input set; None is no packet."""
        raise NotImplementedError

    def close(self) -> Sent:
        return []

    def offset_of_node(self) -> int | None:
        return self.offset


class Forward(Steps):
    """Every packet to the output of the same number."""

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        return [
            Send(port, time, value)
            for port, value in enumerate(values[: self.outputs])
            if value is not None
        ]


class SilentForward(Forward):
    """Promises nothing beyond its packets."""

    offset = None


class Mix(Steps):
    """All packets of a timestamp as one."""

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        if all(value is None for value in values):
            return []
        return [Send(port, time, mixed(port, *values)) for port in range(self.outputs)]


class BoundMix(Mix):
    """The same, called for settled timestamps without packets too."""

    process_bounds = True


class Drop(Steps):
    """Every third packet or so is not passed on; the offset tells."""

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        value = values[0]
        if value is None or value % 3 == self.param % 3:
            return []
        return [Send(0, time, value)]


class SilentDrop(Drop):
    """Nobody tells."""

    offset = None


class PromisingDrop(Drop):
    """A bound tells."""

    offset = None

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        return super().process(time, values) or [Promise(0, time + 1)]


class Shift(Steps):
    """Moves packets in time, by its offset."""

    def offset_of_node(self) -> int | None:
        return self.param

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        value = values[0]
        return [] if value is None else [Send(0, time + self.param, value)]


class Burst(Steps):
    """Several packets for one, at a finer time."""

    offset = None

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        value = values[0]
        if value is None:
            return []
        return [Send(0, 4 * time + i, value + i) for i in range(self.param % 4)]


class Count(Steps):
    """How many packets there were so far."""

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
    """Forwards, and says how many packets there were when it closes."""

    is_stateless = False
    #: Later than all packets but other summaries.
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
    """Sends a packet as soon as it opens, earlier than all that can come."""

    def open(self) -> Sent:
        return [Send(0, -(10 ** (self.place + 3)), self.param)]


class Lanes(Steps):
    """Each stream for itself; what comes together must not matter."""

    offset = None

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        # The time of a packet is its own; the caller passes it as the value's partner.
        raise NotImplementedError("a lane is processed by process_lane")

    def process_lane(self, port: int, time: int, value: int) -> Sent:
        return [Send(port, time, mixed(port, value))]


class Bit(Steps):
    """0 or 1."""

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        return [] if values[0] is None else [Send(0, time, values[0] % 2)]


class Select(Steps):
    """For the Mux handler: the last stream says which of the others is passed on."""

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        selected = values[-1]
        if selected is None:
            return []
        value = values[selected]
        return [] if value is None else [Send(0, time, value)]


class Pair(Steps):
    """For the Barrier handler: the n-th packets of all streams as one."""

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
    """Takes everything, sends nothing."""

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        return []


class LateDelay(Steps):
    """The other half of a running sum: each packet one later, and a zero at the beginning."""

    offset = None
    FIRST = 100

    def open(self) -> Sent:
        return [Send(0, self.FIRST, 0)]

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        return [] if values[0] is None else [Send(0, time + 1, values[0])]


class Sum(Steps):
    """Of what there is."""

    def process(self, time: int, values: Sequence[int | None]) -> Sent:
        return [Send(0, time, sum(value or 0 for value in values) % 1000)]


class PlannedError(Exception):
    """What a node raises that was told to fail."""


class StepCalculator(Calculator):
    """A node of `Steps`; a subclass says which."""

    #: Which call fails: "open", "process", "close" or none.
    fails_in: ClassVar[str] = ""
    #: Which call of process fails, or raises Stop; 0: none.
    fails_at: ClassVar[int] = 0
    stops_at: ClassVar[int] = 0

    #: Number of outputs -> Steps.
    make: ClassVar[Callable[[int], Steps]]
    is_typed: ClassVar[bool] = False
    #: When the node sets its output side packet, if it has one.
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
    """The same as coroutines."""

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
