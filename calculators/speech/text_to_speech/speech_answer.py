"""Answers of ``/v3/audio/speech``: one file, a file in parts, or events with its parts."""

from __future__ import annotations

import asyncio
import base64
import json
import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import numpy as np

from calculators.kit.requests.http_payload import RequestError
from calculators.speech.audio.sound import Sound
from calculators.speech.audio.writing import SoundWriter, UnavailableFormatError, write_sound
from calculators.speech.text_to_speech.request import SpeechRequest
from calculators.speech.text_to_speech.sentences import split_sentences
from calculators.speech.text_to_speech.servable import SpeechStyle, T2sServable

EVENTS: Final = "text/event-stream"
#: Bytes of one part: a slow client gets the next one when it has read most of this one.
PART_BYTES: Final = 256 * 1024
#: OpenAI's count of tokens for sound that a model makes: one for 50 milliseconds.
_TOKENS_OF_SECOND: Final = 20


async def whole_file(servable: T2sServable, request: SpeechRequest, style: SpeechStyle) -> bytes:
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

    def __init__(self, servable: T2sServable, request: SpeechRequest, style: SpeechStyle) -> None:
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
