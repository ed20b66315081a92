"""ToImageCalculator: an ImageFrame as an Image, which are one class here."""

from __future__ import annotations

from calculators.images.image.image_frame import ImageFrame
from calculators.images.image.packet_types import take_images
from graph_runtime import Calculator, CalculatorContext, CalculatorContract


class ToImageCalculator(Calculator):
    """Passes images on, for graphs that distinguish MediaPipe's ImageFrame and Image.

    Inputs: IMAGE or IMAGE_CPU (`ImageFrame`).
    Outputs: IMAGE (`ImageFrame`).
    Options: none.

    ::

        node {
          calculator: "ToImageCalculator"
          input_stream: "IMAGE_CPU:frame"
          output_stream: "IMAGE:image"
        }

    Source: MediaPipe ``calculators/util/to_image_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        take_images(contract)
        contract.outputs["IMAGE"].set(ImageFrame)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        (shard,) = cc.input_list
        cc.outputs["IMAGE"].add_packet(shard.packet)
