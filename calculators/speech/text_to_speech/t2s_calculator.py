"""`T2sCalculator`: OpenAI's endpoints for speech over a model that OpenVINO runs."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.requests.payload_calculator import PayloadCalculator
from calculators.kit.tasks.node_resource import node_resource
from calculators.speech.text_to_speech.request import parse_speech_request
from calculators.speech.text_to_speech.servable import T2sServable
from calculators.speech.text_to_speech.speech_answer import (
    EVENTS,
    SpeechFile,
    speech_events,
    whole_file,
)
from graph_runtime import (
    CalculatorContext,
    Code,
    Out,
    SideIn,
)

SPEECH: Final = "/audio/speech"
VOICES: Final = "/audio/voices"


class T2sCalculator(PayloadCalculator):
    """Answers a request to ``/v3/audio/speech`` with sound, and ``/v3/audio/voices`` with a list.

    A text is spoken sentence by sentence in the model's own process; no thread waits. A streamed
    answer is an `HttpAnswer` with the first sentence, and ``bytes`` with each of the others, which
    leave the call while it goes on. The tags are OpenVINO Model Server's; those without HTTP_
    before them are taken too.

    ::

        node {
          name: "T2sExecutor"
          calculator: "T2sCalculator"
          input_side_packet: "TTS_NODE_RESOURCES:t2s_servable"
          input_stream: "HTTP_REQUEST_PAYLOAD:input"
          output_stream: "HTTP_RESPONSE_PAYLOAD:output"
          node_options {
            [type.googleapis.com/mediapipe.T2sCalculatorOptions] {
              models_path: "./"
              target_device: "CPU"
            }
          }
        }

    Source: OpenVINO Model Server ``audio/text_to_speech/t2s_calculator.cc``.
    """

    resources = SideIn[dict[str, Any]]("TTS_NODE_RESOURCES")
    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self._servable: T2sServable = node_resource(cc, self.resources, "T2S")

    async def answer(self, cc: CalculatorContext, payload: HttpPayload, response: Out[Any]) -> None:
        path = payload.uri.partition("?")[0]
        if path.endswith(VOICES):
            voices = [{"id": name, "name": name} for name in self._servable.voices]
            cc.emit(response, json.dumps({"object": "list", "voices": voices}).encode())
            return
        if not path.endswith(SPEECH):
            raise RequestError(f"Unsupported URI: {path}", code=Code.NOT_FOUND)
        request = parse_speech_request(payload.json())
        style = self._servable.style(request.voice, request.language, request.speed)
        with self._servable.place():
            if not request.streams:
                body = await whole_file(self._servable, request, style)
                cc.emit(response, HttpAnswer(body, request.format.content_type))
                return
            file = SpeechFile(self._servable, request, style)
            content_type, parts = request.format.content_type, file.parts()
            if request.is_events:
                content_type, parts = EVENTS, speech_events(file, len(request.text))
            await _stream(cc, response, content_type, parts, payload)


async def _stream(
    cc: CalculatorContext,
    response: Out[HttpAnswer | bytes],
    content_type: str,
    parts: AsyncGenerator[bytes, None],
    payload: HttpPayload,
) -> None:
    """Send the parts of an answer as they are made, no faster than the client reads."""
    time = cc.time
    async with aclosing(parts) as made:
        async for part in made:
            packet = part if time > cc.time else HttpAnswer(part, content_type, has_more=True)
            cc.emit(response, packet, at=time)
            cc.flush()
            time += 1
            if not payload.client.is_writable:
                await payload.client.writable()
