"""Headers of streams: the packet that a stream has before its first timestamp."""

from __future__ import annotations

from dataclasses import dataclass

from calculators.core.side_packets import require_one_place
from graph_runtime import Calculator, CalculatorContext, CalculatorContract


class AddHeaderCalculator(Calculator):
    """Gives a stream the header of another stream, or of a side packet.

    Inputs:
        DATA: of any type.
        HEADER (optional): a stream with a header and no packets.
    Outputs: #0: the packets of DATA.
    Input side packets: HEADER, in place of the stream: the header itself.
    Options: none.

    ::

        node {
          calculator: "AddHeaderCalculator"
          input_stream: "DATA:audio"
          input_side_packet: "HEADER:audio_header"
          output_stream: "audio_with_header"
        }

    Source: MediaPipe ``calculators/core/add_header_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.outputs[0].set_same_as(contract.inputs["DATA"].set_any())
        require_one_place(contract, "HEADER")
        contract.inputs["HEADER"].set_none().optional()
        contract.input_side_packets["HEADER"].set_any().optional()
        contract.timestamp_offset = 0

    def open(self, cc: CalculatorContext) -> None:
        if cc.inputs.has_tag("HEADER"):
            header = cc.inputs["HEADER"].header
        elif cc.input_side_packets.has_tag("HEADER"):
            header = cc.input_side_packets["HEADER"]
        else:
            return
        if not header.is_empty():
            cc.outputs[0].set_header(header)

    def process(self, cc: CalculatorContext) -> None:
        if not cc.inputs["DATA"].is_empty():
            cc.outputs[0].add_packet(cc.inputs["DATA"].packet)


@dataclass(frozen=True)
class VideoHeader:
    """The properties that all frames of a stream share.

    ``format`` is the number of an image format; ``width`` and ``height`` are in pixels,
    ``duration`` in seconds, ``frame_rate`` in frames per second. 0 means unknown.
    Source: MediaPipe ``framework/formats/video_stream_header.h``.
    """

    format: int = 0
    width: int = 0
    height: int = 0
    duration: float = 0.0
    frame_rate: float = 0.0


def copy_headers(cc: CalculatorContext) -> None:
    """Give each output the header of the input with the same tag and index. Only in ``open``."""
    for place in cc.inputs.places:
        header = cc.inputs[place].header
        if place in cc.outputs and not header.is_empty():
            cc.outputs[place].set_header(header)
