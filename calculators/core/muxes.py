"""Several streams as one, and one as several.

A mux chooses its input by number, `ImmediateMuxCalculator` takes what arrives first,
`MergeCalculator` what a timestamp has; `RoundRobinDemuxCalculator` deals packets out in turn.
"""

from __future__ import annotations

from typing import Any

from calculators.core.side_packets import require_one_place
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
    Timestamp,
)
from graph_runtime import timestamp as ts
from protos import messages


class MuxCalculator(Calculator):
    """Passes on the input stream whose number SELECT gives.

    With a SELECT stream the node uses MuxInputStreamHandler: only the selected stream is waited
    for, and packets of the others are dropped.

    Inputs:
        INPUT:i: streams of any type.
        SELECT (int): the number of the stream that counts at this timestamp.
    Outputs: OUTPUT: of the type of INPUT:0.
    Input side packets: SELECT (int), in place of the stream.
    Options: none.

    ::

        node {
          calculator: "MuxCalculator"
          input_stream: "INPUT:0:fast"
          input_stream: "INPUT:1:exact"
          input_stream: "SELECT:which"
          output_stream: "OUTPUT:result"
        }

    Source: MediaPipe ``calculators/core/mux_calculator.cc``.
    """

    select = In[int]("SELECT", optional=True)
    select_side = SideIn[int]("SELECT", optional=True)
    inputs = In[Any]("INPUT", multiple=True)
    output = Out[Any]("OUTPUT", same_as=inputs)

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        require_one_place(contract, "SELECT")
        if contract.inputs.has_tag("SELECT"):
            contract.input_stream_handler = "MuxInputStreamHandler"

    def open(self, cc: CalculatorContext) -> None:
        self._count = cc.inputs.num_entries("INPUT")

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs.has_tag("SELECT"):
            if cc.inputs["SELECT"].is_empty():
                return
            selected = cc.inputs["SELECT"].value
        else:
            selected = cc.input_side_packets["SELECT"].value
        if not 0 <= selected < self._count:
            raise GraphError(
                f"SELECT is {selected}, but there are {self._count} inputs: it must be in "
                f"0 <= select < {self._count}",
                code=Code.INTERNAL,
            )
        packet = cc.inputs["INPUT", selected].packet
        if not packet.is_empty():
            cc.outputs["OUTPUT"].add_packet(packet)


class ImmediateMuxCalculator(Calculator):
    """Passes packets on as they arrive, and drops packets that come too late.

    Made for ImmediateInputStreamHandler, which the node must name. The dropped packets then depend
    on the order of arrival; with MuxCalculator they do not.

    Inputs: #i: streams of one type.
    Outputs:
        #0: packets whose timestamp has not passed yet. Of packets with one timestamp, the first
            input's.
        #1 (bool, optional): true for every packet received, sent or dropped.
    Options (mediapipe.ImmediateMuxCalculatorOptions, in ``node_options`` only):
        process_timestamp_bounds: pass bounds on too: a bound on any input settles the output.

    ::

        node {
          calculator: "ImmediateMuxCalculator"
          input_stream: "a"
          input_stream: "b"
          input_stream_handler { input_stream_handler: "ImmediateInputStreamHandler" }
          output_stream: "first"
        }

    Source: MediaPipe ``calculators/core/immediate_mux_calculator.cc``.
    """

    options = Options(messages.ImmediateMuxCalculatorOptions)

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        contract.require(
            1 <= len(outputs) <= 2,
            f"This calculator produces only one or two output streams, not {len(outputs)}.",
        )
        output = outputs[0].set_any()
        if len(outputs) == 2:
            outputs[1].set(bool)
        for index in range(len(inputs)):
            inputs[index].set_same_as(output)
        contract.process_timestamp_bounds = contract.options(
            messages.ImmediateMuxCalculatorOptions
        ).process_timestamp_bounds
        contract.timestamp_offset = None if contract.process_timestamp_bounds else 0

    def open(self, cc: CalculatorContext) -> None:
        self._passes_bounds = self.options.process_timestamp_bounds
        self._bound = ts.PRESTREAM

    def process(self, cc: CalculatorContext) -> None:
        is_bound = True
        for shard in cc.input_list:
            packet = shard.packet
            if packet.is_empty():
                continue
            is_bound = False
            if packet.time >= self._bound:
                cc.output_list[0].add_packet(packet)
                self._bound = ts.next_allowed_in_stream(packet.time)
            self._signal(cc)
        if is_bound and self._passes_bounds and cc.time >= self._bound:
            self._pass_bound(cc)

    def _signal(self, cc: CalculatorContext) -> None:
        if len(cc.output_list) > 1 and not cc.output_list[1].is_closed:
            signal = cc.output_list[1]
            signal.add(True, max(cc.input_timestamp, signal.next_timestamp_bound))

    def _pass_bound(self, cc: CalculatorContext) -> None:
        if cc.time >= ts.MAX or cc.time == ts.PRESTREAM:
            for output in cc.output_list:
                output.close()
            return
        self._bound = ts.next_allowed_in_stream(cc.time)
        for output in cc.output_list:
            output.set_next_timestamp_bound(Timestamp.of(self._bound))


class MergeCalculator(Calculator):
    """Joins streams: at each timestamp, the packet of the first input that has one.

    Inputs: #i: at least one stream, of any types.
    Outputs: #0: of any type.
    Options: none.

    ::

        node {
          calculator: "MergeCalculator"
          input_stream: "preferred"
          input_stream: "fallback"
          output_stream: "merged"
        }

    Source: MediaPipe ``calculators/core/merge_calculator.h``.
    """

    inputs = In[Any](multiple=True, optional=True)
    output = Out[Any]()

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        contract.require(contract.inputs.num_entries("") > 0, "Needs at least one input stream")

    def process(self, cc: CalculatorContext) -> None:
        for shard in cc.input_list:
            if not shard.is_empty():
                cc.output_list[0].add_packet(shard.packet)
                return


class RoundRobinDemuxCalculator(Calculator):
    """Deals packets out to its outputs in turn, so that slow nodes can work side by side.

    A MuxCalculator with the same SELECT stream puts the results back in order.

    Inputs: #0, of any type.
    Outputs:
        OUTPUT:i: at least one; each gets every n-th packet, and bounds for the others.
        SELECT (int, optional): which output got the packet.
    Options: none.

    ::

        node {
          calculator: "RoundRobinDemuxCalculator"
          input_stream: "work"
          output_stream: "OUTPUT:0:work_0"
          output_stream: "OUTPUT:1:work_1"
          output_stream: "SELECT:which"
        }

    Source: MediaPipe ``calculators/core/round_robin_demux_calculator.cc``.
    """

    input = In[Any]()
    outputs = Out[Any]("OUTPUT", multiple=True, same_as=input)
    select = Out[int]("SELECT", optional=True)

    def open(self, cc: CalculatorContext) -> None:
        self._count = cc.outputs.num_entries("OUTPUT")
        self._next = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.inputs[0].is_empty():
            return
        cc.outputs["OUTPUT", self._next].add_packet(cc.inputs[0].packet)
        cc.emit(self.select, self._next)
        self._next = (self._next + 1) % self._count


class MakePairCalculator(Calculator):
    """Pairs the packets of two streams.

    Inputs: #0 and #1, of any type.
    Outputs: #0: a tuple of two `Packet`; one of them is empty where a stream has no packet at the
        timestamp.
    Options: none.

    ::

        node {
          calculator: "MakePairCalculator"
          input_stream: "image"
          input_stream: "mask"
          output_stream: "image_and_mask"
        }

    Source: MediaPipe ``calculators/core/make_pair_calculator.cc``.
    """

    inputs = In[Any](multiple=True)
    pair = Out[tuple[Packet, Packet]]()

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        count = contract.inputs.num_entries("")
        contract.require(count == 2, f"there must be two input streams, not {count}")

    def process(self, cc: CalculatorContext) -> None:
        cc.emit(self.pair, (cc.inputs[0].packet, cc.inputs[1].packet))


class PacketInnerJoinCalculator(Calculator):
    """Passes packets on where every input has one at the same timestamp, and drops the others.

    Inputs: #i: streams of any type.
    Outputs: #i: one per input.
    Options: none.

    ::

        node {
          calculator: "PacketInnerJoinCalculator"
          input_stream: "left_camera"
          input_stream: "right_camera"
          output_stream: "left"
          output_stream: "right"
        }

    Source: MediaPipe ``calculators/core/packet_inner_join_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        inputs, outputs = contract.inputs, contract.outputs
        contract.require(
            len(inputs) == len(outputs),
            "The number of input and output streams must match: there are "
            f"{len(inputs)} inputs and {len(outputs)} outputs.",
        )
        for index in range(len(inputs)):
            outputs[index].set_same_as(inputs[index].set_any())
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        packets = [shard.packet for shard in cc.input_list]
        if any(packet.is_empty() for packet in packets):
            return
        for packet, output in zip(packets, cc.output_list, strict=True):
            output.add_packet(packet)
