"""The nodes that draw.

`ImageGenCalculator` answers requests, `ImageGenerationCalculator` takes packets of texts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from calculators.images.image.image_frame import ImageFormat, ImageFrame
from calculators.images.image_generation.drawing_process import Drawing, DrawnImage
from calculators.images.image_generation.messages import DrawingKind
from calculators.images.image_generation.model_rules import ModelRules
from calculators.images.image_generation.request import (
    ImageRequest,
    read_edit,
    read_generation,
    read_variation,
    text_request,
)
from calculators.images.image_generation.servable import RESOURCES_TAG, ImageGenServable
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.tasks.nodes import PayloadCalculator, node_resource
from graph_runtime import Calculator, CalculatorContext, Cancelled, Code, In, Out, SideIn


class ImageGenerationCalculator(Calculator):
    """Draws an image for each text, with the defaults of the node's options and a random seed.

    The model draws in a process of its own; no thread waits.

    Inputs: #0: the prompt, str.
    Outputs: #0: `ImageFrame`, SRGB, at the prompt's timestamp.
    Options (mediapipe.ImageGenCalculatorOptions): the same as `ImageGenCalculator` has.

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


#: The only value of OpenAI's member that is true of these images.
_BACKGROUND: Final = "opaque"
_QUALITY: Final = "auto"


class ImageAnswerWriter:
    """Writes the answer to one drawing, whole or in events."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        self._created = int(time.time())
        is_new = drawing.request.kind is DrawingKind.TEXT_TO_IMAGE
        self._object = "image_generation" if is_new else "image_edit"

    def whole(self, images: Sequence[DrawnImage]) -> bytes:
        """Return the JSON object with all finished images, in their order."""
        request = self._drawing.request
        seed = b"%d" % request.seed
        data = b",".join(
            b'{"b64_json":"%b","seed":%b}' % (image.data, seed)
            for image in sorted(images, key=lambda each: each.place)
        )
        rest = {
            "background": _BACKGROUND,
            "output_format": request.output_format,
            "quality": _QUALITY,
            "size": self._size(),
            "usage": self._usage(),
        }
        return b'{"created":%d,"data":[%b],%b}\n' % (
            self._created,
            data,
            json.dumps(rest).encode()[1:-1],
        )

    def event(self, image: DrawnImage) -> bytes:
        """Return the event of one image."""
        request = self._drawing.request
        rest: dict[str, Any] = {
            "background": _BACKGROUND,
            "created_at": self._created,
            "index": image.place,
            "output_format": request.output_format,
            "quality": _QUALITY,
            "seed": request.seed,
            "size": self._size(),
        }
        if image.partial is None:
            name = f"{self._object}.completed"
            rest["usage"] = self._usage()
        else:
            name = f"{self._object}.partial_image"
            rest["partial_image_index"] = image.partial
        kind = name.encode()
        return b'event: %b\ndata: {"type":"%b","b64_json":"%b",%b}\n\n' % (
            kind,
            kind,
            image.data,
            json.dumps(rest).encode()[1:-1],
        )

    def _size(self) -> str:
        begun = self._drawing.begun
        assert begun is not None
        return f"{begun.width}x{begun.height}"

    def _usage(self) -> dict[str, Any]:
        """Return the usage: tokens of the prompt that the model reads; images have none here."""
        begun = self._drawing.begun
        assert begun is not None
        tokens = begun.prompt_tokens
        return {
            "input_tokens": tokens,
            "input_tokens_details": {"image_tokens": 0, "text_tokens": tokens},
            "output_tokens": 0,
            "output_tokens_details": {"image_tokens": 0, "text_tokens": 0},
            "total_tokens": tokens,
        }


GENERATIONS: Final = "/images/generations"
EDITS: Final = "/images/edits"
VARIATIONS: Final = "/images/variations"


class ImageGenCalculator(PayloadCalculator):
    """Answers requests for images: from texts, from images, or for masked parts of images.

    The model draws in a process of its own; no thread waits. A client that leaves ends its drawing
    at the next step. The events of a stream are sent while the model draws. The tags are OpenVINO
    Model Server's; those without HTTP_ before them are taken too.

    ::

        node {
          name: "ImageGenExecutor"
          calculator: "ImageGenCalculator"
          input_side_packet: "IMAGE_GEN_NODE_RESOURCES:pipes"
          input_stream: "HTTP_REQUEST_PAYLOAD:input"
          output_stream: "HTTP_RESPONSE_PAYLOAD:output"
          node_options {
            [type.googleapis.com/mediapipe.ImageGenCalculatorOptions] {
              models_path: "./"
              device: "CPU"
            }
          }
        }

    Source: OpenVINO Model Server ``image_gen/http_image_gen_calculator.cc``.
    """

    resources = SideIn[dict[str, Any]](RESOURCES_TAG)
    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self._servable: ImageGenServable = node_resource(cc, self.resources, "Image Gen")
        self._next = 0

    def _send(self, cc: CalculatorContext, response: Out[Any], packet: bytes) -> None:
        # The packets of a stream need different timestamps.
        self._next = max(self._next, cc.time)
        cc.emit(response, packet, at=self._next)
        self._next += 1

    async def answer(self, cc: CalculatorContext, payload: HttpPayload, response: Out[Any]) -> None:
        send = partial(self._send, cc, response)
        request = _read(payload, self._servable.rules)
        client = payload.client
        # The drawing may take minutes, and a body with an image has megabytes.
        del payload
        if client.is_disconnected:
            raise Cancelled
        drawing = self._servable.begin(request)
        client.on_disconnect(drawing.cancel)
        try:
            writer = ImageAnswerWriter(drawing)
            images = []
            async for image in drawing:
                if request.is_stream:
                    if not client.is_writable:
                        await client.writable()
                    send(writer.event(image))
                    cc.flush()
                else:
                    images.append(image)
            if drawing.is_cancelled:
                raise Cancelled
            if not request.is_stream:
                send(writer.whole(images))
        finally:
            drawing.cancel()


def _read(payload: HttpPayload, rules: ModelRules) -> ImageRequest:
    path = payload.uri.partition("?")[0]
    if path.endswith(GENERATIONS):
        if payload.parsed_json is None:
            raise RequestError(
                "Failed to parse JSON: the body must be JSON, with Content-Type: application/json"
            )
        return read_generation(payload.parsed_json, rules)
    for end, read in ((EDITS, read_edit), (VARIATIONS, read_variation)):
        if path.endswith(end):
            if payload.form is None:
                raise RequestError(
                    "Failed to parse multipart data: the body must be a form with the image as a "
                    "file, with Content-Type: multipart/form-data"
                )
            return read(payload.form, rules)
    raise RequestError(
        f"Unsupported URI: {path[:100]}; a model of images answers /v3{GENERATIONS}, /v3{EDITS} "
        f"and /v3{VARIATIONS}, and the same under /v1",
        code=Code.NOT_FOUND,
    )
