"""FromImageCalculator: an Image as an ImageFrame, which are one class here."""

from __future__ import annotations

from calculators.images.image.image_frame import ImageFrame
from graph_runtime import Calculator, CalculatorContext, CalculatorContract


class FromImageCalculator(Calculator):
    """Passes images on, for graphs that distinguish MediaPipe's ImageFrame and Image.

    Inputs: IMAGE (`ImageFrame`).
    Outputs:
        IMAGE_CPU (`ImageFrame`, optional).
        SOURCE_ON_GPU (bool, optional): False.
    Options: none.

    ::

        node {
          calculator: "FromImageCalculator"
          input_stream: "IMAGE:image"
          output_stream: "IMAGE_CPU:frame"
        }

    Source: MediaPipe ``calculators/util/from_image_calculator.cc``.
    """

    @classmethod
    def contract(cls, contract: CalculatorContract) -> None:
        contract.require(
            not contract.outputs.has_tag("IMAGE_GPU"),
            "the output stream with the tag IMAGE_GPU would be on a GPU, which is not supported; "
            "use the tag IMAGE_CPU",
        )
        contract.inputs["IMAGE"].set(ImageFrame)
        contract.outputs["IMAGE_CPU"].set(ImageFrame).optional()
        contract.outputs["SOURCE_ON_GPU"].set(bool).optional()
        contract.timestamp_offset = 0

    def process(self, cc: CalculatorContext) -> None:
        if cc.outputs.has_tag("SOURCE_ON_GPU"):
            cc.outputs["SOURCE_ON_GPU"].add(False, cc.time)
        if cc.outputs.has_tag("IMAGE_CPU"):
            cc.outputs["IMAGE_CPU"].add_packet(cc.inputs["IMAGE"].packet)
