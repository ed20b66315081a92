"""ImmediateMuxCalculator: several streams as one, first come, first served."""

from __future__ import annotations

from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Options, Timestamp
from graph_runtime import timestamp as ts


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

    options = Options("mediapipe.ImmediateMuxCalculatorOptions")

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
            "mediapipe.ImmediateMuxCalculatorOptions"
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
