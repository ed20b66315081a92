"""ImagePropertiesCalculator: the size of an image."""

from __future__ import annotations

from calculators.images.image.image_frame import ImageFrame
from calculators.images.image.packet_types import take_images
from graph_runtime import Calculator, CalculatorContext, CalculatorContract


class ImagePropertiesCalculator(Calculator):
    """Sends the size of each image.

    Inputs: IMAGE or IMAGE_CPU (`ImageFrame`).
    Outputs: SIZE (tuple): width and height in pixels, as OUTPUT_DIMENSIONS of
        ImageTransformationCalculator takes them.
    Options: none.

    ::

        node {
          calculator: "ImagePropertiesCalculator"
          input_stream: "IMAGE:image"
          output_stream: "SIZE:size"
        }

    Source: MediaPipe ``calculators/images/image/image_properties_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        take_images(contract)
        contract.outputs["SIZE"].set(tuple)
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        (shard,) = cc.input_list
        frame: ImageFrame = shard.value
        cc.outputs["SIZE"].add((frame.width, frame.height), cc.time)
