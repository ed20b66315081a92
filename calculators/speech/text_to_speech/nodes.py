"""The nodes that speak: `T2sCalculator` answers requests, `TextToSpeechCalculator` packets."""

from __future__ import annotations

import asyncio
import base64
import json
import math
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any, Final

import numpy as np

from calculators.kit.requests.http_answer import HttpAnswer
from calculators.kit.requests.http_payload import HttpPayload, RequestError
from calculators.kit.tasks.nodes import PayloadCalculator, node_resource
from calculators.speech.audio.sound import Sound
from calculators.speech.audio.writing import SoundWriter, UnavailableFormatError, write_sound
from calculators.speech.text_to_speech.request import SpokenRequest, parse_speech_request
from calculators.speech.text_to_speech.sentences import SentenceSplitter, split_sentences
from calculators.speech.text_to_speech.servable import SpeechStyle, T2sServable
from graph_runtime import Calculator, CalculatorContext, Code, In, Out, SideIn


class TextToSpeechCalculator(Calculator):
    """Speaks the text that its input packets make together, as in a stream of a language model.

    A sentence becomes one packet of sound, or several if it is long, as soon as the text shows that
    it has ended; empty lines end sentences too, and the end of the stream ends the last one. Behind
    a loop, such as that of a language model, a node must therefore close the stream when the text
    is complete. Packets have the timestamp of the piece that ended the sentence, or the next one.

    ::

        node {
          name: "Speak"
          calculator: "TextToSpeechCalculator"
          input_side_packet: "TTS_NODE_RESOURCES:t2s_servable"
          input_stream: "TEXT:pieces"
          output_stream: "SOUND:sounds"
          node_options {
            [type.googleapis.com/mediapipe.T2sCalculatorOptions] { models_path: "./" }
          }
        }

    The side packets ``VOICE``, ``LANGUAGE`` and ``SPEED`` are what the members of a request are
    for `T2sCalculator`.
    """

    text = In[str]("TEXT")
    sound = Out[Sound]("SOUND")
    resources = SideIn[dict[str, Any]]("TTS_NODE_RESOURCES")
    voice = SideIn[str]("VOICE", optional=True)
    language = SideIn[str]("LANGUAGE", optional=True)
    speed = SideIn[float]("SPEED", optional=True)
    timestamp_offset = None

    def open(self, cc: CalculatorContext) -> None:
        self._servable: T2sServable = node_resource(cc, self.resources, "T2S")
        self._style = self._servable.style(
            cc.side(self.voice, ""), cc.side(self.language, ""), cc.side(self.speed, 1.0)
        )
        self._splitter = SentenceSplitter()
        self._next_time = 0

    async def process(self, cc: CalculatorContext) -> None:
        self._next_time = max(self._next_time, cc.time)
        await self._speak(cc, self._splitter.add(cc.get(self.text)))

    async def close(self, cc: CalculatorContext) -> None:
        if cc.graph_status is None:
            await self._speak(cc, self._splitter.finish())

    async def _speak(self, cc: CalculatorContext, sentences: Iterable[str]) -> None:
        async with aclosing(self._servable.speak(sentences, self._style)) as sounds:
            async for sound in sounds:
                cc.emit(self.sound, sound, at=self._next_time)
                self._next_time += 1
                cc.flush()


EVENTS: Final = "text/event-stream"
#: Bytes of one part: a slow client gets the next one when it has read most of this one.
PART_BYTES: Final = 256 * 1024
#: OpenAI's count of tokens for sound that a model makes: one for 50 milliseconds.
_TOKENS_OF_SECOND: Final = 20


async def whole_file(servable: T2sServable, request: SpokenRequest, style: SpeechStyle) -> bytes:
    """Speak a text and return one file.

    Raises:
        RequestError: as `T2sServable.speak`; the format is not available.
    """
    async with aclosing(servable.speak(split_sentences(request.text), style)) as spoken:
        sounds = [sound async for sound in spoken]
    samples = np.concatenate([sound.samples for sound in sounds])
    try:
        return await asyncio.to_thread(
            write_sound, Sound(samples, sounds[0].sample_rate), request.format
        )
    except UnavailableFormatError as error:
        raise _unavailable(error) from None


class SpeechFile:
    """A file with the speech of a text that is made in parts.

    Attributes:
        seconds: the duration of the sound that has been made so far.
    """

    def __init__(self, servable: T2sServable, request: SpokenRequest, style: SpeechStyle) -> None:
        self._servable = servable
        self._request = request
        self._style = style
        self.seconds = 0.0

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Yield the parts, the first when the first sentence is sound; none is empty.

        Raises:
            RequestError: as `whole_file`.
        """
        writer: SoundWriter | None = None
        sentences = split_sentences(self._request.text)
        async with aclosing(self._servable.speak(sentences, self._style)) as spoken:
            async for sound in spoken:
                self.seconds += sound.seconds
                if writer is None:
                    try:
                        writer = self._request.format.writer(sound.sample_rate)
                    except UnavailableFormatError as error:
                        raise _unavailable(error) from None
                encoded = await asyncio.to_thread(writer.write, sound.samples)
                for begin in range(0, len(encoded), PART_BYTES):
                    yield encoded[begin : begin + PART_BYTES]
        assert writer is not None, "a text with words has a sentence"
        if rest := await asyncio.to_thread(writer.finish):
            yield rest


async def speech_events(file: SpeechFile, characters: int) -> AsyncGenerator[bytes, None]:
    """Yield OpenAI's events with the parts of a file, and at last one with the usage.

    Args:
        characters: of the text, which are counted as its tokens.

    Raises:
        RequestError: as `whole_file`.
    """
    async with aclosing(file.parts()) as parts:
        async for part in parts:
            audio = base64.b64encode(part).decode("ascii")
            yield _event({"type": "speech.audio.delta", "audio": audio})
    spoken = math.ceil(file.seconds * _TOKENS_OF_SECOND)
    usage = {
        "input_tokens": characters,
        "output_tokens": spoken,
        "total_tokens": characters + spoken,
    }
    yield _event({"type": "speech.audio.done", "usage": usage})


def _event(event: dict[str, object]) -> bytes:
    return b"data: " + json.dumps(event, separators=(",", ":")).encode() + b"\n\n"


def _unavailable(error: UnavailableFormatError) -> RequestError:
    return RequestError(str(error), param="response_format")


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
