"""PacketSequencerCalculator: packets from outside, put into the order of a stream's time."""

from __future__ import annotations

from typing import Any

from graph_runtime import Calculator, CalculatorContext, CalculatorContract, In, Out, Timestamp
from graph_runtime import timestamp as ts


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
