"""`ImageGenCalculator`: OpenAI's images endpoints over a diffusion model."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from calculators.images.image_generation.answer import AnswerWriter
from calculators.images.image_generation.model_rules import ModelRules
from calculators.images.image_generation.request import (
    ImageRequest,
    read_edit,
    read_generation,
    read_variation,
)
from calculators.images.image_generation.resources import RESOURCES_TAG
from calculators.images.image_generation.servable import ImageGenServable
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.requests.payload_calculator import PayloadCalculator
from calculators.kit.tasks.node_resource import node_resource
from graph_runtime import CalculatorContext, Cancelled, Code, Out, SideIn

GENERATIONS: Final = "/images/generations"
EDITS: Final = "/images/edits"
VARIATIONS: Final = "/images/variations"


class ImageGenCalculator(PayloadCalculator):
    """Answers requests for images: from texts, from images, and masked parts of images anew.

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
        del payload
        if client.is_disconnected:
            raise Cancelled
        drawing = self._servable.begin(request)
        client.on_disconnect(drawing.cancel)
        try:
            writer = AnswerWriter(drawing)
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
