"""The protocol between the server and a process with a speech model; MessagePack.

A sound is any number of `Samples` and a `Recognize`. The answer is any number of `Piece`s and a
`Recognized`, a `Failed` or a `Stopped`. `Cancel` may come at any time.
"""

from __future__ import annotations

from typing import Any

import msgspec

from calculators.child_process.messages import LoadFailed, Loading, Log, Stop


class Load(msgspec.Struct, frozen=True, tag="load", array_like=True):
    """The first message.

    Attributes:
        model_path: the model's directory.
        memory_limit: bytes that the process may grow by when it has loaded.
        device: OpenVINO's name of the device.
        properties: OpenVINO's properties.
        finds_words: the model is loaded so that it can report the times of words.
    """

    model_path: str
    memory_limit: int
    device: str
    properties: dict[str, Any]
    finds_words: bool


class Ready(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The model is loaded."""


class Samples(msgspec.Struct, frozen=True, tag="samples", array_like=True):
    """A part of a sound, as `calculators.audio.pcm` has samples; at 16 kHz."""

    pcm: memoryview


class Recognize(msgspec.Struct, frozen=True, tag="recognize", array_like=True):
    """Turn the sound whose samples were sent into text.

    Attributes:
        number: of the sound; each has its own.
        language: as the model wants it; "" if it is not given.
        translates: translate to English.
        prompt, hotwords: "" if they are not given.
        temperature: 0: greedy.
        segments, words: find times of segments, of words.
    """

    number: int
    language: str
    translates: bool
    prompt: str
    hotwords: str
    temperature: float
    segments: bool
    words: bool


class Cancel(msgspec.Struct, frozen=True, tag="cancel", array_like=True):
    """Stop the recognition of a sound, if it has not ended."""

    number: int


class Piece(msgspec.Struct, frozen=True, tag="piece", array_like=True):
    """New text of the current sound."""

    text: str


class Recognized(msgspec.Struct, frozen=True, tag="recognized", array_like=True):
    """The end of a sound.

    Attributes:
        language: its code, or what the model says; "" if nothing.
        segments: start and end in seconds, text, tokens; an end of -1 is not known.
        words: start and end in seconds, text.
    """

    text: str
    language: str
    segments: list[tuple[float, float, str, list[int]]]
    words: list[tuple[float, float, str]]


class Failed(msgspec.Struct, frozen=True, tag="failed", array_like=True):
    """The sound could not be turned into text; the log says why."""


class Stopped(msgspec.Struct, frozen=True, tag="stopped", array_like=True):
    """The recognition was cancelled."""


ToModel = Load | Samples | Recognize | Cancel | Stop
FromModel = Ready | Loading | LoadFailed | Log | Piece | Recognized | Failed | Stopped

to_model_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToModel)
from_model_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromModel)
encode = msgspec.msgpack.Encoder().encode
