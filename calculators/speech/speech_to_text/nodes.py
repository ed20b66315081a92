"""The nodes that turn sound into text.

`S2tCalculator` answers requests, `SpeechToTextCalculator` takes packets of sound."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import Any, Final

import msgspec

from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import HttpPayload, Messages, RequestError
from calculators.kit.tasks.nodes import PayloadCalculator, node_resource
from calculators.speech.audio.sound import Sound
from calculators.speech.audio.speech_recognizer import Segment, SpeechSettings, Transcript
from calculators.speech.speech_to_text.languages import name_of
from calculators.speech.speech_to_text.realtime.session import RealtimeSession
from calculators.speech.speech_to_text.request import (
    TRANSCRIPTIONS,
    TRANSLATIONS,
    AnswerFormat,
    SpeechRequest,
    parse_speech_request,
)
from calculators.speech.speech_to_text.resources import AnySpeechToText
from calculators.speech.speech_to_text.spoken_text import SpokenText
from graph_runtime import Calculator, CalculatorContext, CalculatorContract, Code, In, Out, SideIn


class SpeechToTextCalculator(Calculator):
    """Turns each sound into text with a speech model.

    Inputs: SOUND (`Sound`): of any sample rate.
    Outputs:
        PIECES (str), optional: text as it comes; the first piece at the sound's timestamp or
            later, each at least one microsecond after the one before.
        TEXT (str), optional: the whole text at the sound's timestamp, without blanks around it.
    Side packets:
        STT_NODE_RESOURCES: supplied by the server.
        LANGUAGE (str), optional: "en", "english"; by default the model finds out.
    Options (mediapipe.S2tCalculatorOptions): the same as `S2tCalculator` has.

    ::

        node {
          name: "Listener"
          calculator: "SpeechToTextCalculator"
          input_stream: "SOUND:sound"
          input_side_packet: "STT_NODE_RESOURCES:s2t_servable"
          output_stream: "PIECES:pieces"
          output_stream: "TEXT:text"
          node_options {
            [type.googleapis.com/mediapipe.S2tCalculatorOptions] { models_path: "./" }
          }
        }
    """

    sound = In[Sound]("SOUND")
    pieces = Out[str]("PIECES", optional=True)
    text = Out[str]("TEXT", optional=True)
    resources = SideIn[dict[str, Any]]("STT_NODE_RESOURCES")
    language = SideIn[str]("LANGUAGE", optional=True)
    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self._servable: AnySpeechToText = node_resource(cc, self.resources, "STT")
        self._settings = SpeechSettings(language=cc.side(self.language, ""))
        self._spoken: SpokenText | None = None
        self._next_time = 0

    async def process(self, cc: CalculatorContext) -> None:
        time = cc.time
        self._spoken = spoken = self._servable.recognize(cc.take(self.sound), self._settings)
        self._next_time = max(self._next_time, time)
        async for piece in spoken.pieces():
            if cc.is_connected(self.pieces):
                cc.emit(self.pieces, piece, at=self._next_time)
                cc.flush()
                self._next_time += 1
        cc.emit(self.text, (await spoken.transcript()).text.strip(), at=time)

    def close(self, cc: CalculatorContext) -> None:
        if self._spoken is not None:
            self._spoken.cancel()


_encode: Final = msgspec.json.Encoder().encode
_PLAIN: Final = "text/plain; charset=utf-8"
_VTT: Final = "text/vtt; charset=utf-8"


def whole_answer(transcript: Transcript, request: SpeechRequest) -> bytes | HttpAnswer:
    """Return the answer in the requested form.

    In JSON the text is the model's, with the blank that Whisper begins with, as OpenVINO Model
    Server's; in plain text and subtitles blanks around it are left out.
    """
    match request.format:
        case AnswerFormat.TEXT:
            return HttpAnswer(f"{transcript.text.strip()}\n".encode(), _PLAIN)
        case AnswerFormat.SRT:
            return HttpAnswer(_srt(transcript.segments).encode(), _PLAIN)
        case AnswerFormat.VTT:
            return HttpAnswer(_vtt(transcript.segments).encode(), _VTT)
        case AnswerFormat.JSON:
            return _encode({
                "text": transcript.text,
                **_times(transcript, request),
                "usage": _usage(transcript),
            })  # fmt: skip
        case AnswerFormat.VERBOSE_JSON:
            return _encode(_verbose(transcript, request))


def delta_event(piece: str) -> bytes:
    """Return the event for new text."""
    return _event({"type": "transcript.text.delta", "delta": piece, "logprobs": []})


def done_event(transcript: Transcript, request: SpeechRequest) -> bytes:
    """Return the last event of a stream, with the whole text."""
    return _event({
        "type": "transcript.text.done",
        "text": transcript.text,
        "logprobs": [],
        **_times(transcript, request),
    })  # fmt: skip


def _event(value: dict[str, Any]) -> bytes:
    return b"data: %b\n\n" % _encode(value)


def _verbose(transcript: Transcript, request: SpeechRequest) -> dict[str, Any]:
    temperature = request.settings.temperature
    answer: dict[str, Any] = {
        "task": "translate" if request.settings.translates else "transcribe",
        "language": name_of(transcript.language),
        "duration": round(transcript.seconds, 3),
        "text": transcript.text,
        "usage": _usage(transcript),
    }
    if request.tells_segments:
        answer["segments"] = [
            {
                "id": number,
                # The library reports neither the window of a segment nor these probabilities.
                "seek": 0,
                "start": _rounded(segment.start),
                "end": _rounded(segment.end),
                "text": segment.text,
                "tokens": segment.tokens,
                "temperature": temperature,
                "avg_logprob": 0.0,
                "compression_ratio": 0.0,
                "no_speech_prob": 0.0,
            }
            for number, segment in enumerate(transcript.segments)
        ]
    if request.tells_words:
        answer["words"] = _words(transcript)
    return answer


def _times(transcript: Transcript, request: SpeechRequest) -> dict[str, Any]:
    """Words and segments in OpenVINO Model Server's form, as requested."""
    times: dict[str, Any] = {}
    if request.tells_words:
        times["words"] = _words(transcript)
    if request.tells_segments:
        times["segments"] = [
            {"text": each.text, "start": _rounded(each.start), "end": _rounded(each.end)}
            for each in transcript.segments
        ]
    return times


def _words(transcript: Transcript) -> list[dict[str, Any]]:
    return [
        {"word": each.text, "start": _rounded(each.start), "end": _rounded(each.end)}
        for each in transcript.words
    ]


def _usage(transcript: Transcript) -> dict[str, Any]:
    return {"type": "duration", "seconds": round(transcript.seconds, 3)}


def _rounded(seconds: float) -> float:
    """Seconds without the noise of 32-bit floats."""
    return round(seconds, 3)


def _srt(segments: tuple[Segment, ...]) -> str:
    return "".join(
        f"{number}\n{_clock(each.start, ',')} --> {_clock(each.end, ',')}\n{_cue(each)}\n\n"
        for number, each in enumerate(segments, 1)
    )


def _vtt(segments: tuple[Segment, ...]) -> str:
    cues = (
        f"{_clock(each.start, '.')} --> {_clock(each.end, '.')}\n{_cue(each)}\n\n"
        for each in segments
    )
    return "WEBVTT\n\n" + "".join(cues)


def _cue(segment: Segment) -> str:
    """Return the text of a subtitle: one line, without the arrow that stands between times."""
    return " ".join(segment.text.split()).replace("-->", "->")


def _clock(seconds: float, point: str) -> str:
    milliseconds = max(0, round(seconds * 1000))
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest // 1000:02}{point}{rest % 1000:03}"


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
            await self.converse(cc, payload, payload.messages, response)
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

    async def converse(
        self,
        cc: CalculatorContext,
        payload: HttpPayload,
        messages: Messages,
        response: Out[Any],
    ) -> None:
        """Answer a WebSocket's client until it leaves; ``messages`` are the client's."""
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
