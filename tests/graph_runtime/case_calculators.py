"""The calculators that the conformance cases name, as their README specifies them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    Packet,
    Registry,
    Stop,
    Timestamp,
)
from graph_runtime import timestamp as ts

NAMES = {**ts.SPECIAL_NAMES}


def text(time: int) -> str:
    return NAMES.get(time, str(int(time)))


class Declared(Calculator):
    """Declares untagged ports by class attributes."""

    source: Any = None
    target: Any = "same"
    offset: int | None = None
    bounds = False
    handler = ""

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        for key in contract.inputs:
            contract.inputs[key].set(cls.source or Any)
        for place, key in enumerate(contract.outputs):
            if cls.target == "same":
                contract.outputs[key].set_same_as(contract.inputs[place])
            else:
                contract.outputs[key].set(cls.target)
        contract.timestamp_offset = cls.offset
        contract.process_timestamp_bounds = cls.bounds
        contract.input_stream_handler = cls.handler


def simple(
    name: str,
    step: Callable[[CalculatorContext], None],
    *,
    source: Any = None,
    target: Any = "same",
    offset: int | None = None,
    opening: Callable[[CalculatorContext], None] | None = None,
) -> type[Calculator]:
    def process(self: Any, cc: CalculatorContext) -> None:
        step(cc)

    def open_(self: Any, cc: CalculatorContext) -> None:
        if opening is not None:
            opening(cc)

    return type(
        name,
        (Declared,),
        {"process": process, "open": open_, "source": source, "target": target, "offset": offset},
    )


def add_all(cc: CalculatorContext) -> None:
    if any(shard.is_empty() for shard in cc.input_list):
        raise GraphError("TestIntAdder: empty input", code=Code.INTERNAL)
    cc.outputs[0].add(sum(shard.value for shard in cc.input_list), cc.input_timestamp)


def mapped(function: Callable[[Any], Any]) -> Callable[[CalculatorContext], None]:
    return lambda cc: cc.outputs[0].add(function(cc.inputs[0].value), cc.input_timestamp)


def forward(cc: CalculatorContext) -> None:
    cc.outputs[0].add_packet(cc.inputs[0].packet)


def bound_past(cc: CalculatorContext) -> None:
    cc.outputs[0].set_next_timestamp_bound(cc.input_timestamp.next_allowed_in_stream())


def nothing(cc: CalculatorContext) -> None:
    return None


def forward_even(cc: CalculatorContext) -> None:
    if cc.inputs[0].value % 2 == 0:
        forward(cc)


def filter_even(cc: CalculatorContext) -> None:
    forward(cc) if cc.inputs[0].value % 2 == 0 else bound_past(cc)


def future(cc: CalculatorContext) -> None:
    cc.outputs[0].add_packet(cc.inputs[0].packet.at(cc.input_timestamp + 3))


def empty_packet(cc: CalculatorContext) -> None:
    if cc.time % 2 == 0:
        cc.outputs[0].add_packet(Packet.empty(cc.input_timestamp))


def delayed(cc: CalculatorContext) -> None:
    cc.outputs[0].add_packet(cc.inputs[0].packet.at(cc.input_timestamp.next_allowed_in_stream()))


def delayed_20(cc: CalculatorContext) -> None:
    cc.outputs[0].add_packet(cc.inputs[0].packet.at(cc.input_timestamp + 20))


def fail_at_nine(cc: CalculatorContext) -> None:
    if cc.time == 9:
        raise GraphError("Meant to fail (magicstringincludedhere).")
    forward(cc)


def set_offset_then_forward(cc: CalculatorContext) -> None:
    cc.set_offset(0)
    forward(cc)


def fail_open(cc: CalculatorContext) -> None:
    raise GraphError("expected open error", code=Code.INTERNAL)


def side_from_stream(cc: CalculatorContext) -> None:
    cc.output_side_packets[0].set(cc.inputs[0].value)


def side_with_timestamp(cc: CalculatorContext) -> None:
    cc.output_side_packets[0].set(cc.inputs[0].packet)


def zero_at(time: Timestamp) -> Callable[[CalculatorContext], None]:
    return lambda cc: cc.outputs[0].add(0, time)


class TestOutputAndBoundSource(Declared):
    target = int

    def open(self, cc: CalculatorContext) -> None:
        self.count = 0

    def process(self, cc: CalculatorContext) -> None:
        if self.count % 20 == 0:
            cc.outputs[0].add(self.count // 20, self.count)
        else:
            cc.outputs[0].set_next_timestamp_bound(self.count)
        self.count += 10
        if self.count > 100:
            raise Stop


class TestLastPacket(Declared):
    target = Any

    def open(self, cc: CalculatorContext) -> None:
        self.last: Packet | None = None

    def process(self, cc: CalculatorContext) -> None:
        cc.outputs[0].set_next_timestamp_bound(cc.input_timestamp)
        self.last = cc.inputs[0].packet

    def close(self, cc: CalculatorContext) -> None:
        if self.last is not None:
            cc.outputs[0].add_packet(self.last)


class TestPacketOnClose(Declared):
    source = target = int

    def open(self, cc: CalculatorContext) -> None:
        cc.set_offset(0)
        self.total = 0

    def process(self, cc: CalculatorContext) -> None:
        self.total += cc.inputs[0].value
        forward(cc)

    def close(self, cc: CalculatorContext) -> None:
        cc.outputs[0].add(self.total, Timestamp.MAX)


class TestSummary(Calculator):
    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["IN"].set(int)
        contract.outputs["SUMMARY"].set(int)
        contract.input_stream_handler = "ImmediateInputStreamHandler"
        contract.process_timestamp_bounds = True

    def open(self, cc: CalculatorContext) -> None:
        self.values: list[int] = []
        self.is_closed = False

    def process(self, cc: CalculatorContext) -> None:
        if self.is_closed:
            return
        shard = cc.inputs["IN"]
        if not shard.is_empty():
            self.values.append(shard.value)
        if shard.is_done or cc.time >= ts.MAX or cc.time == ts.PRESTREAM:
            if self.values:
                cc.outputs["SUMMARY"].add(sum(self.values), Timestamp.MAX)
            cc.outputs["SUMMARY"].close()
            self.is_closed = True


class TestTimestamps(Declared):
    target = str

    def process(self, cc: CalculatorContext) -> None:
        for shard, output in zip(cc.input_list, cc.output_list, strict=True):
            kind = "bound" if shard.is_empty() else "packet"
            output.add(f"{kind} {text(shard.packet.time)}", cc.input_timestamp)


class TestBoundsToPackets(Declared):
    target = str
    bounds = True
    handler = "ImmediateInputStreamHandler"

    def process(self, cc: CalculatorContext) -> None:
        for shard, output in zip(cc.input_list, cc.output_list, strict=True):
            time = shard.packet.time
            if time == cc.time and time >= output.next_timestamp_bound:
                output.add("bound" if shard.is_empty() else "packet", Timestamp.of(time))


class TestImmediatePassthrough(Declared):
    bounds = True
    handler = "ImmediateInputStreamHandler"

    def process(self, cc: CalculatorContext) -> None:
        for shard, output in zip(cc.input_list, cc.output_list, strict=True):
            if not shard.is_empty():
                output.add_packet(shard.packet)
            else:
                bound = ts.next_allowed_in_stream(shard.packet.time)
                if bound > output.next_timestamp_bound:
                    output.set_next_timestamp_bound(Timestamp.of(bound))


class Numbered(Declared):
    """Emits one string per call, at 0, 1, 2, ..."""

    target = str

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        for key in contract.inputs:
            contract.inputs[key].set_any()
        contract.outputs[0].set(str)

    def open(self, cc: CalculatorContext) -> None:
        self.number = 0

    def say(self, cc: CalculatorContext, line: str) -> None:
        cc.outputs[0].add(line, self.number)
        self.number += 1


class TestInputSets(Numbered):
    def process(self, cc: CalculatorContext) -> None:
        ids = [str(i) for i, shard in enumerate(cc.input_list) if not shard.is_empty()]
        self.say(cc, f"{text(cc.time)}|{','.join(ids)}")


def shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


class TestCollect(Numbered):
    def process(self, cc: CalculatorContext) -> None:
        values = ["-" if shard.is_empty() else shown(shard.value) for shard in cc.input_list]
        self.say(cc, f"{text(cc.time)}|{','.join(values)}")


class TestDescribe(Declared):
    target = str

    def process(self, cc: CalculatorContext) -> None:
        values = ["empty" if shard.is_empty() else shown(shard.value) for shard in cc.input_list]
        cc.outputs[0].add(f"Timestamp({text(cc.time)}) {' '.join(values)}", cc.input_timestamp)


class TestIntSink(Declared):
    source = int

    def process(self, cc: CalculatorContext) -> None:
        return None


class TestStringSource(Declared):
    target: Any = str

    def process(self, cc: CalculatorContext) -> None:
        cc.outputs[0].add("", Timestamp.POSTSTREAM)
        raise Stop


class TestAnyStringSource(TestStringSource):
    target = Any


class TestInputTimestampProbe(Numbered):
    def open(self, cc: CalculatorContext) -> None:
        super().open(cc)
        self.say(cc, f"open {text(cc.time)}")

    def process(self, cc: CalculatorContext) -> None:
        self.say(cc, f"process {text(cc.time)}")
        if not cc.input_list:
            raise Stop

    def close(self, cc: CalculatorContext) -> None:
        self.say(cc, f"close {text(cc.time)}")


class TestFailOnClose(Declared):
    def process(self, cc: CalculatorContext) -> None:
        return None

    def close(self, cc: CalculatorContext) -> None:
        raise GraphError("expected close error", code=Code.INTERNAL)


class TestFirstPacketFilter(Declared):
    def open(self, cc: CalculatorContext) -> None:
        self.is_first = True

    def process(self, cc: CalculatorContext) -> None:
        if self.is_first:
            self.is_first = False
            forward(cc)
            cc.outputs[0].close()


class TestStopAfter(Declared):
    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        super().contract(contract)
        contract.input_side_packets["COUNT"].set(int)

    def open(self, cc: CalculatorContext) -> None:
        self.left = cc.input_side_packets["COUNT"].value

    def process(self, cc: CalculatorContext) -> None:
        forward(cc)
        self.left -= 1
        if self.left == 0:
            raise Stop


class SideMaker(Declared):
    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        for key in contract.inputs:
            contract.inputs[key].set_any()
        for key in contract.input_side_packets:
            contract.input_side_packets[key].set(int)
        contract.output_side_packets[0].set(cls.target)


class TestSideFromStream(SideMaker):
    target = Any

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs[0].set_any()
        contract.output_side_packets[0].set_same_as(contract.inputs[0])

    def process(self, cc: CalculatorContext) -> None:
        side_from_stream(cc)


class TestSideWithTimestamp(TestSideFromStream):
    def process(self, cc: CalculatorContext) -> None:
        side_with_timestamp(cc)


class TestCountSideInClose(SideMaker):
    target = int

    def open(self, cc: CalculatorContext) -> None:
        self.count = 0

    def process(self, cc: CalculatorContext) -> None:
        self.count += 1

    def close(self, cc: CalculatorContext) -> None:
        cc.output_side_packets[0].set(self.count)


class TestSideAdder(SideMaker):
    target = int

    def open(self, cc: CalculatorContext) -> None:
        total = sum(packet.value for packet in cc.input_side_packets.in_order)
        cc.output_side_packets[0].set(total)

    def process(self, cc: CalculatorContext) -> None:
        raise GraphError("a node without streams is never processed")


class TestOptionalSide(Calculator):
    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["SELECT"].set(int).optional()
        contract.inputs["ENABLE"].set(bool).optional()
        contract.input_side_packets["SIDEINPUT"].set(str).optional()
        contract.outputs["OUTPUT"].set(str).optional()

    def process(self, cc: CalculatorContext) -> None:
        has_side = cc.input_side_packets.has_tag("SIDEINPUT")
        value = cc.input_side_packets["SIDEINPUT"].value if has_side else "default"
        cc.outputs["OUTPUT"].add(value, cc.input_timestamp)


class TestDemuxTimed(Calculator):
    offset: int | None = 0

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["SELECT"].set(int)
        contract.inputs["INPUT"].set_any()
        for key in contract.outputs:
            contract.outputs[key].set_same_as(contract.inputs["INPUT"])
        contract.timestamp_offset = cls.offset

    def process(self, cc: CalculatorContext) -> None:
        selected = cc.inputs["SELECT"].value
        for place, output in enumerate(cc.output_list):
            if place == selected:
                output.add_packet(cc.inputs["INPUT"].packet)
            else:
                output.set_next_timestamp_bound(cc.input_timestamp.next_allowed_in_stream())


class TestDemuxUntimed(TestDemuxTimed):
    offset = None

    def process(self, cc: CalculatorContext) -> None:
        output = cc.outputs["OUTPUT", cc.inputs["SELECT"].value]
        if cc.inputs["INPUT"].is_empty():
            output.set_next_timestamp_bound(cc.input_timestamp.next_allowed_in_stream())
        else:
            output.add_packet(cc.inputs["INPUT"].packet)


class TestDroppingGate(Calculator):
    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs[0].set_any()
        contract.inputs["DISALLOW"].set(bool)
        contract.outputs[0].set_same_as(contract.inputs[0])

    def process(self, cc: CalculatorContext) -> None:
        control = cc.inputs["DISALLOW"]
        if not cc.inputs[0].is_empty() and not (not control.is_empty() and control.value):
            forward(cc)


class TestDecimator(Declared):
    def open(self, cc: CalculatorContext) -> None:
        self.count = 0

    def process(self, cc: CalculatorContext) -> None:
        if self.count % 5 == 0:
            forward(cc)
        self.count += 1


class TestDecodeStep(Calculator):
    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.inputs["IN"].set(str)
        contract.inputs["LOOPBACK"].set(int).optional()
        contract.input_side_packets["STEPS"].set(int)
        contract.outputs["OUT"].set(str)
        contract.outputs["LOOPBACK"].set(int)

    def open(self, cc: CalculatorContext) -> None:
        self.time = 0

    def _emit(self, cc: CalculatorContext, line: str, left: int) -> None:
        cc.outputs["OUT"].add(line, self.time)
        cc.outputs["LOOPBACK"].add(left, self.time + 1)
        self.time += 1

    def process(self, cc: CalculatorContext) -> None:
        if not cc.inputs["IN"].is_empty():
            steps = cc.input_side_packets["STEPS"].value
            self._emit(cc, f"prompt:{cc.inputs['IN'].value}", steps)
        elif "LOOPBACK" in cc.inputs and not cc.inputs["LOOPBACK"].is_empty():
            left = cc.inputs["LOOPBACK"].value
            if left > 0:
                self._emit(cc, f"tok:{left}", left - 1)


_SIMPLE = {
    "TestIntAdder": simple("TestIntAdder", add_all, source=int, target=int, offset=0),
    "TestMultiplyInt": simple(
        "TestMultiplyInt", mapped(lambda v: v * 10), source=int, target=int, offset=0
    ),
    "TestSquareInt": simple(
        "TestSquareInt", mapped(lambda v: v * v), source=int, target=int, offset=0
    ),
    "TestIntToFloat": simple("TestIntToFloat", mapped(float), source=int, target=float, offset=0),
    "TestEvenIntFilter": simple("TestEvenIntFilter", filter_even, source=int, target=int),
    "TestDropOdd": simple("TestDropOdd", forward_even, source=int, target=int),
    "TestOffsetBound": simple("TestOffsetBound", nothing, offset=0),
    "TestNoOutput": simple("TestNoOutput", nothing),
    "TestCustomBound": simple("TestCustomBound", bound_past),
    "TestFuturePacket": simple("TestFuturePacket", future),
    "TestEmptyPacket": simple("TestEmptyPacket", empty_packet),
    "TestUnitDelay": simple(
        "TestUnitDelay", delayed, source=int, target=int, opening=zero_at(Timestamp(0))
    ),
    "TestUnitDelayUntimed": simple(
        "TestUnitDelayUntimed", forward, source=int, target=int, opening=zero_at(Timestamp.MIN)
    ),
    "TestDelay20": simple(
        "TestDelay20", delayed_20, source=int, target=int, offset=20, opening=zero_at(Timestamp(0))
    ),
    "TestFailOnOpen": simple("TestFailOnOpen", forward, opening=fail_open),
    "TestFailOnProcess": simple("TestFailOnProcess", fail_at_nine),
    "TestSetOffsetInProcess": simple("TestSetOffsetInProcess", set_offset_then_forward),
}

_CLASSES = (
    TestOutputAndBoundSource,
    TestLastPacket,
    TestPacketOnClose,
    TestSummary,
    TestTimestamps,
    TestBoundsToPackets,
    TestImmediatePassthrough,
    TestInputSets,
    TestCollect,
    TestDescribe,
    TestIntSink,
    TestStringSource,
    TestAnyStringSource,
    TestInputTimestampProbe,
    TestFailOnClose,
    TestFirstPacketFilter,
    TestStopAfter,
    TestSideFromStream,
    TestSideWithTimestamp,
    TestCountSideInClose,
    TestSideAdder,
    TestOptionalSide,
    TestDemuxTimed,
    TestDemuxUntimed,
    TestDroppingGate,
    TestDecimator,
    TestDecodeStep,
)


def register_case_calculators(registry: Registry) -> None:
    """All of them, under the names that the cases use."""
    for name, cls in _SIMPLE.items():
        registry.register_calculator(cls, name)
    for cls in _CLASSES:
        registry.register_calculator(cls)
