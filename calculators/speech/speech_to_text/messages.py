"""The protocol between the server and a process with a speech model; MessagePack.

A sound, or a part of a long one, is any number of `Samples` and a `Recognize`. The answer is any
number of `SpokenPiece`s and a `Recognized`, a `SpeechFailed` or a `Stopped`. `CancelSpeech` may
come at any time, and `Yield` during a part.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from calculators.kit.child_process.messages import LoadFailed, LoadingPhase, Log, StopChild

#: Samples per second that speech models hear, and samples of a window, which they hear at once.
SAMPLE_RATE: Final = 16_000
WINDOW: Final = 30 * SAMPLE_RATE


class RecognizerLoad(msgspec.Struct, frozen=True, tag="load", array_like=True):
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


class RecognizerReady(msgspec.Struct, frozen=True, tag="ready", array_like=True):
    """The model is loaded."""


class Samples(msgspec.Struct, frozen=True, tag="samples", array_like=True):
    """A part of a sound, as `calculators.speech.audio.sound` has samples; at 16 kHz."""

    pcm: memoryview


class Recognize(msgspec.Struct, frozen=True, tag="recognize", array_like=True):
    """Turn the sound whose samples were sent into text.

    Attributes:
        number: of the sound or part; each has its own.
        language: as the model wants it; "" if it is not given.
        translates: translate to English.
        prompt, hotwords: "" if they are not given.
        temperature: 0: greedy.
        segments, words: find times of segments, of words.
        windows: of a part of a long sound: windows of 30 s to hear at most; 0: the samples are a
            whole sound.
        is_last: the part is the rest of its sound.
    """

    number: int
    language: str
    translates: bool
    prompt: str
    hotwords: str
    temperature: float
    segments: bool
    words: bool
    windows: int = 0
    is_last: bool = True


class Yield(msgspec.Struct, frozen=True, tag="yield", array_like=True):
    """Stop a part after a window, because others wait."""

    number: int


class CancelSpeech(msgspec.Struct, frozen=True, tag="cancel", array_like=True):
    """Stop the recognition of a sound, if it has not ended."""

    number: int


class SpokenPiece(msgspec.Struct, frozen=True, tag="piece", array_like=True):
    """New text of the current sound."""

    text: str


class Recognized(msgspec.Struct, frozen=True, tag="recognized", array_like=True):
    """The end of a sound.

    Attributes:
        language: its code, or what the model says; "" if nothing.
        segments: start and end in seconds, text, tokens; an end of -1 is not known.
        words: start and end in seconds, text.
        samples: the number of samples of the part that were heard; the next part begins after them.
    """

    text: str
    language: str
    segments: list[tuple[float, float, str, list[int]]]
    words: list[tuple[float, float, str]]
    samples: int


class SpeechFailed(msgspec.Struct, frozen=True, tag="failed", array_like=True):
    """The sound could not be turned into text; the log says why."""


class Stopped(msgspec.Struct, frozen=True, tag="stopped", array_like=True):
    """The recognition was cancelled."""


ToModel = RecognizerLoad | Samples | Recognize | Yield | CancelSpeech | StopChild
FromModel = (
    RecognizerReady
    | LoadingPhase
    | LoadFailed
    | Log
    | SpokenPiece
    | Recognized
    | SpeechFailed
    | Stopped
)

to_model_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(ToModel)
from_model_decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(FromModel)
encode = msgspec.msgpack.Encoder().encode
