"""Packets at other timestamps: repeated at ticks, shifted, put into order, counted, thinned."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import replace
from typing import Any

from calculators.core.headers import VideoHeader, copy_headers
from graph_runtime import (
    Calculator,
    CalculatorContext,
    CalculatorContract,
    Code,
    GraphError,
    In,
    Options,
    Out,
    Packet,
    SideIn,
    Stop,
    Timestamp,
    merge_options,
)
from graph_runtime import timestamp as ts
from protos import messages


class PacketClonerCalculator(Calculator):
    """Repeats the latest packet of each stream at the timestamps of a tick stream.

    Inputs:
        #i: streams of any type.
        TICK: of any type. Without this tag the last untagged stream is the tick.
    Outputs: #i: at each tick, the latest packet of input i, at the tick's timestamp; nothing
        before its first one.
    Options (mediapipe.PacketClonerCalculatorOptions):
        output_only_when_all_inputs_received: until every input had a packet, send nothing and
            promise nothing.
        output_packets_only_when_all_inputs_received: until then, send only timestamp bounds.

    ::

        node {
          calculator: "PacketClonerCalculator"
          input_stream: "slow_signal"
          input_stream: "TICK:fast_signal"
          output_stream: "slow_signal_cloned"
        }

    Source: MediaPipe ``calculators/core/packet_cloner_calculator.cc``.
    """

    options = Options(messages.PacketClonerCalculatorOptions)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        count = inputs.num_entries("")
        if inputs.has_tag("TICK"):
            inputs["TICK"].set_any()
        else:
            contract.require(
                count > 0, "there must be a tick: a stream tagged TICK, or the last one without tag"
            )
            count -= 1
            inputs[count].set_any()
        for index in range(count):
            outputs[index].set_same_as(inputs[index].set_any())
        contract.process_timestamp_bounds = True

    def open(self, cc: CalculatorContext) -> None:
        options = self.options
        self._waits_for_all = (
            options.output_only_when_all_inputs_received
            or options.output_packets_only_when_all_inputs_received
        )
        self._bounds_while_waiting = options.output_packets_only_when_all_inputs_received
        count = cc.inputs.num_entries("")
        has_tag = cc.inputs.has_tag("TICK")
        self._tick: str | int = "TICK" if has_tag else count - 1
        self._latest: list[Packet | None] = [None] * (count if has_tag else count - 1)
        copy_headers(cc)

    def process(self, cc: CalculatorContext) -> None:
        latest = self._latest
        for index in range(len(latest)):
            packet = cc.inputs[index].packet
            if not packet.is_empty():
                latest[index] = packet
        tick = cc.inputs[self._tick].packet
        is_waiting = self._waits_for_all and None in latest
        if not tick.is_empty() and not is_waiting:
            for index, known in enumerate(latest):
                if known is not None:
                    cc.outputs[index].add_packet(known.at(tick.timestamp))
        if tick.time == cc.time and (not is_waiting or self._bounds_while_waiting):
            bound = Timestamp.of(ts.next_allowed_in_stream(cc.time))
            for index in range(len(latest)):
                cc.outputs[index].set_next_timestamp_bound(bound)


class ValueOrDefaultCalculator(Calculator):
    """Fills the gaps of a stream with a default, at the timestamps of another stream.

    Inputs:
        IN: of any type. Packets at timestamps without TICK are dropped.
        TICK: of any type.
    Outputs:
        OUT: at each TICK, the packet of IN or the default.
        FLAG (bool): true where the default was used; nothing elsewhere.
    Input side packets: #0: the default, of the type of IN.
    Options: none.

    ::

        node {
          calculator: "ValueOrDefaultCalculator"
          input_stream: "IN:sometimes_missing"
          input_stream: "TICK:clock"
          input_side_packet: "default"
          output_stream: "OUT:value"
          output_stream: "FLAG:is_default"
        }

    Source: MediaPipe ``calculators/core/value_or_default_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        value = contract.inputs["IN"].set_any()
        contract.inputs["TICK"].set_any()
        contract.outputs["OUT"].set_same_as(value)
        contract.outputs["FLAG"].set(bool)
        contract.input_side_packets[0].set_same_as(value)
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        self._default = cc.input_side_packets[0]
        header = cc.inputs["IN"].header
        if not header.is_empty():
            cc.outputs["OUT"].set_header(header)

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs["TICK"].is_empty():
            return
        packet = cc.inputs["IN"].packet
        if packet.is_empty():
            packet = self._default.at(cc.input_timestamp)
            cc.outputs["FLAG"].add(True, cc.input_timestamp)
        cc.outputs["OUT"].add_packet(packet)


class SequenceShiftCalculator(Calculator):
    """Sends packet i at the timestamp of packet i + n.

    With n < 0 the first packets are dropped, with n > 0 the last ones. Only n = 0 promises anything
    beyond the packets.

    Inputs: #0, of any type.
    Outputs: #0.
    Input side packets: PACKET_OFFSET (int, optional): n, in place of the option.
    Options (mediapipe.SequenceShiftCalculatorOptions):
        packet_offset: n, default -1.
        emit_empty_packets_before_first_packet: not supported, as in MediaPipe.

    ::

        node {
          calculator: "SequenceShiftCalculator"
          input_stream: "frame"
          output_stream: "next_frame"
        }

    Source: MediaPipe ``calculators/core/sequence_shift_calculator.cc``.
    """

    input = In[Any]()
    offset = SideIn[int]("PACKET_OFFSET", optional=True)
    output = Out[Any](same_as=input)
    options = Options(messages.SequenceShiftCalculatorOptions)

    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self._offset: int = cc.side(self.offset, self.options.packet_offset)
        #: The last |n| packets. For n > 0 their values are wanted, for n < 0 their timestamps.
        self._earlier: deque[Packet] = deque()
        if self._offset == 0:
            cc.set_offset(0)
        if self._offset > 0 and self.options.emit_empty_packets_before_first_packet:
            raise GraphError(
                "emit_empty_packets_before_first_packet is not supported; leave it out",
                code=Code.INVALID_ARGUMENT,
            )

    def process(self, cc: CalculatorContext) -> None:
        packet = cc.inputs[0].packet
        if packet.is_empty():
            return
        self._earlier.append(packet)
        if len(self._earlier) > abs(self._offset):
            other = self._earlier.popleft()
            value, time = (other, packet) if self._offset > 0 else (packet, other)
            cc.outputs[0].add_packet(value.at(time.timestamp))


class PacketSequencerCalculator(Calculator):
    """Gives packets the next timestamp after the latest tick.

    Each tick settles the outputs up to its timestamp at once, so no node downstream waits for
    INPUT. A packet that comes together with a tick is sent at that tick.

    Inputs:
        INPUT:i: of any type; timestamps are ignored.
        TICK:i (optional): of any type.
    Outputs: OUTPUT:i: the packets of INPUT:i at the lowest timestamp that is not settled.
    Options: none.

    ::

        node {
          calculator: "PacketSequencerCalculator"
          input_stream: "INPUT:selection"
          input_stream: "TICK:image"
          output_stream: "OUTPUT:selection_timed"
        }

    Source: MediaPipe ``calculators/core/packet_sequencer_calculator.cc``.
    """

    inputs = In[Any]("INPUT", multiple=True, optional=True)
    ticks = In[Any]("TICK", multiple=True, optional=True)
    outputs = Out[Any]("OUTPUT", multiple=True, optional=True)

    timestamp_offset = None
    input_stream_handler = "ImmediateInputStreamHandler"

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = (
            contract.inputs.num_entries("INPUT"),
            contract.outputs.num_entries("OUTPUT"),
        )
        contract.require(
            inputs == outputs,
            f"there are {inputs} INPUT and {outputs} OUTPUT streams; their numbers must match",
        )

    def process(self, cc: CalculatorContext) -> None:
        outputs = cc.outputs.all_of("OUTPUT")
        for shard, output in zip(cc.inputs.all_of("INPUT"), outputs, strict=True):
            if not shard.is_empty():
                time = max(ts.MIN, output.next_timestamp_bound)
                output.add_packet(shard.packet.at(Timestamp.of(time)))
        tick = ts.MIN
        if any(shard.packet.time == cc.time for shard in cc.inputs.all_of("TICK")):
            tick = max(tick, cc.time)
        bound = Timestamp.of(ts.next_allowed_in_stream(tick))
        for output in outputs:
            if tick >= output.next_timestamp_bound:
                output.set_next_timestamp_bound(bound)


class CountingSourceCalculator(Calculator):
    """Sends numbers, each at the timestamp of the same value. For tests and demonstrations.

    Outputs: #0 (int).
    Input side packets, one of MAX_COUNT and ERROR_COUNT at least:
        MAX_COUNT (int): stop after this many batches.
        ERROR_COUNT (int): fail after this many batches.
        BATCH_SIZE (int): numbers per call, default 1.
        INITIAL_VALUE (int): the first number, default 0.
        INCREMENT (int): the step, at least 1, default 1.
        ERROR_ON_OPEN (bool): fail at once.
    Options: none.

    ::

        node {
          calculator: "CountingSourceCalculator"
          input_side_packet: "MAX_COUNT:count"
          output_stream: "numbers"
        }

    Source: MediaPipe ``calculators/core/counting_source_calculator.cc``.
    """

    numbers = Out[int]()
    max_count = SideIn[int]("MAX_COUNT", optional=True)
    error_count = SideIn[int]("ERROR_COUNT", optional=True)
    batch_size = SideIn[int]("BATCH_SIZE", optional=True)
    initial_value = SideIn[int]("INITIAL_VALUE", optional=True)
    increment = SideIn[int]("INCREMENT", optional=True)
    error_on_open = SideIn[bool]("ERROR_ON_OPEN", optional=True)

    timestamp_offset = None

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        sides = contract.input_side_packets
        contract.require(
            sides.has_tag("MAX_COUNT") or sides.has_tag("ERROR_COUNT"),
            "one of the input side packets MAX_COUNT and ERROR_COUNT must be connected",
        )

    def open(self, cc: CalculatorContext) -> None:
        if cc.side(self.error_on_open, False):
            raise GraphError("expected error", code=Code.NOT_FOUND)
        self._batches = 0
        self._max_count = cc.side(self.max_count, None)
        self._error_count = cc.side(self.error_count, None)
        self._batch_size = cc.side(self.batch_size, 1)
        self._number = cc.side(self.initial_value, 0)
        self._increment = cc.side(self.increment, 1)
        for name, value, lowest in (
            ("MAX_COUNT", self._max_count, 0),
            ("ERROR_COUNT", self._error_count, 0),
            ("BATCH_SIZE", self._batch_size, 1),
            ("INCREMENT", self._increment, 1),
        ):
            if value is not None and value < lowest:
                raise GraphError(
                    f"{name} is {value}; it must be at least {lowest}", code=Code.INTERNAL
                )

    def process(self, cc: CalculatorContext) -> None:
        if self._error_count is not None and self._batches >= self._error_count:
            raise GraphError("expected error", code=Code.INTERNAL)
        if self._max_count is not None and self._batches >= self._max_count:
            raise Stop
        for _ in range(self._batch_size):
            cc.output_list[0].add(self._number, self._number)
            self._number += self._increment
        self._batches += 1


# PacketThinnerCalculatorOptions.ThinnerType
_ASYNC = 1


class PacketThinnerCalculator(Calculator):
    """Drops packets so that at most one is left per period.

    ASYNC: after a packet is sent, packets of the following period are dropped. SYNC: periods are
    centred at start_time + i * period; of each, the packet nearest to the centre is sent (of two
    equally near, the later).

    Inputs: #0, of any type.
    Outputs: #0: the packets that are left.
    Input side packets:
        PERIOD (int, optional): in place of the option.
        OPTIONS (optional): PacketThinnerCalculatorOptions or CalculatorOptions, merged over the
            node's.
    Options (mediapipe.PacketThinnerCalculatorOptions):
        thinner_type: ASYNC (default) or SYNC.
        period: microseconds, at least 1.
        start_time, end_time: only packets in start_time <= t < end_time. SYNC counts from 0 when
            start_time is not given.
        sync_output_timestamps: SYNC sends packets at the centres (default true), or at their own
            timestamps.
        update_frame_rate: pass the stream's VideoHeader with its new frame rate.

    ::

        node {
          calculator: "PacketThinnerCalculator"
          input_stream: "frames"
          output_stream: "some_frames"
          options {
            [mediapipe.PacketThinnerCalculatorOptions.ext] { thinner_type: SYNC period: 1000000 }
          }
        }

    Source: MediaPipe ``calculators/core/packet_thinner_calculator.cc``.
    """

    options = Options(messages.PacketThinnerCalculatorOptions)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.outputs[0].set_same_as(contract.inputs[0].set_any())
        contract.input_side_packets["OPTIONS"].set_any().optional()
        contract.input_side_packets["PERIOD"].set(int).optional()

    def open(self, cc: CalculatorContext) -> None:
        sides = cc.input_side_packets
        options = self.options
        if sides.has_tag("OPTIONS"):
            options = merge_options(options, sides["OPTIONS"].value)
        self._is_async = options.thinner_type == _ASYNC
        self._period: int = sides["PERIOD"].value if sides.has_tag("PERIOD") else options.period
        _require(
            self._period > 0,
            f"Specified period must be positive: it is {self._period} microseconds",
        )
        self._start = ts.MIN if self._is_async else 0
        if options.HasField("start_time"):
            self._start = int(Timestamp(options.start_time))
        self._end = int(Timestamp(options.end_time)) if options.HasField("end_time") else ts.MAX
        _require(
            self._start < self._end,
            f"start_time must be earlier than end_time: they are {self._start} and {self._end}",
        )
        self._uses_centres = options.sync_output_timestamps
        #: ASYNC: packets before this are dropped.
        self._next = self._start
        #: SYNC: the best packet of the current period.
        self._best: Packet | None = None
        output = cc.outputs[0]
        if self._is_async:
            output.set_offset(0)
        output.set_next_timestamp_bound(Timestamp.of(self._start))
        header = cc.inputs[0].header
        if not header.is_empty():
            output.set_header(
                Packet(self._slower(header.value, options.period))
                if options.update_frame_rate
                else header
            )

    def process(self, cc: CalculatorContext) -> None:
        output = cc.outputs[0]
        if cc.time >= self._end:
            if not output.is_closed:
                self._send_best(cc)
                output.close()
        elif cc.time >= self._start and not cc.inputs[0].is_empty():
            if self._is_async:
                self._thin_async(cc)
            else:
                self._thin_sync(cc)

    def close(self, cc: CalculatorContext) -> None:
        self._send_best(cc)

    def _thin_async(self, cc: CalculatorContext) -> None:
        if cc.time >= self._next:
            cc.outputs[0].add_packet(cc.inputs[0].packet)
            self._next = ts.clamp(cc.time + self._period)
            cc.outputs[0].set_next_timestamp_bound(Timestamp.of(self._next))

    def _thin_sync(self, cc: CalculatorContext) -> None:
        packet, output = cc.inputs[0].packet, cc.outputs[0]
        best = self._best
        centre = self._centre(packet.time)
        if best is not None and self._centre(best.time) == centre:
            if abs(packet.time - centre) <= abs(best.time - centre):
                self._best = packet
            return
        self._send_best(cc)
        output.set_next_timestamp_bound(centre if self._uses_centres else packet.time)
        self._best = packet

    def _send_best(self, cc: CalculatorContext) -> None:
        best, self._best = self._best, None
        if best is not None:
            time = self._centre(best.time) if self._uses_centres else best.time
            cc.outputs[0].add_packet(best.at(time))

    def _centre(self, time: int) -> int:
        """Return the centre of the period that ``time`` is in."""
        periods = (time - self._start + self._period // 2) // self._period
        return self._start + periods * self._period

    def _slower(self, header: VideoHeader, period: int) -> VideoHeader:
        """Return the header with the reduced frame rate."""
        if self._is_async:
            rate = header.frame_rate / math.ceil(header.frame_rate * period / 1e6)
        else:
            rate = min(header.frame_rate, 1e6 / period)
        return replace(header, frame_rate=rate)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise GraphError(message, code=Code.INVALID_ARGUMENT)
