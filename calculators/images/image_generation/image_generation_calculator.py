"""`ImageGenerationCalculator`: from a text in a packet to an image in a packet."""

from __future__ import annotations

from typing import Any

import numpy as np

from calculators.images.image.image_frame import ImageFormat, ImageFrame
from calculators.images.image_generation.request import text_request
from calculators.images.image_generation.resources import RESOURCES_TAG
from calculators.images.image_generation.servable import ImageGenServable
from calculators.kit.tasks.node_resource import node_resource
from graph_runtime import Calculator, CalculatorContext, Cancelled, In, Out, SideIn


class ImageGenerationCalculator(Calculator):
    """Draws an image for each text, with the defaults of the node's options and a random seed.

    The model draws in a process of its own; no thread waits.

    Inputs: #0: the prompt, str.
    Outputs: #0: `ImageFrame`, SRGB, at the prompt's timestamp.
    Options (mediapipe.ImageGenCalculatorOptions): those of `ImageGenCalculator`.

    ::

        node {
          name: "artist"
          calculator: "ImageGenerationCalculator"
          input_side_packet: "IMAGE_GEN_NODE_RESOURCES:pipes"
          input_stream: "prompt"
          output_stream: "image"
          node_options {
            [type.googleapis.com/mediapipe.ImageGenCalculatorOptions] {
              models_path: "./"
              default_resolution: "512x512"
            }
          }
        }
    """

    prompt = In[str]()
    image = Out[ImageFrame]()
    resources = SideIn[dict[str, Any]](RESOURCES_TAG)

    def open(self, cc: CalculatorContext) -> None:
        self._servable: ImageGenServable = node_resource(cc, self.resources, "Image Gen")

    async def process(self, cc: CalculatorContext) -> None:
        request = text_request(cc.get(self.prompt), self._servable.rules)
        drawing = self._servable.begin(request, is_raw=True)
        try:
            async for image in drawing:
                begun = drawing.begun
                assert begun is not None
                pixels = np.frombuffer(image.data, np.uint8)
                pixels = pixels.reshape(begun.height, begun.width, 3)
                if image.place == 0:
                    cc.emit(self.image, ImageFrame.owning(ImageFormat.SRGB, pixels))
            if drawing.is_cancelled:
                raise Cancelled
        finally:
            drawing.cancel()
