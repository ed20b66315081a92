"""A request to ``/v3/audio/speech``, checked.

Texts of errors that OpenVINO Model Server has too are its own
(``audio/text_to_speech/t2s_calculator.cc``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from calculators.kit.requests import fields
from calculators.kit.requests.http_payload import RequestError
from calculators.kit.requests.members import (
    STRING,
    Enumeration,
    Members,
    Value,
    check_object,
    honoured,
    ignored,
    read_members,
    refused,
    table,
)
from calculators.kit.requests.schema import number, one_of, record, string
from calculators.speech.audio.writing import FLOAT_WAV, FORMATS, SoundFormat
from calculators.speech.text_to_speech.sentences import has_words

#: Characters of an input: more than an hour of speech. OpenAI's limit is 4,096.
MAX_CHARACTERS: Final = 64 * 1024
#: Characters of an input that is answered with one file, which is made in memory.
MAX_WHOLE_CHARACTERS: Final = 16 * 1024
#: OpenVINO Model Server's default.
DEFAULT_LANGUAGE: Final = "en-us"
#: Longer names of languages are none.
_LANGUAGE_CHARACTERS: Final = 64


def _input(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise RequestError("input field is not a string", param=path)
    if len(value) > MAX_CHARACTERS:
        raise RequestError(
            f"input has {len(value)} characters, and {MAX_CHARACTERS} are the maximum; send it in "
            "parts",
            param=path,
        )
    if not has_words(value):
        raise RequestError(
            "input has nothing to speak: it must have a letter, a digit or a symbol", param=path
        )
    return value


def _voice(value: Any, path: str) -> str:
    if isinstance(value, dict):
        check_object(value, path, ("id",))
        value = value.get("id")
    if not isinstance(value, str):
        raise RequestError("voice field is not a string", param=path)
    return value


def _language(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise RequestError("language field is not a string", param=path)
    if len(value) > _LANGUAGE_CHARACTERS or not value.isascii():
        raise RequestError("language is a code such as en-us", param=path)
    return value


def _speed(value: Any, path: str) -> float:
    if type(value) is not int and type(value) is not float:
        raise RequestError("speed field is not a number", param=path)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # the model knows the bounds


SPEECH_MEMBERS: Final[Members] = table(
    honoured("model", STRING, "The name of the model.", is_required=True, minLength=1),
    honoured(
        "input",
        Value(string(minLength=1, maxLength=MAX_CHARACTERS), _input),
        "The text to speak. It is spoken sentence by sentence.",
        is_required=True,
    ),
    honoured(
        "voice",
        Value(one_of(string(), record({"id": string()}, required=("id",))), _voice),
        "One of /v3/audio/voices; may be absent if the model has a voice of its own.",
    ),
    honoured(
        "response_format",
        Enumeration(tuple(FORMATS)),
        "The form of the sound; by default WAV with 32-bit floats. pcm has 24,000 signed 16-bit "
        "samples a second, little-endian.",
    ),
    honoured(
        "speed",
        Value(number(exclusiveMinimum=0), _speed),
        "1 is natural. The bounds are the graph's, by default 0.25 and 4.",
    ),
    honoured(
        "language",
        Value(string(maxLength=_LANGUAGE_CHARACTERS, pattern=r"^[\x00-\x7f]*$"), _language),
        f"For models of several languages; by default {DEFAULT_LANGUAGE}.",
    ),
    honoured(
        "stream_format",
        Enumeration(("audio", "sse")),
        "audio sends the file while it is being made, sse sends its parts as events with Base64.",
    ),
    honoured("timeout", Value()),  # the front reads it, and knows the schema
    ignored("says who asks", "user safety_identifier metadata"),
    refused(
        "is not supported: the model's voices cannot be directed; choose another voice or speed",
        "instructions",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpokenRequest:
    """A text to speak, checked as far as that needs no model.

    Attributes:
        voice: a name, or "" if none was named.
        language: a code, or "" if none was named.
        format: the form of the sound.
        streams: send sound while later sentences are being made.
        is_events: send it as server-sent events.
    """

    text: str
    voice: str
    language: str
    speed: float
    format: SoundFormat
    streams: bool
    is_events: bool


def parse_speech_request(body: object) -> SpokenRequest:
    """Return the request of a parsed JSON body.

    Raises:
        RequestError: INVALID_ARGUMENT, with the member that is wrong, or that is not known.
    """
    members = fields.body_object(body)
    if members.get("input") is None:
        raise RequestError("input field is missing in JSON body", param="input")
    read = read_members(members, SPEECH_MEMBERS)
    name, stream = read.get("response_format"), read.get("stream_format")
    form = FLOAT_WAV if name is None else FORMATS[name]
    streams = stream is not None or not form.has_length
    if not streams and len(read["input"]) > MAX_WHOLE_CHARACTERS:
        raise RequestError(
            f"input has {len(read['input'])} characters, and {MAX_WHOLE_CHARACTERS} are the "
            "maximum of an answer in one piece; set stream_format to audio",
            param="input",
        )
    return SpokenRequest(
        text=read["input"],
        voice=read.get("voice", ""),
        language=read.get("language", ""),
        speed=read.get("speed", 1.0),
        format=form,
        streams=streams,
        is_events=stream == "sse",
    )
