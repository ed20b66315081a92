"""`S2tCalculator`: OpenAI's transcriptions and translations over a speech model."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

from calculators.kit.requests.http_payload import HttpPayload, Messages, RequestError
from calculators.kit.requests.payload_calculator import PayloadCalculator
from calculators.kit.tasks.node_resource import node_resource
from calculators.speech.speech_to_text.answers import delta_event, done_event, whole_answer
from calculators.speech.speech_to_text.placed_speech import AnySpeechToText
from calculators.speech.speech_to_text.realtime.session import RealtimeSession
from calculators.speech.speech_to_text.request import (
    TRANSCRIPTIONS,
    TRANSLATIONS,
    SpeechRequest,
    parse_speech_request,
)
from calculators.speech.speech_to_text.spoken_text import SpokenText
from graph_runtime import (
    CalculatorContext,
    CalculatorContract,
    Code,
    In,
    Out,
    SideIn,
)

_PATHS: Final = (TRANSCRIPTIONS, TRANSLATIONS)


class S2tCalculator(PayloadCalculator):
    """Answers a request with a file of sound with its text.

    A streamed answer is one packet for each piece of text, with the timestamps 0, 1, and so on.
    A WebSocket, ``/v3/realtime``, is one call that lasts as long as its client speaks.
    ``LOOPBACK`` is for graphs of OpenVINO Model Server, and is not used: one call sends all pieces.

    ::

        node {
          name: "S2tExecutor"
          calculator: "S2tCalculator"
          input_stream: "LOOPBACK:loopback"
          input_stream: "HTTP_REQUEST_PAYLOAD:input"
          input_side_packet: "STT_NODE_RESOURCES:s2t_servable"
          output_stream: "LOOPBACK:loopback"
          output_stream: "HTTP_RESPONSE_PAYLOAD:output"
          input_stream_info { tag_index: "LOOPBACK:0" back_edge: true }
          node_options {
            [type.googleapis.com/mediapipe.S2tCalculatorOptions] { models_path: "./" }
          }
          input_stream_handler {
            input_stream_handler: "SyncSetInputStreamHandler"
            options {
              [mediapipe.SyncSetInputStreamHandlerOptions.ext] {
                sync_set { tag_index: "LOOPBACK:0" }
              }
            }
          }
        }

    Source: OpenVINO Model Server ``audio/speech_to_text/s2t_calculator.cc``.
    """

    turn = In[bool]("LOOPBACK", optional=True)
    next_turn = Out[bool]("LOOPBACK", optional=True)
    resources = SideIn[dict[str, Any]]("STT_NODE_RESOURCES")
    timestamp_offset = None

    @classmethod
    def update_contract(cls, contract: CalculatorContract) -> None:
        contract.set_apart("LOOPBACK")

    def open(self, cc: CalculatorContext) -> None:
        self._servable: AnySpeechToText = node_resource(cc, self.resources, "STT")
        self._spoken: SpokenText | None = None

    def close(self, cc: CalculatorContext) -> None:
        if self._spoken is not None:
            self._spoken.cancel()

    async def answer(self, cc: CalculatorContext, payload: HttpPayload, response: Out[Any]) -> None:
        if payload.messages is not None:
            await self._converse(cc, payload, payload.messages, response)
            return
        client = payload.client
        request = _parsed(payload)
        # The body is as large as the file.
        del payload
        spoken = await self._servable.recognize_file(request.content, request.settings)
        self._spoken = spoken
        request = replace(request, content=b"")  # as large as the sound may be
        client.on_disconnect(spoken.cancel)
        if not request.is_stream:
            cc.emit(response, whole_answer(await spoken.transcript(), request), at=0)
            return
        time = 0
        async for piece in spoken.pieces():
            await client.writable()
            cc.emit(response, delta_event(piece), at=time)
            cc.flush()
            time += 1
        cc.emit(response, done_event(await spoken.transcript(), request), at=time)

    async def _converse(
        self,
        cc: CalculatorContext,
        payload: HttpPayload,
        messages: Messages,
        response: Out[Any],
    ) -> None:
        model = "" if payload.record is None else payload.record.model
        is_old = "realtime=v1" in payload.headers.get("openai-beta", "")
        session = RealtimeSession(self._servable, messages, model, is_old=is_old)
        time = 0
        async with aclosing(session.events()) as events:
            async for event in events:
                await payload.client.writable()
                cc.emit(response, event, at=time)
                cc.flush()
                time += 1


def _parsed(payload: HttpPayload) -> SpeechRequest:
    path = payload.uri.partition("?")[0]
    if not path.endswith(_PATHS):
        raise RequestError(
            f"Unsupported URI: {path[:100]}; a speech model answers /v3/audio/transcriptions and "
            "/v3/audio/translations, and the same under /v1",
            code=Code.NOT_FOUND,
        )
    return parse_speech_request(payload.form, path)
